/** Each kind of entry as an element of the log. */

import type { Card, Delivery, Entry, Notice, Reply, Said } from '../conversation.ts';
import { textOf } from '../conversation.ts';
import { parseBlocks } from '../markdown/blocks.ts';
import { MarkdownView } from '../markdown/render.ts';
import { clock } from '../words.ts';
import { CardView } from './card.ts';
import { element } from './dom.ts';
import { ReceivedView, SharedView } from './file.ts';

export interface EntryView {
  readonly root: HTMLElement;
  /** The entry has changed. */
  update(): void;
  /** The entry is gone: timers stop, memory is given back. */
  end(): void;
}

export interface LogActions {
  answer(card: Card, optionId: string, text: string): void;
  connected(): boolean;
  maxTextChars(): number;
  announce(text: string): void;
  enlarge(url: string, alt: string): void;
}

export function viewOf(entry: Entry, actions: LogActions): EntryView {
  switch (entry.kind) {
    case 'said':
      return new SaidView(entry);
    case 'shared':
      return new SharedView(entry, actions);
    case 'reply':
      return new ReplyView(entry);
    case 'card':
      return new CardView(entry, actions);
    case 'received':
      return new ReceivedView(entry, actions);
    case 'notice':
      return new NoticeView(entry);
  }
}

/** A bubble with the time below it, labelled with who speaks. */
export function entryFrame(
  entry: Entry,
  classes: string,
  who: string,
  ...content: readonly HTMLElement[]
): HTMLElement {
  const time = clock(entry.time);
  return element(
    'article',
    { class: `entry ${classes}`, 'aria-label': `${who}, ${time}`, 'data-testid': entry.kind },
    element('div', { class: 'bubble' }, ...content),
    element('time', { datetime: new Date(entry.time).toISOString() }, time),
  );
}

export function deliveryLine(): HTMLElement {
  return element('p', { class: 'delivery', 'data-testid': 'delivery' });
}

export function showDelivery(line: HTMLElement, delivery: Delivery): void {
  line.dataset['state'] = delivery.state;
  switch (delivery.state) {
    case 'waiting':
      line.replaceChildren('Waiting…');
      break;
    case 'sending': {
      const value = String(delivery.progress);
      const bar = element('progress', { max: '1', value, 'aria-label': 'Sending' });
      line.replaceChildren(`Sending, ${Math.round(delivery.progress * 100)} %`, bar);
      break;
    }
    case 'sent':
      line.replaceChildren();
      break;
    case 'failed':
      line.replaceChildren(`Not sent. ${delivery.why}`);
  }
}

class SaidView implements EntryView {
  readonly root: HTMLElement;
  readonly #entry: Said;
  readonly #delivery = deliveryLine();

  constructor(entry: Said) {
    this.#entry = entry;
    this.root = entryFrame(
      entry,
      'said',
      'You',
      element('p', { class: 'text', dir: 'auto' }, entry.text),
    );
    this.root.append(this.#delivery);
    this.update();
  }

  update(): void {
    showDelivery(this.#delivery, this.#entry.delivery);
  }

  end(): void {}
}

/** Drawing takes at most this part of the time, however long a message grows. */
const DRAWING_SHARE = 0.2;

class ReplyView implements EntryView {
  readonly root: HTMLElement;
  readonly #entry: Reply;
  readonly #markdown: MarkdownView;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pause = 0;

  constructor(entry: Reply) {
    this.#entry = entry;
    const content = element('div', { class: 'markdown', dir: 'auto' });
    this.#markdown = new MarkdownView(content);
    this.root = entryFrame(entry, 'reply', 'Hermes', content);
    this.#draw();
  }

  update(): void {
    this.#timer ??= setTimeout(() => this.#draw(), this.#pause);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #draw(): void {
    const started = performance.now();
    this.#timer = undefined;
    this.#markdown.show(parseBlocks(textOf(this.#entry)));
    this.root.dataset['finished'] = String(this.#entry.finished);
    this.#pause = (performance.now() - started) / DRAWING_SHARE;
  }
}

class NoticeView implements EntryView {
  readonly root: HTMLElement;

  constructor({ problem, detail, key }: Notice) {
    const text = [element('strong', {}, `${problem.title}.`), ` ${problem.advice}`];
    if (detail !== '') text.push(element('small', {}, `The server said: ${detail}`));
    const attributes = { class: 'entry notice', 'data-testid': 'notice', id: key };
    this.root = element('article', attributes, element('p', {}, ...text));
  }

  update(): void {}

  end(): void {}
}

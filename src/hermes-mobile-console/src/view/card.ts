/** A card: the question, the exact command beside the buttons, and the time that is left. */

import { parts, question } from '../command.ts';
import type { Card } from '../conversation.ts';
import { length, minutes } from '../words.ts';
import { Arming } from './arming.ts';
import { element } from './dom.ts';
import type { EntryView, LogActions } from './entries.ts';

const OTHER = 'other';
/** A screen reader is told at this many seconds before the end. */
const LAST_CALL = 30;

export class CardView implements EntryView {
  readonly root: HTMLElement;
  readonly #card: Card;
  readonly #actions: LogActions;
  readonly #buttons = element('div', { class: 'options' });
  readonly #other: OtherAnswer | null;
  readonly #time = element('p', { class: 'time', role: 'timer', 'data-testid': 'time-left' });
  readonly #outcome = element('p', { class: 'outcome', 'data-testid': 'outcome' });
  readonly #arming: Arming;
  readonly #ticking: ReturnType<typeof setInterval>;
  #called = false;
  #ended = false;

  constructor(card: Card, actions: LogActions) {
    const { prompt } = card;
    this.#card = card;
    this.#actions = actions;
    const title = element('h2', { id: `${card.key}-title`, dir: 'auto' }, question(prompt));
    this.root = element('article', {
      class: 'entry card',
      tabindex: '-1',
      'aria-labelledby': title.id,
      'data-testid': 'card',
      'data-kind': prompt.kind,
    });
    this.root.append(title, ...this.#details(), this.#time, this.#buttons, this.#outcome);

    const wordsOnly = prompt.kind === 'clarify' && prompt.options.length === 0;
    const hasOther = wordsOnly || prompt.options.some((option) => option.id === OTHER);
    this.#other = hasOther
      ? new OtherAnswer(card, actions, (text) => this.#choose(OTHER, text))
      : null;
    if (this.#other !== null) this.#outcome.before(this.#other.root);
    this.#addButtons();
    const command = this.root.querySelector('.command');
    this.#arming = new Arming(command, this.#buttons.children, () => this.update());
    this.#ticking = setInterval(() => this.#tick(), 1000);
    this.update();
  }

  /** Whether it takes an answer: then nothing may move it from under a finger. */
  get open(): boolean {
    return this.#card.answer.state === 'open' && this.#secondsLeft() > 0;
  }

  update(): void {
    const { answer } = this.#card;
    this.root.dataset['state'] = answer.state;
    const usable = this.open && this.#actions.connected();
    for (const button of this.#buttons.querySelectorAll('button')) {
      // Not `disabled`: a keyboard must be able to stay on it, and a screen reader to find it.
      button.setAttribute('aria-disabled', String(!(usable && this.#arming.armed(button))));
    }
    this.#other?.allow(usable);
    const asked = answer.state === 'open';
    this.#buttons.hidden = !asked;
    if (this.#other !== null && !asked) this.#other.root.hidden = true;
    this.#time.hidden = !asked;
    this.#time.textContent = this.#timeInWords();
    this.#outcome.textContent = this.#outcomeInWords();
    // What had the focus goes: then the card has it, not the top of the page.
    const focused = document.activeElement;
    if (this.root.contains(focused) && focused?.closest('[hidden]')) this.root.focus();
    if (answer.state === 'closed' || answer.state === 'expired') this.#close();
  }

  end(): void {
    clearInterval(this.#ticking);
    this.#arming.end();
  }

  #close(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.end();
    // Who answered has the focus here, and hears it; who did not has to be told.
    if (this.#card.answer.state === 'expired') this.#actions.announce(this.#outcomeInWords());
  }

  #details(): HTMLElement[] {
    const { command, description } = this.#card.prompt;
    const shown: HTMLElement[] = [];
    if (command !== undefined && command !== '') {
      const lines = command.split('\n').length;
      const text = parts(command).map((part) =>
        part.hidden
          ? element('mark', { title: 'A character that is not seen' }, part.text)
          : part.text,
      );
      shown.push(
        element(
          'pre',
          {
            class: 'command',
            tabindex: '0',
            role: 'region',
            'aria-label': 'Command',
            dir: 'ltr',
            'data-testid': 'command',
          },
          element('code', {}, ...text),
        ),
      );
      if (lines > 8 || command.length > 600) {
        const extent = `${length(command)} characters, ${lines === 1 ? '1 line' : `${lines} lines`}`;
        shown.push(element('p', { class: 'hint' }, `${extent}: scroll to read all of it.`));
      }
    }
    if (description !== undefined && description !== '') {
      shown.push(element('p', { class: 'description', dir: 'auto' }, description));
    }
    return shown;
  }

  #addButtons(): void {
    for (const option of this.#card.prompt.options) {
      const style = option.style === 'primary' || option.style === 'danger' ? option.style : '';
      const button = element(
        'button',
        { type: 'button', class: style, 'data-option': option.id },
        option.label,
      );
      button.addEventListener('click', () => {
        if (button.getAttribute('aria-disabled') === 'true') return;
        if (option.id === OTHER) this.#other?.open();
        else this.#choose(option.id, '');
      });
      this.#buttons.append(button);
    }
    // A question without choices wants words: there is nothing else to press.
    if (this.#card.prompt.options.every((option) => option.id === OTHER)) {
      this.#buttons.replaceChildren();
      if (this.#other !== null) this.#other.root.hidden = false;
    }
  }

  #choose(optionId: string, text: string): void {
    this.#actions.answer(this.#card, optionId, text);
  }

  #secondsLeft(): number {
    return (this.#card.deadline - Date.now()) / 1000;
  }

  #tick(): void {
    const left = Math.ceil(this.#secondsLeft());
    if (left <= LAST_CALL && left > 0 && !this.#called) {
      this.#called = true;
      this.#actions.announce(`${left} seconds left to answer.`);
    }
    if (left <= 0) this.update();
    else this.#time.textContent = this.#timeInWords();
  }

  #timeInWords(): string {
    if (!this.#actions.connected()) return 'No connection: the answer cannot be sent now.';
    const left = this.#secondsLeft();
    if (left <= 0) return 'The time is up.';
    const advice = this.#arming.commandMissed ? '. Read the command first: it is further up.' : '';
    return `${minutes(left)} left${advice}`;
  }

  #outcomeInWords(): string {
    const { answer, prompt } = this.#card;
    const label = (id: string): string =>
      prompt.options.find((option) => option.id === id)?.label ?? id;
    switch (answer.state) {
      case 'open':
        return '';
      case 'answering':
        return 'Sending your answer…';
      case 'expired':
        return EXPIRED[prompt.kind] ?? 'Expired.';
      case 'closed':
        if (answer.instead !== '') {
          return `You chose “${label(answer.instead)}”, but what counts is “${label(answer.optionId)}”.`;
        }
        if (answer.text !== '') return `Your answer: ${answer.text}`;
        return answer.optionId === OTHER
          ? 'Answered in words.'
          : `Answered: ${label(answer.optionId)}`;
    }
  }
}

const EXPIRED: Readonly<Record<string, string>> = {
  exec_approval: 'Expired: the command is not allowed.',
  slash_confirm: 'Expired: nothing was confirmed.',
  clarify: 'Expired without an answer.',
};

/** The words of one's own that a clarification takes. */
class OtherAnswer {
  readonly root: HTMLFormElement;
  readonly #text: HTMLTextAreaElement;
  readonly #send = element('button', { type: 'submit', class: 'primary' }, 'Send answer');
  readonly #problem = element('p', { class: 'problem', role: 'alert', hidden: true });

  constructor(card: Card, actions: LogActions, answer: (text: string) => void) {
    const id = `${card.key}-answer`;
    this.#text = element('textarea', { id, rows: '2', dir: 'auto' });
    this.root = element(
      'form',
      { class: 'other', hidden: true },
      element('label', { for: id }, 'Your answer'),
      this.#text,
      this.#problem,
      this.#send,
    );
    this.root.addEventListener('submit', (event) => {
      event.preventDefault();
      const text = this.#text.value;
      const most = actions.maxTextChars();
      this.#problem.hidden = length(text) <= most;
      this.#problem.textContent = `An answer has at most ${most} characters; this one has ${length(text)}.`;
      if (text.trim() !== '' && this.#problem.hidden && !this.#send.disabled) answer(text);
    });
  }

  open(): void {
    this.root.hidden = false;
    this.#text.focus();
  }

  allow(usable: boolean): void {
    this.#send.disabled = !usable;
  }
}

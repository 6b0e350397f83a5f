/** Files in both directions: shown where that is safe, and always to be saved. */

import type { Received, ReceivedFile, Shared } from '../conversation.ts';
import { preview, safeType, type Preview } from '../files.ts';
import { safeHref } from '../markdown/inline.ts';
import { renderLink } from '../markdown/render.ts';
import { size } from '../words.ts';
import { element, icon } from './dom.ts';
import {
  deliveryLine,
  entryFrame,
  showDelivery,
  type EntryView,
  type LogActions,
} from './entries.ts';

export class SharedView implements EntryView {
  readonly root: HTMLElement;
  readonly #entry: Shared;
  readonly #url: string;
  readonly #delivery = deliveryLine();

  constructor(entry: Shared, actions: LogActions) {
    this.#entry = entry;
    const { file } = entry;
    // A file of ours is as safe to show as any: its type decides, not its contents.
    this.#url = URL.createObjectURL(file.slice(0, file.size, safeType(file.type)));
    const shown = showFile(this.#url, entry.preview, file.name, entry.caption, actions);
    const line = fileLine(entry.preview, file.name, file.size);
    const caption =
      entry.caption === '' ? [] : [element('p', { class: 'text', dir: 'auto' }, entry.caption)];
    this.root = entryFrame(entry, 'said shared', 'You', shown, line, ...caption);
    this.root.append(this.#delivery);
    this.update();
  }

  update(): void {
    showDelivery(this.#delivery, this.#entry.delivery);
  }

  end(): void {
    URL.revokeObjectURL(this.#url);
  }
}

export class ReceivedView implements EntryView {
  readonly root: HTMLElement;
  readonly #entry: Received;
  readonly #actions: LogActions;
  readonly #content = element('div', { class: 'file' });
  #url = '';

  constructor(entry: Received, actions: LogActions) {
    this.#entry = entry;
    this.#actions = actions;
    this.root = entryFrame(entry, 'reply received', 'Hermes', this.#content);
    this.update();
  }

  update(): void {
    const { file, arrived } = this.#entry;
    if (file === null) this.#content.replaceChildren(arriving(arrived));
    else if (this.root.dataset['fileKind'] === undefined) this.#show(file);
  }

  end(): void {
    if (this.#url !== '') URL.revokeObjectURL(this.#url);
  }

  #show({ kind, name, mime, caption, content }: ReceivedFile): void {
    this.root.dataset['fileKind'] = kind;
    if (caption !== '') this.#content.after(element('p', { class: 'text', dir: 'auto' }, caption));
    if (typeof content === 'string') {
      this.#content.replaceChildren(linkTo(content, name));
      return;
    }
    this.#url = URL.createObjectURL(content);
    const type = preview(mime);
    const shown =
      kind === 'animation' && type === 'video'
        ? animation(this.#url)
        : showFile(this.#url, type, name, caption, this.#actions);
    const line = fileLine(type, name, content.size);
    line.append(' · ', element('a', { href: this.#url, download: name }, 'Save'));
    this.#content.replaceChildren(shown, line);
  }
}

/** The name, where it is not what is shown, and the size. */
function fileLine(kind: Preview, name: string, bytes: number): HTMLElement {
  const text = kind === 'none' ? size(bytes) : `${name} · ${size(bytes)}`;
  return element('p', { class: 'file-line' }, text);
}

function arriving(arrived: number): HTMLElement {
  const label = `Receiving a file, ${Math.round(arrived * 100)} %`;
  return element(
    'p',
    { class: 'delivery' },
    label,
    element('progress', { max: '1', value: String(arrived), 'aria-label': 'Receiving a file' }),
  );
}

function linkTo(url: string, name: string): HTMLElement {
  const href = safeHref(url);
  const line = element('p', { class: 'document' }, icon('file'));
  if (href === null) line.append(`${name}: its address cannot be opened here.`);
  else line.append(renderLink(href, [document.createTextNode(name)]), ` on ${new URL(href).host}`);
  return line;
}

function showFile(
  url: string,
  kind: Preview,
  name: string,
  caption: string,
  actions: LogActions,
): HTMLElement {
  switch (kind) {
    case 'image': {
      const alt = caption === '' ? name : caption;
      const image = element('img', { src: url, alt });
      const open = element(
        'button',
        { type: 'button', class: 'image', 'aria-label': `Enlarge: ${alt}` },
        image,
      );
      image.addEventListener('error', () => open.replaceWith(cannotShow(name)), { once: true });
      open.addEventListener('click', () => actions.enlarge(url, alt));
      return open;
    }
    case 'video':
    case 'audio': {
      const player = element(kind, {
        src: url,
        controls: true,
        preload: 'metadata',
        'aria-label': name,
      });
      player.addEventListener('error', () => player.replaceWith(cannotShow(name)), { once: true });
      return player;
    }
    case 'none':
      return element('p', { class: 'document' }, icon('file'), name);
  }
}

/** A moving picture without sound: it plays by itself where motion is welcome. */
function animation(url: string): HTMLElement {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const video = element('video', { src: url, loop: true, playsinline: true, controls: still });
  video.muted = true;
  video.autoplay = !still;
  return video;
}

function cannotShow(name: string): HTMLElement {
  return element(
    'p',
    { class: 'document' },
    icon('file'),
    `${name} cannot be shown by this browser.`,
  );
}

/** Where a message is written: text, files from the picker, the clipboard or a drop. */

import { refusal } from '../files.ts';
import { length, size } from '../words.ts';
import { element, icon } from './dom.ts';

export interface ComposerElements {
  readonly form: HTMLFormElement;
  readonly text: HTMLTextAreaElement;
  readonly problem: HTMLElement;
  readonly attachments: HTMLUListElement;
  readonly attach: HTMLButtonElement;
  readonly file: HTMLInputElement;
  readonly drop: HTMLElement;
}

export interface ComposerEvents {
  say(text: string): void;
  share(file: File, caption: string): void;
  typing(): void;
  maxFileBytes(): number;
  maxTextChars(): number;
  /** Whether the page shows the chat: elsewhere files are not dropped. */
  active(): boolean;
}

export class Composer {
  readonly #page: ComposerElements;
  readonly #events: ComposerEvents;
  #files: File[] = [];

  constructor(page: ComposerElements, events: ComposerEvents) {
    this.#page = page;
    this.#events = events;
    const { form, text, attach, file } = page;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    text.addEventListener('keydown', (event) => this.#keyPressed(event));
    text.addEventListener('input', () => this.#edited());
    text.addEventListener('paste', (event) => this.#pasted(event));
    attach.addEventListener('click', () => file.click());
    file.addEventListener('change', () => {
      this.attach([...(file.files ?? [])]);
      file.value = '';
    });
    this.#acceptDrops();
  }

  focus(): void {
    this.#page.text.focus();
  }

  /** Says what is wrong, above the text; an empty string takes it back. */
  complain(problem: string): void {
    this.#page.problem.hidden = problem === '';
    this.#page.problem.textContent = problem;
  }

  /** Lays files beside the text, to go with it; those that cannot be sent are refused here. */
  attach(files: readonly File[]): void {
    const limit = this.#events.maxFileBytes();
    const refusals = files.map((file) => refusal(file, limit));
    this.#files.push(...files.filter((_, at) => refusals[at] === null));
    this.complain(refusals.filter((why) => why !== null).join(' '));
    this.#showFiles();
    this.focus();
  }

  clear(): void {
    this.#files = [];
    this.#page.text.value = '';
    this.complain('');
    this.#showFiles();
    this.#fit();
  }

  #submit(): void {
    const { text } = this.#page;
    const written = text.value;
    const limit = this.#events.maxTextChars();
    const count = length(written);
    if (count > limit) {
      this.complain(`A message has at most ${limit} characters; this one has ${count}.`);
      return;
    }
    const files = this.#files;
    const blank = written.trim() === '';
    if (blank && files.length === 0) return;
    this.clear();
    const [first, ...others] = files;
    if (first === undefined) {
      this.#events.say(written);
      return;
    }
    this.#events.share(first, blank ? '' : written);
    for (const file of others) this.#events.share(file, '');
  }

  #keyPressed(event: KeyboardEvent): void {
    // On a screen keyboard the return key makes a line; a button to send is beside it. While an
    // input method composes, the key belongs to it.
    const touch = matchMedia('(pointer: coarse)').matches;
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || touch) return;
    event.preventDefault();
    this.#submit();
  }

  #edited(): void {
    this.#fit();
    this.complain('');
    if (this.#page.text.value !== '') this.#events.typing();
  }

  /** As high as its text; the style sheet says how high at most. */
  #fit(): void {
    const { text } = this.#page;
    text.style.height = 'auto';
    const border = text.offsetHeight - text.clientHeight;
    if (text.value !== '') text.style.height = `${text.scrollHeight + border}px`;
  }

  #pasted(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    // Office programs put a picture of the text beside the text: then the text is meant.
    if (files.length === 0 || event.clipboardData?.types.includes('text/plain')) return;
    event.preventDefault();
    this.attach(files);
  }

  #acceptDrops(): void {
    const { drop } = this.#page;
    const wanted = (event: DragEvent): boolean =>
      this.#events.active() && (event.dataTransfer?.types.includes('Files') ?? false);
    window.addEventListener('dragover', (event) => {
      if (!wanted(event)) return;
      event.preventDefault();
      drop.hidden = false;
    });
    window.addEventListener('dragleave', (event) => {
      // Out of the window; inside, each element that is left fires it too.
      if (event.relatedTarget === null) drop.hidden = true;
    });
    window.addEventListener('drop', (event) => {
      drop.hidden = true;
      if (!wanted(event)) return;
      event.preventDefault();
      this.attach([...(event.dataTransfer?.files ?? [])]);
    });
  }

  #showFiles(): void {
    const { attachments } = this.#page;
    attachments.hidden = this.#files.length === 0;
    attachments.replaceChildren(...this.#files.map((file) => this.#fileItem(file)));
  }

  #fileItem(file: File): HTMLElement {
    const label = `Do not send ${file.name}`;
    const remove = element(
      'button',
      { type: 'button', class: 'quiet', 'aria-label': label },
      icon('close'),
    );
    remove.addEventListener('click', () => {
      this.#files = this.#files.filter((other) => other !== file);
      this.#showFiles();
      this.focus();
    });
    const name = element('span', { class: 'name' }, file.name);
    return element(
      'li',
      { 'data-testid': 'attachment' },
      icon('file'),
      name,
      ` ${size(file.size)}`,
      remove,
    );
  }
}

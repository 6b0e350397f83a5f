/** The log of the conversation: shows the entries, and follows the newest unless the reader left. */

import type { Audience, Entry } from '../conversation.ts';
import { CardView } from './card.ts';
import { viewOf, type EntryView, type LogActions } from './entries.ts';

/** So near to the end, in CSS pixels, the reader is at the end. */
const NEAR = 40;

export interface LogElements {
  readonly log: HTMLElement;
  readonly entries: HTMLElement;
  readonly empty: HTMLElement;
  readonly newest: HTMLButtonElement;
  readonly newestText: HTMLElement;
}

export class LogView implements Audience {
  readonly #page: LogElements;
  readonly #actions: LogActions;
  readonly #views = new Map<string, EntryView>();
  #following = true;
  #lastTop = 0;

  constructor(page: LogElements, actions: LogActions) {
    this.#page = page;
    this.#actions = actions;
    page.log.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    page.newest.addEventListener('click', () => this.follow());
    // One observer for every reason to move: new entries, growing ones, images that have loaded, and
    // the keyboard of a phone that takes half of the screen.
    const resized = new ResizeObserver(() => this.#settle());
    resized.observe(page.entries);
    resized.observe(page.log);
  }

  added(entry: Entry): void {
    const view = viewOf(entry, this.#actions);
    this.#views.set(entry.key, view);
    this.#page.entries.append(view.root);
    this.#page.empty.hidden = true;
    const ours = entry.kind === 'said' || entry.kind === 'shared';
    if (entry.kind === 'card' && this.#following) this.#showFromTop(view.root);
    else if (ours) this.follow();
  }

  changed(entry: Entry): void {
    this.#views.get(entry.key)?.update();
    if (entry.kind === 'card' && entry.answer.state === 'answering') this.follow();
  }

  removed(entry: Entry): void {
    const view = this.#views.get(entry.key);
    view?.end();
    view?.root.remove();
    this.#views.delete(entry.key);
    this.#page.empty.hidden = this.#views.size > 0;
  }

  /** The connection has come or gone: what can be pressed has changed. */
  refreshCards(): void {
    for (const view of this.#views.values()) if (view instanceof CardView) view.update();
  }

  /** Goes to the end, and stays there. */
  follow(): void {
    this.#following = true;
    this.#page.newest.hidden = true;
    const { log } = this.#page;
    log.scrollTop = log.scrollHeight;
    this.#lastTop = log.scrollTop;
  }

  /** Shows an entry as a whole, or where it is higher than the log, its beginning. */
  #showFromTop(root: HTMLElement): void {
    this.follow();
    if (root.offsetHeight <= this.#page.log.clientHeight) return;
    root.scrollIntoView({ block: 'start' });
    this.#following = false;
  }

  #atEnd(): boolean {
    const { log } = this.#page;
    return log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
  }

  #scrolled(): void {
    const { scrollTop } = this.#page.log;
    // Only a reader goes up. That the end is further down now may be an entry that has just grown.
    if (this.#atEnd()) this.follow();
    else if (scrollTop < this.#lastTop) this.#following = false;
    this.#lastTop = scrollTop;
  }

  #settle(): void {
    if (this.#following && !this.#holding()) {
      this.follow();
      return;
    }
    this.#page.newest.hidden = this.#atEnd();
    this.#page.newestText.textContent =
      this.#openCards().length > 0 ? 'A question waits' : 'New messages';
  }

  #openCards(): CardView[] {
    const cards = [...this.#views.values()].filter((view) => view instanceof CardView);
    return cards.filter((card) => card.open);
  }

  /** An open card on the screen holds the log still: no button may slip under a finger. */
  #holding(): boolean {
    const { top, bottom } = this.#page.log.getBoundingClientRect();
    return this.#openCards().some((view) => {
      const box = view.root.getBoundingClientRect();
      return box.bottom <= bottom + NEAR && box.bottom > top;
    });
  }
}

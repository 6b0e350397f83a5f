/**
 * What a screen reader says. The log itself is not live: a streamed reply changes twenty times a
 * second, and is worth hearing once, when it is whole.
 */

import { element } from './dom.ts';

/** How long a sentence stays to be read, in milliseconds. */
const KEPT_MS = 15_000;
const MAX_SPOKEN = 2_000;

export class Announcer {
  readonly #polite: HTMLElement;
  readonly #urgent: HTMLElement;

  constructor(polite: HTMLElement, urgent: HTMLElement) {
    this.#polite = polite;
    this.#urgent = urgent;
  }

  say(text: string): void {
    speak(this.#polite, text);
  }

  /** Interrupts: for what waits for an answer. */
  interrupt(text: string): void {
    speak(this.#urgent, text);
  }
}

function speak(region: HTMLElement, text: string): void {
  const line = element('p', {}, text.slice(0, MAX_SPOKEN));
  region.append(line);
  setTimeout(() => line.remove(), KEPT_MS);
}

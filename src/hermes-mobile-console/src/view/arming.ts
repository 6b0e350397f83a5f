/** How long buttons have to be seen before they do anything, in milliseconds. */
const ARMING_MS = 800;
/** How much of them has to be seen. */
const SEEN = 0.9;

/**
 * Says when `target` has been on the screen for a moment. A card that has just come under a finger
 * that was about to tap something else must not take that tap as an answer.
 */
export class Arming {
  readonly #observer: IntersectionObserver;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #armed = false;

  constructor(target: Element, changed: (armed: boolean) => void) {
    const become = (armed: boolean): void => {
      if (armed === this.#armed) return;
      this.#armed = armed;
      changed(armed);
    };
    this.#observer = new IntersectionObserver(
      (seen) => {
        clearTimeout(this.#timer);
        if (seen.at(-1)?.isIntersecting) {
          this.#timer = setTimeout(() => become(true), ARMING_MS);
        } else {
          become(false);
        }
      },
      { threshold: SEEN },
    );
    this.#observer.observe(target);
  }

  get armed(): boolean {
    return this.#armed;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#observer.disconnect();
  }
}

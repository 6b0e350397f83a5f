/** How long something has to be on the screen to count as seen, in milliseconds. */
const SEEN_MS = 800;
/** How much of a button has to be on the screen. */
const BUTTON_SHARE = 0.9;
/** How much of a command: it may be higher than what a magnified screen shows of it at once. */
const COMMAND_SHARE = 0.5;

/**
 * Says when the buttons of a card work. Each has to have been on the screen for a moment, and before
 * that the command: a card that has just come under a finger that was about to tap something else must
 * not take that tap as an answer, and nobody approves what was never shown.
 */
export class Arming {
  readonly #timers = new Map<Element, ReturnType<typeof setTimeout>>();
  readonly #seen = new Set<Element>();
  readonly #command: Element | null;
  readonly #observer: IntersectionObserver;

  constructor(command: Element | null, buttons: Iterable<Element>, changed: () => void) {
    this.#command = command;
    this.#observer = new IntersectionObserver(
      (views) => {
        for (const view of views) this.#look(view, changed);
        changed();
      },
      { threshold: [COMMAND_SHARE, BUTTON_SHARE] },
    );
    if (command !== null) this.#observer.observe(command);
    for (const button of buttons) this.#observer.observe(button);
  }

  armed(button: Element): boolean {
    return this.#commandSeen && this.#seen.has(button);
  }

  /** Somebody is at the buttons without having seen the command. */
  get commandMissed(): boolean {
    return !this.#commandSeen && this.#seen.size > 0;
  }

  get #commandSeen(): boolean {
    return this.#command === null || this.#seen.has(this.#command);
  }

  end(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#observer.disconnect();
  }

  #look({ target, intersectionRatio }: IntersectionObserverEntry, changed: () => void): void {
    const isCommand = target === this.#command;
    const visible = intersectionRatio >= (isCommand ? COMMAND_SHARE : BUTTON_SHARE);
    if (visible && !this.#timers.has(target)) {
      const see = (): void => {
        this.#seen.add(target);
        changed();
      };
      this.#timers.set(target, setTimeout(see, SEEN_MS));
    } else if (!visible) {
      clearTimeout(this.#timers.get(target));
      this.#timers.delete(target);
      // What was read stays read; a button that comes back has to be seen anew.
      if (!isCommand) this.#seen.delete(target);
    }
  }
}

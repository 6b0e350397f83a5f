/**
 * What is to be sent, in order, one thing at a time: it waits while there is no connection, and until
 * what was sent before has left the browser. So a large file neither fills the memory nor the queue
 * of the server, and every entry can say how far it is.
 */

import type { Delivery, Said, Shared } from './conversation.ts';
import type { Progress } from './traffic.ts';

export interface Way {
  /** Whether there is a connection now. */
  connected(): boolean;
  /** Whether the client sends again by itself what a lost connection swallowed (T9). */
  resends(): boolean;
  measure(send: () => void): Progress;
  report(entry: Said | Shared, delivery: Delivery): void;
}

interface Parcel {
  readonly entry: Said | Shared;
  /** Reads what is needed, late and once; what it returns sends, always with the same id. */
  readonly prepare: () => Promise<() => void>;
}

/** How often the browser is asked what has left it, in milliseconds: it has no event for that. */
const POLL_MS = 50;

export class Outgoing {
  readonly #way: Way;
  #queue: Parcel[] = [];
  #running = false;
  #wake: () => void = () => {};

  constructor(way: Way) {
    this.#way = way;
  }

  send(entry: Said | Shared, prepare: Parcel['prepare']): void {
    this.#queue.push({ entry, prepare });
    void this.#run();
  }

  /** Goes on: there is a connection again. */
  wake(): void {
    this.#wake();
  }

  clear(): void {
    this.#queue = [];
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      await this.#post(next);
    }
    this.#running = false;
  }

  async #post(parcel: Parcel): Promise<void> {
    const { entry, prepare } = parcel;
    await this.#connection();
    let progress: Progress;
    try {
      const send = await prepare();
      await this.#connection();
      progress = this.#way.measure(send);
    } catch {
      this.#way.report(entry, { state: 'failed', why: 'It could not be read.' });
      return;
    }
    let done = progress();
    while (done !== null && done < 1) {
      this.#way.report(entry, { state: 'sending', progress: done });
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      done = progress();
    }
    if (done === null && !this.#way.resends()) {
      this.#way.report(entry, { state: 'waiting' });
      this.#queue.unshift(parcel);
    } else {
      await this.#connection();
      this.#way.report(entry, { state: 'sent' });
    }
  }

  async #connection(): Promise<void> {
    while (!this.#way.connected()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

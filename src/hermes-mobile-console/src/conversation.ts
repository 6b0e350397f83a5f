/**
 * What has been said, in the order it is shown. This is the model: it knows neither the page nor the
 * connection. Whoever shows it is told of each entry that is new, changed, or gone.
 */

import type { AgentMessage, PromptDonePayload, PromptPayload } from './client.ts';
import type { Preview } from './files.ts';
import type { Problem } from './words.ts';

/** Where something of ours is on its way. */
export type Delivery =
  | { readonly state: 'waiting' | 'sent' }
  /** From 0 to 1. */
  | { readonly state: 'sending'; readonly progress: number }
  | { readonly state: 'failed'; readonly why: string };

interface Common {
  /** Unique in the page. The protocol's ids are not: peers choose them. */
  readonly key: string;
  /** In milliseconds since the epoch. */
  readonly time: number;
}

/** A text of ours. */
export interface Said extends Common {
  readonly kind: 'said';
  readonly text: string;
  delivery: Delivery;
}

/** A file or a recording of ours. */
export interface Shared extends Common {
  readonly kind: 'shared';
  readonly file: File;
  readonly preview: Preview;
  readonly caption: string;
  delivery: Delivery;
}

/** A message of the agent, put together from its pieces. */
export interface Reply extends Common {
  readonly kind: 'reply';
  readonly id: string;
  readonly pieces: string[];
  finished: boolean;
}

export type CardState =
  | { readonly state: 'open' }
  | { readonly state: 'answering'; readonly optionId: string; readonly text: string }
  | {
      readonly state: 'closed';
      readonly optionId: string;
      readonly text: string;
      readonly instead: string;
    }
  | { readonly state: 'expired' };

/** A question of the agent. */
export interface Card extends Common {
  readonly kind: 'card';
  readonly prompt: PromptPayload;
  /** When it expires, in milliseconds since the epoch. */
  readonly deadline: number;
  answer: CardState;
}

/** What the agent sent: bytes, or an address to get them from. */
export interface ReceivedFile {
  /** The protocol's kind, such as `voice` or `animation`. */
  readonly kind: string;
  readonly name: string;
  readonly mime: string;
  readonly caption: string;
  readonly content: Blob | string;
}

/** A file of the agent; null while only the first chunks of it are here. */
export interface Received extends Common {
  readonly kind: 'received';
  readonly id: string;
  /** From 0 to 1. */
  arrived: number;
  file: ReceivedFile | null;
}

/** Something that went wrong, in words. */
export interface Notice extends Common {
  readonly kind: 'notice';
  readonly problem: Problem;
  readonly detail: string;
}

export type Entry = Said | Shared | Reply | Card | Received | Notice;

export interface Audience {
  added(entry: Entry): void;
  changed(entry: Entry): void;
  removed(entry: Entry): void;
}

/** How many entries the page keeps: beyond it the oldest go, and what they hold in memory. */
export const MAX_ENTRIES = 500;

export class Conversation {
  readonly #audience: Audience;
  readonly #now: () => number;
  #entries: Entry[] = [];
  #count = 0;

  constructor(audience: Audience, now: () => number = Date.now) {
    this.#audience = audience;
    this.#now = now;
  }

  get entries(): readonly Entry[] {
    return this.#entries;
  }

  say(text: string): Said {
    return this.#add({ ...this.#common(), kind: 'said', text, delivery: { state: 'waiting' } });
  }

  share(file: File, preview: Preview, caption: string): Shared {
    const delivery: Delivery = { state: 'waiting' };
    return this.#add({ ...this.#common(), kind: 'shared', file, preview, caption, delivery });
  }

  deliver(entry: Said | Shared, delivery: Delivery): void {
    entry.delivery = delivery;
    this.#audience.changed(entry);
  }

  notice(problem: Problem, detail = ''): void {
    this.#add({ ...this.#common(), kind: 'notice', problem, detail });
  }

  /**
   * Takes a piece of a message, or a newer state of it, and joins it to its others by id and number.
   * A piece that is there already changes nothing (T8); an id that is used again after its end is a
   * new message.
   */
  receive(message: AgentMessage): Reply {
    const { id, index, text } = message;
    let reply = this.#last((entry): entry is Reply => entry.kind === 'reply' && entry.id === id);
    if (reply?.finished) {
      if (!message.edit && reply.pieces[index] === text) return reply;
      reply = undefined;
    }
    if (reply === undefined) {
      const finished = message.final;
      return this.#add({
        ...this.#common(),
        kind: 'reply',
        id,
        pieces: pieces(index, text),
        finished,
      });
    }
    if (message.edit) reply.pieces.length = 0;
    reply.pieces[message.edit ? 0 : index] = text;
    reply.finished = message.final;
    this.#audience.changed(reply);
    return reply;
  }

  /** Takes note that `arrived`, from 0 to 1, of a file is here. */
  arriving(id: string, arrived: number): void {
    const entry = this.#unfinishedFile(id);
    if (entry === undefined) {
      this.#add({ ...this.#common(), kind: 'received', id, arrived, file: null });
    } else {
      entry.arrived = arrived;
      this.#audience.changed(entry);
    }
  }

  receiveFile(id: string, file: ReceivedFile): Received {
    const entry = this.#unfinishedFile(id);
    if (entry === undefined) {
      return this.#add({ ...this.#common(), kind: 'received', id, arrived: 1, file });
    }
    entry.arrived = 1;
    entry.file = file;
    this.#audience.changed(entry);
    return entry;
  }

  /** Shows a card. One that is open already stays: the server shows it anew after a reconnection. */
  ask(prompt: PromptPayload): Card {
    const shown = this.card(prompt.id);
    if (shown !== undefined) return shown;
    const deadline = this.#now() + prompt.timeout_seconds * 1000;
    return this.#add({
      ...this.#common(),
      kind: 'card',
      prompt,
      deadline,
      answer: { state: 'open' },
    });
  }

  /** The card of that id that was shown last. */
  card(id: string): Card | undefined {
    return this.#last((entry): entry is Card => entry.kind === 'card' && entry.prompt.id === id);
  }

  answering(card: Card, optionId: string, text: string): void {
    card.answer = { state: 'answering', optionId, text };
    this.#audience.changed(card);
  }

  /** Opens again the cards whose answers may have been lost: the first one counts (D21). */
  reopen(): void {
    for (const entry of this.#entries) {
      if (entry.kind === 'card' && entry.answer.state === 'answering') {
        entry.answer = { state: 'open' };
        this.#audience.changed(entry);
      }
    }
  }

  /** Closes a card with the option that counts, which need not be the one that was chosen. */
  close(done: PromptDonePayload): Card | undefined {
    const card = this.card(done.id);
    if (card === undefined || card.answer.state === 'closed') return card;
    const optionId = done.option_id ?? '';
    if (done.expired === true || optionId === '') {
      card.answer = { state: 'expired' };
    } else {
      const chosen = card.answer.state === 'answering' ? card.answer : { optionId, text: '' };
      const instead = chosen.optionId === optionId ? '' : chosen.optionId;
      card.answer = { state: 'closed', optionId, text: chosen.text, instead };
    }
    this.#audience.changed(card);
    return card;
  }

  /** Drops what a lost connection has left half arrived: it comes again from its first part. */
  dropUnfinishedFiles(): void {
    const lost = this.#entries.filter((entry) => entry.kind === 'received' && entry.file === null);
    for (const entry of lost) this.#remove(entry);
  }

  clear(): void {
    for (const entry of [...this.#entries]) this.#remove(entry);
  }

  #common(): Common {
    this.#count += 1;
    return { key: `entry-${this.#count}`, time: this.#now() };
  }

  #add<T extends Entry>(entry: T): T {
    this.#entries.push(entry);
    this.#audience.added(entry);
    // An open card stays, however much is said meanwhile: somebody waits for its answer.
    const oldest = this.#entries.find((other) => !isPending(other));
    if (this.#entries.length > MAX_ENTRIES && oldest !== undefined) this.#remove(oldest);
    return entry;
  }

  #remove(entry: Entry): void {
    this.#entries = this.#entries.filter((other) => other !== entry);
    this.#audience.removed(entry);
  }

  #last<T extends Entry>(wanted: (entry: Entry) => entry is T): T | undefined {
    for (let at = this.#entries.length - 1; at >= 0; at--) {
      const entry = this.#entries[at]!;
      if (wanted(entry)) return entry;
    }
    return undefined;
  }

  #unfinishedFile(id: string): Received | undefined {
    return this.#last(
      (entry): entry is Received =>
        entry.kind === 'received' && entry.id === id && entry.file === null,
    );
  }
}

/** The text of a message as far as it is here. */
export function textOf(reply: Reply): string {
  return reply.pieces.join('');
}

function pieces(index: number, text: string): string[] {
  const list: string[] = [];
  list[index] = text;
  return list;
}

function isPending(entry: Entry): boolean {
  switch (entry.kind) {
    case 'card':
      return entry.answer.state === 'open' || entry.answer.state === 'answering';
    case 'said':
    case 'shared':
      return entry.delivery.state === 'waiting' || entry.delivery.state === 'sending';
    default:
      return false;
  }
}

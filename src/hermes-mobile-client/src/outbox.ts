// Messages on their way to the gateway, within bounds.

import { encode, type AppFrame } from './frames.js';

const MAX_MESSAGES = 64;
const MAX_FRAMES = 64;
// Counted in characters, which are bytes in base64: in nothing else does a message get large.
const MAX_SIZE = 16 * 1024 * 1024;

const MAX_ID_CHARS = 128;

/** What one call of the app sends: one frame, or a file's. */
export interface Outgoing {
  readonly frames: readonly string[];
  readonly size: number;
  /** The id in the gateway's receipt; undefined for what gets none. */
  readonly receipt: string | undefined;
}

export function outgoing(frames: readonly AppFrame[], receipt?: string): Outgoing {
  const encoded = frames.map(encode);
  return {
    frames: encoded,
    size: encoded.reduce((size, frame) => size + frame.length, 0),
    receipt: receipt && idOnTheWire(receipt),
  };
}

/** An id as the gateway reads it and gives it back (D12). */
function idOnTheWire(id: string): string {
  return Array.from(id.trim()).slice(0, MAX_ID_CHARS).join('');
}

/** Messages sent between `connect()` and the first `ready` (T1). */
export class Held {
  readonly messages: Outgoing[] = [];
  private frames = 0;
  private size = 0;

  /** Returns whether there was room. */
  add(message: Outgoing): boolean {
    const frames = this.frames + message.frames.length;
    const size = this.size + message.size;
    if (frames > MAX_FRAMES || size > MAX_SIZE) return false;
    this.frames = frames;
    this.size = size;
    this.messages.push(message);
    return true;
  }
}

/** Messages that went out and are not accepted yet, oldest first (T9). */
export class Unaccepted {
  private messages: Outgoing[] = [];
  /** Too old or too large to be sent again; they may still be accepted. */
  private unrepeatable: Outgoing[] = [];
  private size = 0;

  add(message: Outgoing): void {
    this.messages.push(message);
    this.size += message.size;
    while (this.messages.length > MAX_MESSAGES || this.size > MAX_SIZE) {
      const { receipt, size } = this.messages.shift()!;
      this.unrepeatable.push({ frames: [], size: 0, receipt });
      this.size -= size;
    }
  }

  /** The gateway accepted the message, or refused it. */
  settle(receipt: string): void {
    if (remove(this.unrepeatable, receipt)) return;
    this.size -= remove(this.messages, receipt)?.size ?? 0;
  }

  /** The connection ended; returns how many messages are given up. */
  connectionEnded(): number {
    return this.unrepeatable.splice(0).length;
  }

  /** The messages to send again. */
  repeatable(): readonly Outgoing[] {
    return this.messages;
  }

  /** Forget all; returns how many there were. */
  clear(): number {
    const count = this.messages.length + this.unrepeatable.length;
    this.messages = [];
    this.unrepeatable = [];
    this.size = 0;
    return count;
  }
}

/** Remove and return the oldest message with this receipt. */
function remove(messages: Outgoing[], receipt: string): Outgoing | undefined {
  const index = messages.findIndex((message) => message.receipt === receipt);
  return index < 0 ? undefined : messages.splice(index, 1)[0];
}

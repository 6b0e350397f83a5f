import type { AgentMessage } from './types.js';

const REMEMBERED_IDS = 256;

/** Values by id, of the ids that came last. */
class Recent<Value> {
  private readonly values = new Map<string, Value>();

  get(id: string): Value | undefined {
    return this.values.get(id);
  }

  set(id: string, value: Value): void {
    this.values.delete(id);
    this.values.set(id, value);
    if (this.values.size > REMEMBERED_IDS) {
      const [oldest] = this.values.keys();
      this.values.delete(oldest!);
    }
  }
}

/** Ids that came last, each of which counts once. */
export class Once {
  private readonly ids = new Recent<true>();

  has(id: string): boolean {
    return this.ids.get(id) === true;
  }

  /** Returns whether the id is new. */
  add(id: string): boolean {
    const isNew = !this.has(id);
    this.ids.set(id, true);
    return isNew;
  }
}

interface Shown {
  message: AgentMessage;
  connection: number;
}

/** The newest state of every piece that the app was given, to know it when it comes again (T8). */
export class ShownMessages {
  private readonly pieces = new Recent<Map<number, Shown>>();
  private connection = 0;

  /** The connection ended: what the gateway does not know to have arrived, it tells again (D32). */
  connectionEnded(): void {
    this.connection += 1;
  }

  /** Returns the message as the app is to get it, or undefined for a repeat. */
  show(message: AgentMessage): AgentMessage | undefined {
    const pieces = this.pieces.get(message.id) ?? new Map<number, Shown>();
    const before = pieces.get(message.index);
    pieces.set(message.index, { message, connection: this.connection });
    this.pieces.set(message.id, pieces);
    if (before === undefined) return message;

    // A gateway that cannot know what was shown begins anew, without `edit` (D29).
    const beginsAnew = before.connection !== this.connection && message.edit !== true;
    const known = before.message;
    const unchanged = known.text === message.text && known.final === message.final;
    if (unchanged && (beginsAnew || known.edit === message.edit)) return undefined;
    return beginsAnew ? { ...message, edit: true } : message;
  }
}

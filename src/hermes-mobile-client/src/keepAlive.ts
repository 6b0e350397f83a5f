type Timer = ReturnType<typeof setTimeout>;

/** How often the outgoing bytes are looked at while an answer is due. */
const SAMPLE_MS = 1000;

export interface Link {
  /** Bytes given to the socket that it has not sent yet. */
  unsentBytes(): number;
  /** Returns whether the socket took the ping. */
  ping(): boolean;
  giveUp(): void;
}

/** Answers silence with a ping, and silence after that with giving up (T5). */
export class KeepAlive {
  private readonly link: Link;
  private readonly intervalMs: number;
  private readonly timeoutMs: number;
  private silence: Timer | undefined;
  private deadline: Timer | undefined;
  private sample: Timer | undefined;

  constructor(link: Link, intervalMs: number, timeoutMs: number) {
    this.link = link;
    this.intervalMs = intervalMs;
    this.timeoutMs = timeoutMs;
  }

  /** Something arrived. What the app sends is no life: a dead link takes it, too. */
  received(): void {
    this.stop();
    if (this.intervalMs > 0) this.silence = setTimeout(() => this.ask(), this.intervalMs);
  }

  stop(): void {
    clearTimeout(this.silence);
    clearTimeout(this.deadline);
    clearTimeout(this.sample);
  }

  private ask(): void {
    if (!this.link.ping()) {
      this.link.giveUp();
      return;
    }
    this.expectAnswer();
    this.watchUnsent();
  }

  private expectAnswer(): void {
    clearTimeout(this.deadline);
    this.deadline = setTimeout(() => this.link.giveUp(), this.timeoutMs);
  }

  /** A long upload delays the pong; as long as its bytes move, the link lives. */
  private watchUnsent(): void {
    const before = this.link.unsentBytes();
    this.sample = setTimeout(() => {
      if (this.link.unsentBytes() < before) this.expectAnswer();
      this.watchUnsent();
    }, SAMPLE_MS);
  }
}

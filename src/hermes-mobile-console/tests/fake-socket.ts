/** A WebSocket whose other side is the test. */

export class FakeSocket {
  static readonly all: FakeSocket[] = [];

  readonly url: string;
  readyState = 0;
  /** Grows with what is sent, until the test lets it go. */
  bufferedAmount = 0;
  readonly sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  readonly #listeners: ((event: { data: unknown }) => void)[] = [];

  constructor(url: string) {
    this.url = url;
    FakeSocket.all.push(this);
  }

  /** The one that was opened last. */
  static get last(): FakeSocket {
    return FakeSocket.all.at(-1)!;
  }

  addEventListener(_type: 'message', listener: (event: { data: unknown }) => void): void {
    this.#listeners.push(listener);
  }

  send(data: string): void {
    this.bufferedAmount += data.length;
    this.sent.push(JSON.parse(data));
  }

  close(): void {
    this.readyState = 3;
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  receive(frame: object): void {
    const event = { data: JSON.stringify(frame) };
    for (const listener of this.#listeners) listener(event);
    this.onmessage?.(event);
  }

  /** The connection ends. */
  end(code: number, reason = ''): void {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }

  /** The frames of a type that were sent. */
  frames(type: string): Record<string, unknown>[] {
    return this.sent.filter((frame) => frame['t'] === type);
  }
}

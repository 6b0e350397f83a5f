import { encode } from './frames.js';
import { KeepAlive } from './keepAlive.js';

/** `WebSocket.OPEN`, which not every runtime has as a constant. */
const OPEN = 1;

const NORMAL_CLOSURE = 1000;
const ABNORMAL_CLOSURE = 1006;

/** How long a close may be in coming after an error. In Node 22 it never comes where none opened. */
const CLOSE_GRACE_MS = 1000;

export interface ConnectionEvents {
  opened(): void;
  received(data: unknown): void;
  failed(): void;
  /** The end, by a close frame, an error or silence; nothing follows it. */
  ended(code: number): void;
}

/** One WebSocket, from its opening to its end. After that it tells nothing, whatever it does. */
export class Connection {
  private readonly socket: WebSocket;
  private readonly events: ConnectionEvents;
  private readonly keepAlive: KeepAlive;
  private closeDue: ReturnType<typeof setTimeout> | undefined;
  private live = true;

  /** Throws what the runtime's WebSocket throws for a `url` that is none. */
  constructor(
    url: string,
    options: { keepAliveMs: number; keepAliveTimeoutMs: number },
    events: ConnectionEvents,
  ) {
    this.events = events;
    this.keepAlive = new KeepAlive(
      {
        // React Native has no `bufferedAmount`.
        unsentBytes: () => this.socket.bufferedAmount ?? 0,
        ping: () => this.send([encode({ t: 'ping', ts: Date.now() })]),
        giveUp: () => this.end(ABNORMAL_CLOSURE),
      },
      options.keepAliveMs,
      options.keepAliveTimeoutMs,
    );
    this.socket = new WebSocket(url);
    this.socket.onopen = () => {
      if (!this.live) return;
      this.keepAlive.received();
      this.events.opened();
    };
    this.socket.onmessage = ({ data }) => {
      if (!this.live) return;
      this.keepAlive.received();
      this.events.received(data);
    };
    this.socket.onerror = () => {
      if (!this.live) return;
      this.closeDue = setTimeout(() => this.end(ABNORMAL_CLOSURE), CLOSE_GRACE_MS);
      this.events.failed();
    };
    this.socket.onclose = ({ code }) => this.end(code);
  }

  /** Returns whether the socket was open to take the frames. */
  send(frames: readonly string[]): boolean {
    if (!this.live || this.socket.readyState !== OPEN) return false;
    for (const frame of frames) this.socket.send(frame);
    return true;
  }

  /** Close the socket, without waiting for it. */
  abandon(): void {
    this.live = false;
    this.keepAlive.stop();
    clearTimeout(this.closeDue);
    this.socket.close(NORMAL_CLOSURE);
  }

  private end(code: number): void {
    if (!this.live) return;
    this.abandon();
    this.events.ended(code);
  }
}

/**
 * How much of what was sent has left the browser, and how much of a file has arrived. The SDK reports
 * whole messages and files only, so this watches the page's sockets themselves.
 */

type SocketClass = typeof WebSocket;

/** From 0 to 1; null when the connection it was sent over is gone. */
export type Progress = () => number | null;

interface Watched {
  /** All bytes ever handed to it. */
  readonly queued: number;
  readonly bufferedAmount: number;
  readonly readyState: number;
}

const OPEN = 1;

export class Traffic {
  #socket: Watched | null = null;
  readonly #arriving: (id: string, arrived: number) => void;

  constructor(arriving: (id: string, arrived: number) => void) {
    this.#arriving = arriving;
  }

  /** Returns a socket class to be used in place of `Socket`, which reports here. */
  watch(Socket: SocketClass): SocketClass {
    const opened = (socket: Watched): void => {
      this.#socket = socket;
    };
    const heard = (data: unknown): void => this.#heard(data);
    return class extends Socket {
      queued = 0;

      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        opened(this);
        this.addEventListener('message', (event: MessageEvent) => heard(event.data));
      }

      override send(data: string | ArrayBufferLike | Blob | ArrayBufferView): void {
        const before = this.bufferedAmount;
        super.send(data as string);
        this.queued += this.bufferedAmount - before;
      }
    };
  }

  /** Runs `send`, and returns how far what it sent has got. */
  measure(send: () => void): Progress {
    const socket = this.#socket;
    const start = socket?.queued ?? 0;
    send();
    const end = socket?.queued ?? 0;
    return () => {
      if (socket === null || socket !== this.#socket || socket.readyState !== OPEN) return null;
      if (end === start) return 1;
      const left = socket.queued - socket.bufferedAmount;
      return Math.max(0, Math.min(1, (left - start) / (end - start)));
    };
  }

  /** A look at a chunk on its way to the SDK, which will assemble the file. */
  #heard(data: unknown): void {
    // Frames are small but for media; anything else is not worth a second reading.
    if (typeof data !== 'string' || !data.slice(0, 200).includes('"media"')) return;
    let frame: unknown;
    try {
      frame = JSON.parse(data);
    } catch {
      return; // The SDK ignores it too (T7).
    }
    if (typeof frame !== 'object' || frame === null) return;
    const { t, id, part, parts } = frame as Record<string, unknown>;
    if (t !== 'media' || typeof id !== 'string') return;
    if (typeof part !== 'number' || typeof parts !== 'number' || part + 1 >= parts) return;
    this.#arriving(id, (part + 1) / parts);
  }
}

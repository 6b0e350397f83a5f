// A scripted gateway in place of the global WebSocket, and a client whose callbacks are noted.

import type { TestContext } from 'node:test';

import { HermesClient, type ClientOptions } from '../dist/esm/hermesClient.js';

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Frame = { [name: string]: Json };

/** The socket that the client opened; the test plays the other side. */
export class FakeSocket {
  readonly url: string;
  readyState = 0;
  bufferedAmount = 0;
  readonly sent: Frame[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  closedWith: number | undefined;

  constructor(url: string) {
    if (!URL.canParse(url)) throw new SyntaxError(`Invalid URL: ${url}`);
    this.url = url;
  }

  send(data: string): void {
    this.sent.push(JSON.parse(data) as Frame);
  }

  /** The client closes; a peer that does not answer leaves the socket in closing. */
  close(code: number): void {
    if (this.readyState === 3) return;
    this.closedWith = code;
    this.readyState = 2;
  }
}

export class Gateway {
  readonly sockets: FakeSocket[] = [];

  constructor(t: TestContext) {
    const { sockets } = this;
    class Scripted extends FakeSocket {
      constructor(url: string) {
        super(url);
        sockets.push(this);
      }
    }
    const original = globalThis.WebSocket;
    globalThis.WebSocket = Scripted as unknown as typeof WebSocket;
    t.after(() => {
      globalThis.WebSocket = original;
    });
  }

  /** The socket that was opened last. */
  get socket(): FakeSocket {
    const last = this.sockets.at(-1);
    if (!last) throw new Error('the client has opened no socket');
    return last;
  }

  opens(): void {
    this.socket.readyState = 1;
    this.socket.onopen?.();
  }

  sends(...frames: Frame[]): void {
    for (const frame of frames) this.sendsRaw(JSON.stringify(frame));
  }

  sendsRaw(data: unknown): void {
    this.socket.onmessage?.({ data });
  }

  /** Opens the socket and answers hello. */
  welcomes(capabilities: Frame = {}): void {
    this.opens();
    this.sends(ready(capabilities));
  }

  closes(code: number, reason = '', socket = this.socket): void {
    socket.readyState = 3;
    socket.onclose?.({ code, reason });
  }

  /** The connection cannot be made, or breaks. */
  fails(): void {
    this.socket.readyState = 3;
    this.socket.onerror?.();
    this.closes(1006);
  }

  /** What the client sent on the last socket, after hello. */
  get received(): Frame[] {
    return this.socket.sent.filter((frame) => frame['t'] !== 'hello');
  }
}

export function ready(capabilities: Frame = {}): Frame {
  return {
    t: 'ready',
    v: 1,
    session: 'mobile:tel-1',
    device: { id: 'tel-1', name: 'Phone' },
    avatar_url: '',
    capabilities: { text: true, voice: true, typing: true, ...capabilities },
  };
}

export const DEVICE = { id: 'tel-1', name: 'Phone', platform: 'android', appVersion: '1.0.0' };

export interface Stage {
  gateway: Gateway;
  client: HermesClient;
  /** The callbacks in the order of their calls: the name, then the arguments. */
  events: unknown[][];
  /** The events since the last look. */
  news(): unknown[][];
}

/** A client that faces a scripted gateway, on virtual time and with a random number of 0.5. */
export function stage(t: TestContext, options: Partial<ClientOptions> = {}): Stage {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  t.mock.method(Math, 'random', () => 0.5);
  const gateway = new Gateway(t);
  const events: unknown[][] = [];
  const note =
    (name: string) =>
    (...args: unknown[]): void => {
      events.push([name, ...args.filter((arg) => arg !== undefined)]);
    };
  const client = new HermesClient({
    url: 'wss://agent.example.com/ws',
    token: 's3cret',
    device: DEVICE,
    ...options,
    handlers: {
      onState: note('state'),
      onReady: note('ready'),
      onMessage: note('message'),
      onMessageEdit: note('edit'),
      onTyping: note('typing'),
      onTypingStop: note('typing stop'),
      onAvatar: note('avatar'),
      onPrompt: note('prompt'),
      onPromptDone: note('prompt done'),
      onMedia: note('media'),
      onError: note('error'),
      ...options.handlers,
    },
  });
  return { gateway, client, events, news: () => events.splice(0) };
}

/** The same, after `ready`. */
export function connected(
  t: TestContext,
  { capabilities = {}, ...options }: Partial<ClientOptions> & { capabilities?: Frame } = {},
): Stage {
  const set = stage(t, options);
  set.client.connect();
  set.gateway.welcomes(capabilities);
  set.news();
  return set;
}

/** Let time pass, ms by ms: within one `tick`, timers of timers would start at its end. */
export function pass(t: TestContext, ms: number): void {
  for (let n = 0; n < ms; n++) t.mock.timers.tick(1);
}

export const OFFLINE = ['error', { code: 'offline', message: 'Нет связи со шлюзом', fatal: false }];
export const TRANSPORT = [
  'error',
  { code: 'transport', message: 'Ошибка соединения со шлюзом', fatal: false },
];

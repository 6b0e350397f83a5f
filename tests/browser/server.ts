/** `hermes-mobile serve` with the demo agent, as a process of its own. */

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';

export const TOKEN = 'a-token-of-the-street';

export class Server {
  /** Of the WebSocket, as the server says it. */
  url = '';
  /** Of the console, with a slash at its end. */
  page = '';
  #process: ChildProcess | null = null;

  /** Listens when this is done: on free ports at first, and after `stop` on those it had. */
  async start(): Promise<void> {
    const environment = Object.entries(process.env).filter(([name]) => !name.startsWith('MOBILE_'));
    const child = spawn('hermes-mobile', ['serve'], {
      env: {
        ...Object.fromEntries(environment),
        MOBILE_TOKEN: TOKEN,
        MOBILE_PORT: port(this.url),
        MOBILE_HTTP_PORT: port(this.page),
        MOBILE_LOG_LEVEL: 'warning',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#process = child;
    for await (const line of createInterface(child.stdout)) {
      this.url = /ws:\/\/\S+/.exec(line)?.[0] ?? this.url;
      const page = /console +(\S+)/.exec(line)?.[1];
      if (page === undefined) continue;
      this.page = page;
      return;
    }
    throw new Error('the server ended before it said where the console is');
  }

  /** Ends it in an orderly way; returns its exit status. */
  async stop(): Promise<number | null> {
    const child = this.#process;
    if (child === null) return null;
    this.#process = null;
    const ended = once(child, 'exit') as Promise<[number | null]>;
    child.kill();
    return (await ended)[0];
  }

  /** The console with the token in the fragment, as `serve` prints it. */
  link(device: string): string {
    return `${this.page}#token=${TOKEN}&device=${device}`;
  }
}

/** A server for the tests of a `describe`. */
export function serving(): Server {
  const server = new Server();
  before(() => server.start());
  after(() => server.stop());
  return server;
}

function port(address: string): string {
  return address === '' ? '0' : new URL(address).port;
}

/** Headless Chromium, and tabs in which nothing may go wrong unnoticed. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, type TestContext } from 'node:test';
import type axe from 'axe-core';
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Locator,
  type Page,
} from 'playwright-core';
import type { Server } from './server.ts';

const EXECUTABLE = '/usr/bin/chromium';
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A microphone that beeps, and nobody who would have to allow it.
  '--use-fake-device-for-media-stream',
  '--use-fake-ui-for-media-stream',
];
const PATIENCE_MS = 20_000;

/** Why tests that need a browser are left out, or false. */
export const skip = existsSync(EXECUTABLE)
  ? false
  : `NOT TESTED: there is no ${EXECUTABLE}; on Debian, "apt-get install chromium" brings it`;

const PICTURES = `${import.meta.dirname}/screenshots`;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Chromium {
  readonly #server: Server;
  #browser: Browser | null = null;

  constructor(server: Server) {
    this.#server = server;
  }

  async start(): Promise<void> {
    this.#browser = await chromium.launch({ executablePath: EXECUTABLE, args: ARGUMENTS });
  }

  async stop(): Promise<void> {
    await this.#browser?.close();
  }

  /** A profile of its own, without a page: tabs in it share their storage. Ends with the test. */
  async profile(t: TestContext, options: BrowserContextOptions = {}): Promise<BrowserContext> {
    assert.ok(this.#browser);
    const context = await this.#browser.newContext({
      viewport: { width: 1280, height: 800 },
      ...options,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    // What the browser forbids is an event; this makes it an error in the log.
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
        console.error(`forbidden by ${violatedDirective}: ${blockedURI}`);
      });
    });
    t.after(() => context.close());
    return context;
  }

  /** An empty tab. The test fails if the browser has anything to complain about it at the end. */
  async tab(t: TestContext, profile?: BrowserContext): Promise<Tab> {
    const context = profile ?? (await this.profile(t));
    const tab = new Tab(await context.newPage(), this.#server);
    t.after(() => assert.deepEqual(tab.problems, []));
    return tab;
  }
}

/** A browser for the tests of a `describe`, which may go to the pages of `server` only. */
export function browsing(server: Server): Chromium {
  const browser = new Chromium(server);
  before(() => browser.start());
  after(() => browser.stop());
  return browser;
}

export class Tab {
  readonly page: Page;
  /** Errors and warnings in the log, violations of the policy, requests to anywhere else. */
  readonly problems: string[] = [];
  /** How many WebSockets the page has opened so far. */
  sockets = 0;
  /** Of errors that are no problem, because the test is about them. */
  expected = /^$/;
  readonly #server: Server;

  constructor(page: Page, server: Server) {
    this.page = page;
    this.#server = server;
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) this.#complain(message.text());
    });
    page.on('pageerror', (error) => this.#complain(error.message));
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (`${origin}/` === server.page || protocol === 'blob:' || protocol === 'data:') return;
      this.#complain(`request to ${request.url()}`);
    });
    page.on('websocket', (socket) => {
      this.sockets += 1;
      if (socket.url() !== server.url) this.#complain(`WebSocket to ${socket.url()}`);
    });
  }

  get message(): Locator {
    return this.page.getByRole('textbox', { name: 'Message' });
  }

  get cards(): Locator {
    return this.page.getByTestId('card');
  }

  /** Opens the console by the link that `serve` prints; it is connected when this is done. */
  async open(device: string): Promise<void> {
    await this.page.goto(this.#server.link(device));
    await this.connection('connected');
  }

  /** Waits until the connection is in `state`. */
  async connection(state: string): Promise<void> {
    await this.page.locator(`[data-testid=connection][data-state=${state}]`).waitFor();
  }

  async say(text: string): Promise<void> {
    await this.message.fill(text);
    await this.page.getByRole('button', { name: 'Send', exact: true }).click();
  }

  /** Waits for a reply that is whole and has `text` in it. */
  async reply(text: string | RegExp): Promise<Locator> {
    const reply = this.page
      .locator('[data-testid=reply][data-finished=true]')
      .filter({ hasText: text })
      .last();
    await reply.waitFor();
    return reply;
  }

  async banner(): Promise<string> {
    const banner = this.page.getByTestId('banner');
    await banner.waitFor();
    return banner.innerText();
  }

  /** Writes a picture of the page, to be looked at, once all that comes to rest has done so. */
  async photograph(name: string): Promise<void> {
    mkdirSync(PICTURES, { recursive: true });
    await this.page.evaluate(() =>
      Promise.allSettled(
        document
          .getAnimations()
          .filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity)
          .map(({ finished }) => finished),
      ),
    );
    await this.page.screenshot({ path: `${PICTURES}/${name}.png` });
  }

  /** What axe-core finds that is serious or critical, with the elements that it is about. */
  async barriers(): Promise<string[]> {
    await this.page.evaluate(`${AXE}; 0`);
    const { violations } = await this.page.evaluate(() =>
      (globalThis as unknown as { axe: typeof axe }).axe.run(),
    );
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  }

  #complain(problem: string): void {
    if (!this.expected.test(problem)) this.problems.push(problem);
  }
}

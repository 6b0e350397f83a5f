/** The npm package in Node, with the real server at the other end. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import {
  HermesClient,
  type AgentMessage,
  type ConnectionState,
  type MediaPayload,
  type PromptDonePayload,
  type PromptPayload,
  type ProtocolError,
} from 'hermes-mobile-client';
import { serving, TOKEN } from './server.ts';

const SAMPLES = join(import.meta.dirname, '../../src/hermes_mobile/agents/samples');

describe('the npm package in Node', () => {
  const server = serving();

  /** An app on a device of its own; it is connected when this is done. */
  async function open(t: TestContext, device: string): Promise<App> {
    const app = new App(t, server.url, TOKEN, device);
    app.client.connect();
    assert.equal(await app.states.take(), 'connecting');
    assert.equal(await app.states.take(), 'connected');
    return app;
  }

  it('follows a reply that is streamed', async (t) => {
    const app = await open(t, 'stream-1');
    app.client.sendText('/stream 9');
    const states = [await app.messages.take()];
    while (!states.at(-1)?.final) states.push(await app.messages.take());
    const [first, ...edits] = states;
    assert.ok(first && !first.edit);
    assert.ok(edits.length > 1 && edits.every(({ id, edit }) => id === first.id && edit));
    assert.equal(edits.at(-1)?.text, 'Sentence 1 of a hundred stands in its place.');
  });

  for (const [kind, asks, option, reply] of [
    ['exec_approval', '/run ls', 'once', 'Applied: once'],
    ['slash_confirm', '/confirm Delete?', 'cancel', 'Applied: cancel'],
    ['clarify', '/ask Which colour? | Red | Green', 'c1', 'Answer: Green'],
  ] as const) {
    it(`answers a card of the kind ${kind}`, async (t) => {
      const app = await open(t, `card-${kind}`);
      app.client.sendText(asks);
      const card = await app.cards.take();
      assert.equal(card.kind, kind);
      app.client.answerPrompt(card.id, option);
      assert.equal((await app.ended.take()).option_id, option);
      assert.equal(await app.reply(), reply);
    });
  }

  it('answers a question in words of one’s own', async (t) => {
    const app = await open(t, 'card-other');
    app.client.sendText('/ask Which colour? | Red | Green');
    app.client.answerPrompt((await app.cards.take()).id, 'other', 'Violet');
    assert.equal((await app.ended.take()).option_id, 'other');
    assert.equal(await app.reply(), 'Answer: Violet');
  });

  it('sends a picture by its path, in pieces, and receives one byte for byte', async (t) => {
    const app = await open(t, 'files-1');
    const path = join(SAMPLES, 'image.png');
    const bytes = readFileSync(path);
    app.client.sendImage({ path }, { caption: 'What is this?', chunkBytes: 1000 });
    assert.deepEqual((await app.reply()).split('\n'), [
      'kind: image',
      'name: image.png',
      'mime: image/png',
      `size: ${bytes.length} bytes`,
      `sha256: ${createHash('sha256').update(bytes).digest('hex')}`,
    ]);
    app.client.sendText('/image');
    const { kind, mime, data } = await app.files.take();
    assert.deepEqual([kind, mime], ['image', 'image/png']);
    assert.deepEqual(Buffer.from(data ?? '', 'base64'), bytes);
  });

  it('sends a voice note', async (t) => {
    const app = await open(t, 'voice-1');
    const recording = readFileSync(join(SAMPLES, 'voice.ogg'));
    app.client.sendAudio(recording.toString('base64'), 'ogg', 'Good morning');
    assert.equal(
      await app.reply(),
      `format: ogg\nsize: ${recording.length} bytes\ntranscript: Good morning`,
    );
  });

  it('survives a restart of the server', async (t) => {
    const app = await open(t, 'restart-1');
    await server.stop();
    assert.equal(await app.states.take(), 'reconnecting');
    await server.start();
    for (let state; state !== 'connected'; ) {
      state = await app.states.take();
      assert.match(state, /^(reconnecting|connected)$/);
    }
    app.client.sendText('Good morning');
    assert.equal(await app.reply(), 'Good morning');
  });

  it('is told that a token is wrong, and gives up', async (t) => {
    const app = new App(t, server.url, 'a wrong token', 'wrong-1');
    app.client.connect();
    assert.equal(await app.states.take(), 'connecting');
    assert.equal(await app.states.take(), 'failed');
    const errors = [await app.errors.take(), await app.errors.take()];
    assert.deepEqual(
      errors.map(({ code, fatal }) => [code, fatal]),
      [
        ['auth_failed', true], // the server's
        ['auth_failed', true], // the package's own
      ],
    );
  });

  it('gives way to a newer app on the same device, and stays quiet', async (t) => {
    const older = await open(t, 'twice-1');
    const newer = await open(t, 'twice-1');
    assert.equal(await older.states.take(), 'failed');
    assert.equal((await older.errors.take()).code, 'replaced');
    newer.client.sendText('Good morning');
    assert.equal(await newer.reply(), 'Good morning');
    assert.equal(older.messages.length + older.states.length, 0);
  });
});

/** A client, and all that it was told. */
class App {
  readonly client: HermesClient;
  readonly states = new Inbox<ConnectionState>();
  readonly messages = new Inbox<AgentMessage>();
  readonly cards = new Inbox<PromptPayload>();
  readonly ended = new Inbox<PromptDonePayload>();
  readonly files = new Inbox<MediaPayload>();
  readonly errors = new Inbox<ProtocolError>();

  constructor(t: TestContext, url: string, token: string, device: string) {
    this.client = new HermesClient({
      url,
      token,
      device: { id: device, name: 'Test', platform: 'node', appVersion: '1.0.0' },
      handlers: {
        onState: this.states.put,
        onMessage: this.messages.put,
        onMessageEdit: this.messages.put,
        onPrompt: this.cards.put,
        onPromptDone: this.ended.put,
        onMedia: this.files.put,
        onError: this.errors.put,
      },
    });
    t.after(() => this.client.disconnect());
  }

  /** The next reply, whole. */
  async reply(): Promise<string> {
    let text = '';
    for (;;) {
      const message = await this.messages.take();
      text = message.edit ? message.text : text + message.text;
      if (message.final) return text;
    }
  }
}

/** What a callback was called with, to be taken in that order. */
class Inbox<T> {
  readonly #items: T[] = [];
  #arrived: () => void = () => undefined;

  readonly put = (item: T): void => {
    this.#items.push(item);
    this.#arrived();
  };

  get length(): number {
    return this.#items.length;
  }

  async take(): Promise<T> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) return item;
      await new Promise<void>((resolve) => (this.#arrived = resolve));
    }
  }
}

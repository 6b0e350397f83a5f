// The wire as data: tests/vectors of this repository, which the server's tests read, too.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';

import {
  HermesClient,
  MEDIA_CHUNK_BYTES,
  PROTOCOL_VERSION,
  type ClientOptions,
} from '../dist/esm/hermesClient.js';
import { connected, DEVICE, Gateway, stage, type Frame, type Json } from './gateway.ts';

interface Named {
  name: string;
}
interface AppVector extends Named {
  expect?: Frame;
  error?: Frame;
}
interface ServerVector extends Named {
  frame: Frame;
  wire: Frame;
}
interface Exchange extends Named {
  steps: Step[];
}
interface Step {
  on?: string;
  connect?: Frame | string | null;
  expect?: Frame;
  closed?: number;
  reason?: string;
}
interface Codes {
  closes: { code: number; reconnect: boolean }[];
}
interface Limit extends Named {
  value: number;
}

function read<T>(file: string): T {
  const path = new URL(`../../../tests/vectors/${file}`, import.meta.url);
  return expand(JSON.parse(readFileSync(path, 'utf8')) as Json) as T;
}

/** Write out the long strings. */
function expand(value: Json): Json {
  if (Array.isArray(value)) return value.map(expand);
  if (typeof value !== 'object' || value === null) return value;
  if ('$repeat' in value) {
    const [piece, times] = value['$repeat'] as [string, number];
    return piece.repeat(times);
  }
  if ('$join' in value) return (value['$join'] as Json[]).map(expand).join('');
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, expand(each)]));
}

describe('hello.json', () => {
  for (const { name, expect } of read<AppVector[]>('hello.json')) {
    if (expect === undefined) continue;
    it(name, (t) => {
      const device = {
        id: '',
        name: '',
        platform: '',
        app_version: '',
        ...(expect['device'] as Frame),
      };
      const { app_version: appVersion, ...rest } = device;
      const user = (expect['user'] ?? {}) as { id?: string };
      const token = (expect['token'] ?? '') as string;
      const { client, gateway } = stage(t, { token, user, device: { ...rest, appVersion } });
      client.connect();
      gateway.opens();
      assert.deepEqual(gateway.socket.sent, [
        { t: 'hello', v: 1, token, device, user, receipts: true },
      ]);
    });
  }
});

/** Have the client say what the vector means. */
function say(client: HermesClient, frame: Frame): void {
  const { type, id, text, ...rest } = frame as Record<string, string | undefined>;
  switch (type) {
    case 'text':
      client.sendText(text!, id);
      break;
    case 'audio':
      client.sendAudio(rest['data']!, rest['format'] as 'wav', text, id);
      break;
    case 'media': {
      const { kind, data, ...options } = rest;
      client.sendMedia(kind!, data!, { messageId: id!, chunkBytes: 8 * 1024 * 1024, ...options });
      break;
    }
    case 'prompt':
      client.answerPrompt(rest['prompt_id']!, rest['option_id'], text);
      break;
    case 'typing':
      client.sendTyping();
      break;
    case 'ack':
      client.acknowledge(id!);
      break;
  }
}

describe('app-frames.json: what the server understands, the client can say', () => {
  // The API chooses the time of a ping and the numbers of the chunks, and does not deliver.
  const sayable = ['text', 'audio', 'media', 'prompt', 'typing', 'ack'];

  for (const { name, expect } of read<AppVector[]>('app-frames.json')) {
    if (expect === undefined || expect['part'] !== undefined) continue;
    if (!sayable.includes(String(expect['type']))) continue;
    it(name, (t) => {
      const { client, gateway } = connected(t);
      if (['sculpture', 'voice'].includes(String(expect['kind']))) {
        assert.throws(() => say(client, expect), /kind/);
        return;
      }
      say(client, expect);
      const { type, ...fields } = expect;
      const file = { part: 0, parts: 1, mime: gateway.received[0]?.['mime'] };
      assert.deepEqual(gateway.received, [
        { t: type, ...(type === 'media' ? file : {}), ...fields },
      ]);
    });
  }
});

/** The callback that a frame leads to, with its argument. */
function told({ type, ...fields }: Frame): unknown[][] {
  switch (type) {
    case 'message':
      return [
        [fields['edit'] ? 'edit' : 'message', { index: 0, total: 1, final: true, ...fields }],
      ];
    case 'media':
      if (fields['parts'] !== undefined) return [];
      return [['media', { caption: '', part: 0, parts: 1, final: true, ...fields }]];
    case 'prompt': {
      const options = (fields['options'] as Frame[]).map((option) => ({ style: '', ...option }));
      return [['prompt', { ...fields, options }]];
    }
    case 'prompt_done':
      return [['prompt done', fields]];
    case 'avatar':
      return [['avatar', fields['state']]];
    case 'typing':
      return [[fields['stop'] ? 'typing stop' : 'typing']];
    case 'error': {
      const { id: _, ...error } = fields;
      return [['error', { fatal: false, ...error }]];
    }
    default:
      return [];
  }
}

describe('server-frames.json', () => {
  const vectors = read<ServerVector[]>('server-frames.json');

  for (const { name, frame, wire } of vectors) {
    it(name, (t) => {
      if (frame['type'] === 'ready') {
        const { client, gateway, news } = stage(t);
        client.connect();
        gateway.opens();
        gateway.sends(wire);
        const { t: _, ...payload } = wire;
        assert.deepEqual(news().slice(2), [['ready', payload]]);
      } else {
        const { gateway, news } = connected(t);
        gateway.sends(wire);
        // The text as it comes: a lone surrogate has become U+FFFD on the way.
        const text = 'text' in wire ? { text: wire['text'] } : {};
        assert.deepEqual(news(), told({ ...frame, ...text }));
      }
    });
  }

  it('the chunks of a file make one file', (t) => {
    const { gateway, news } = connected(t);
    const chunks = vectors.map(({ wire }) => wire).filter(({ id }) => id === 'f2');
    gateway.sends(...chunks.reverse());
    const [[name, media]] = news() as [[string, Frame]];
    assert.equal(name, 'media');
    assert.equal(media['data'], 'bG9nIGVu');
    assert.equal(media['caption'], "today's");
    assert.equal(media['reply_to'], 'm1');
  });
});

describe('codes.json', () => {
  for (const { code, reconnect } of read<Codes>('codes.json').closes) {
    it(`${code} is ${reconnect ? 'not ' : ''}final`, (t) => {
      const { gateway, news } = connected(t);
      gateway.closes(code);
      assert.equal(news()[0]?.[1], reconnect ? 'reconnecting' : 'failed');
    });
  }
});

describe('exchanges.json: what the server does, the client takes', () => {
  const finals = read<Codes>('codes.json').closes.filter(({ reconnect }) => !reconnect);

  for (const { name, steps } of read<Exchange[]>('exchanges.json')) {
    it(name, (t) => {
      for (const connection of new Set(steps.map(({ on = 'a' }) => on))) {
        play(
          t,
          steps.filter(({ on = 'a' }) => on === connection),
          finals.map(({ code }) => code),
        );
      }
    });
  }
});

/** Play the server's side of one connection, and check what the client makes of it. */
function play(t: TestContext, steps: Step[], finals: number[]): void {
  const errors: unknown[] = [];
  const states: string[] = [];
  const options: ClientOptions = {
    url: 'ws://localhost/ws',
    token: 's3cret',
    device: DEVICE,
    handlers: { onState: (state) => states.push(state), onError: ({ code }) => errors.push(code) },
  };
  const gateway = new Gateway(t);
  let client = new HermesClient(options);
  for (const { connect, expect, closed, reason } of steps) {
    if (connect !== undefined) {
      client.disconnect();
      client = new HermesClient(options);
      client.connect();
      gateway.opens();
    } else if (expect !== undefined) {
      const frame = named(expect) as Frame;
      errors.length = 0;
      gateway.sends(frame);
      if (frame['t'] === 'ready') assert.equal(client.ready, true);
      assert.deepEqual(errors, frame['t'] === 'error' ? [frame['code']] : []);
    } else if (closed !== undefined) {
      gateway.closes(closed, reason);
      assert.equal(states.at(-1), finals.includes(closed) ? 'failed' : 'reconnecting');
    }
  }
  client.disconnect();
}

/** A name that an exchange gives to a string serves as the string. */
function named(value: Json): Json {
  if (Array.isArray(value)) return value.map(named);
  if (typeof value !== 'object' || value === null) return value;
  if ('$name' in value) return value['$name'] as string;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, named(each)]));
}

describe('limits.json', () => {
  it('has the constants of this package', () => {
    const limits = new Map(read<Limit[]>('limits.json').map(({ name, value }) => [name, value]));
    assert.equal(PROTOCOL_VERSION, limits.get('PROTOCOL_VERSION'));
    assert.equal(MEDIA_CHUNK_BYTES, limits.get('MEDIA_CHUNK_BYTES'));
  });
});

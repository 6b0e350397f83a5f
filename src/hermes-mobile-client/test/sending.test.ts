import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';

import { MEDIA_CHUNK_BYTES } from '../dist/esm/hermesClient.js';
import { guessMime } from '../dist/esm/media.js';
import { connected, OFFLINE, pass, stage } from './gateway.ts';

const RECEIPTS = { capabilities: { receipts: true } };
const MIB = 1024 * 1024;

describe('what a method sends', () => {
  it('text: its id is given or made up, and returned', (t) => {
    const { client, gateway } = connected(t);
    assert.equal(client.sendText('привет', 'm1'), 'm1');
    const id = client.sendText('');
    assert.match(id, /^[0-9a-z]+-[0-9a-z]+$/);
    assert.deepEqual(gateway.received, [
      { t: 'text', id: 'm1', text: 'привет' },
      { t: 'text', id, text: '' },
    ]);
  });

  it('audio: with a transcript or without, whatever the format', (t) => {
    const { client, gateway } = connected(t);
    assert.equal(client.sendAudio('UklGRg==', 'wav', undefined, 'a1'), 'a1');
    client.sendAudio('T2dnUw==', 'ogg', 'turn it off', 'a2');
    client.sendAudio('SUQz', 'mp3' as 'ogg', '', 'a3');
    assert.deepEqual(gateway.received, [
      { t: 'audio', id: 'a1', format: 'wav', data: 'UklGRg==' },
      { t: 'audio', id: 'a2', format: 'ogg', data: 'T2dnUw==', text: 'turn it off' },
      { t: 'audio', id: 'a3', format: 'mp3', data: 'SUQz' },
    ]);
  });

  it('typing, ack and ping', (t) => {
    const { client, gateway } = connected(t);
    pass(t, 1000);
    client.sendTyping();
    client.acknowledge('r1');
    client.ping();
    assert.deepEqual(gateway.received, [
      { t: 'typing' },
      { t: 'ack', id: 'r1' },
      { t: 'ping', ts: 1000 },
    ]);
  });

  it('prompt: the option in lower case, the words, or both', (t) => {
    const { client, gateway } = connected(t);
    client.answerPrompt('p1', 'ONCE');
    client.answerPrompt('p2', undefined, 'the second');
    client.answerPrompt('p3', 'Other', 'neither');
    assert.deepEqual(gateway.received, [
      { t: 'prompt', prompt_id: 'p1', option_id: 'once' },
      { t: 'prompt', prompt_id: 'p2', text: 'the second' },
      { t: 'prompt', prompt_id: 'p3', option_id: 'other', text: 'neither' },
    ]);
  });

  it('prompt: throws without a card and without an answer, connected or not', (t) => {
    const { client } = stage(t);
    assert.throws(() => client.answerPrompt('', 'once'), Error);
    assert.throws(() => client.answerPrompt('p1'), Error);
    assert.throws(() => client.answerPrompt('p1', '', ''), Error);
  });
});

describe('a file', () => {
  it('goes in one frame when it fits', (t) => {
    const { client, gateway } = connected(t);
    const options = { filename: 'sky.PNG', caption: 'now', messageId: 'f1' };
    assert.equal(client.sendMedia('IMAGE', new Uint8Array([1, 2, 3]), options), 'f1');
    assert.deepEqual(gateway.received, [
      {
        t: 'media',
        id: 'f1',
        kind: 'image',
        mime: 'image/png',
        data: 'AQID',
        part: 0,
        parts: 1,
        filename: 'sky.PNG',
        caption: 'now',
      },
    ]);
  });

  it('is cut into chunks, the last of which is shorter', (t) => {
    const { client, gateway } = connected(t);
    const id = client.sendDocument('AQIDBAUGBwg=', { chunkBytes: 3 });
    const about = { t: 'media', id, kind: 'document', mime: 'application/octet-stream', parts: 3 };
    assert.deepEqual(gateway.received, [
      { ...about, part: 0, data: 'AQID' },
      { ...about, part: 1, data: 'BAUG' },
      { ...about, part: 2, data: 'Bwg=' },
    ]);
  });

  it('is cut at 3 MiB by default', (t) => {
    const { client, gateway } = connected(t);
    client.sendImage(new Uint8Array(MEDIA_CHUNK_BYTES));
    client.sendImage(new Uint8Array(MEDIA_CHUNK_BYTES + 1));
    assert.deepEqual(
      gateway.received.map(({ part, parts }) => [part, parts]),
      [
        [0, 1],
        [0, 2],
        [1, 2],
      ],
    );
  });

  it('is named by its method: a voice note is audio', (t) => {
    const { client, gateway } = connected(t);
    client.sendImage('AQID');
    client.sendDocument('AQID');
    client.sendVoice('AQID', { mime: 'audio/ogg' });
    client.sendMedia('video', 'AQID');
    assert.deepEqual(
      gateway.received.map(({ kind, mime }) => [kind, mime]),
      [
        ['image', 'application/octet-stream'],
        ['document', 'application/octet-stream'],
        ['audio', 'audio/ogg'],
        ['video', 'application/octet-stream'],
      ],
    );
  });

  it('is read from its path, in Node', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'hermes-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'chart.png');
    writeFileSync(path, Uint8Array.of(1, 2, 3));
    const { client, gateway } = connected(t);
    client.sendImage({ path });
    client.sendDocument({ path }, { filename: 'отчёт.pdf' });
    assert.deepEqual(
      gateway.received.map(({ mime, filename, data }) => [mime, filename, data]),
      [
        ['image/png', 'chart.png', 'AQID'],
        ['application/pdf', 'отчёт.pdf', 'AQID'],
      ],
    );
    assert.throws(() => client.sendImage({ path: join(folder, 'none') }), Error);
  });

  it('has no path where there are no files', (t) => {
    const { client } = connected(t);
    t.mock.method(process, 'getBuiltinModule', () => undefined);
    assert.throws(() => client.sendImage({ path: '/tmp/chart.png' }), /Node/);
  });

  it('throws for an unknown kind, an empty file and a chunk of nothing', (t) => {
    const { client, gateway } = connected(t);
    assert.throws(() => client.sendMedia('voice', 'AQID'), /kind/);
    assert.throws(() => client.sendImage(new Uint8Array()), /empty/);
    assert.throws(() => client.sendImage('', {}), /empty/);
    for (const chunkBytes of [0, -1, 1.5, NaN]) {
      assert.throws(() => client.sendImage('AQID', { chunkBytes }), /chunkBytes/);
    }
    assert.deepEqual(gateway.received, []);
  });

  it('has the type that its name suggests', () => {
    assert.equal(guessMime('answer.ogg'), 'audio/ogg');
    assert.equal(guessMime('archive.tar.GZ'), 'application/gzip');
    for (const name of ['', 'none', 'sky.', '.png.constructor', 'a.unknown']) {
      assert.equal(guessMime(name), 'application/octet-stream', name);
    }
  });
});

describe('sending without a connection', () => {
  it('is an error, not an exception: before connect, while reconnecting, after the end (T1)', (t) => {
    const { client, gateway, news } = stage(t);
    client.sendText('hi');
    client.sendImage(new Uint8Array(9), { chunkBytes: 3 });
    assert.deepEqual(news(), [OFFLINE, OFFLINE]);

    client.connect();
    gateway.welcomes();
    gateway.closes(1006);
    news();
    client.sendText('hi');
    pass(t, 250);
    gateway.opens();
    client.sendTyping();
    assert.deepEqual(news(), [OFFLINE, OFFLINE]);
    assert.deepEqual(gateway.received, []);

    gateway.closes(1008);
    news();
    client.ping();
    client.disconnect();
    client.acknowledge('r1');
    assert.deepEqual(news(), [OFFLINE, ['state', 'idle'], OFFLINE]);
  });

  it('is the same while the socket is closing', (t) => {
    const { client, gateway, news } = connected(t);
    gateway.socket.readyState = 2;
    client.sendText('hi');
    assert.deepEqual(news(), [OFFLINE]);
    assert.deepEqual(gateway.received, []);
  });
});

describe('held sends (T1)', () => {
  it('go out after ready, in order, before what the callbacks send', (t) => {
    const { client, gateway, news } = stage(t, {
      handlers: { onReady: () => client.sendText('third', 'm3') },
    });
    client.connect();
    client.sendText('first', 'm1');
    gateway.opens();
    client.sendTyping();
    client.answerPrompt('p1', 'once');
    assert.deepEqual(gateway.received, []);
    gateway.sends({ t: 'ready' });
    assert.deepEqual(gateway.received, [
      { t: 'text', id: 'm1', text: 'first' },
      { t: 'typing' },
      { t: 'prompt', prompt_id: 'p1', option_id: 'once' },
      { t: 'text', id: 'm3', text: 'third' },
    ]);
    assert.deepEqual(news(), [
      ['state', 'connecting'],
      ['state', 'connected'],
    ]);
  });

  it('survive failed attempts', (t) => {
    const { client, gateway } = stage(t);
    client.connect();
    client.sendText('one', 'm1');
    gateway.fails();
    client.sendText('two', 'm2');
    pass(t, 250);
    gateway.opens();
    gateway.closes(1013);
    pass(t, 500);
    gateway.welcomes();
    assert.deepEqual(
      gateway.received.map(({ id }) => id),
      ['m1', 'm2'],
    );
  });

  it('are reported, each, when the gateway refuses and when the app disconnects', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    client.sendText('one');
    client.sendImage(new Uint8Array(9), { chunkBytes: 3 });
    gateway.closes(1008);
    const refused = { code: 'auth_failed', message: 'Шлюз отказал в доступе', fatal: true };
    assert.deepEqual(news(), [
      ['state', 'connecting'],
      ['state', 'failed'],
      ['error', refused],
      OFFLINE,
      OFFLINE,
    ]);
    client.connect();
    client.sendText('two');
    client.disconnect();
    assert.deepEqual(news(), [['state', 'connecting'], ['state', 'idle'], OFFLINE]);
    client.connect();
    gateway.welcomes();
    assert.deepEqual(gateway.received, []);
  });

  it('are at most 64 frames; a file that does not fit is not held in part', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    for (let n = 0; n < 62; n++) client.sendTyping();
    news();
    client.sendImage(new Uint8Array(9), { chunkBytes: 3 });
    assert.deepEqual(news(), [OFFLINE]);
    client.sendText('63rd');
    client.sendText('64th');
    assert.deepEqual(news(), []);
    client.sendText('65th');
    assert.deepEqual(news(), [OFFLINE]);
    gateway.welcomes();
    assert.equal(gateway.received.length, 64);
  });

  it('are at most 16 MiB', (t) => {
    const { client, news } = stage(t);
    client.connect();
    news();
    client.sendAudio('A'.repeat(10 * MIB), 'wav');
    client.sendAudio('A'.repeat(6 * MIB), 'wav');
    client.sendAudio('A'.repeat(5 * MIB), 'wav');
    assert.deepEqual(news(), [OFFLINE]);
  });
});

describe('receipts (T9)', () => {
  it('what was not accepted when the connection ended goes out again, first and in order', (t) => {
    const { client, gateway, news } = connected(t, RECEIPTS);
    client.sendText('one', 'm1');
    client.sendText('two', 'm2');
    client.sendImage(new Uint8Array(4), { messageId: 'f1', chunkBytes: 3 });
    client.answerPrompt('p1', 'once');
    client.sendTyping();
    gateway.sends({ t: 'accepted', id: 'm1' });
    const [, ...unaccepted] = gateway.received.slice(0, -1);
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, unaccepted);
    assert.equal(unaccepted.length, 4);
    assert.deepEqual(
      news().filter(([name]) => name === 'error'),
      [],
    );
  });

  it('goes out again until it is accepted', (t) => {
    const { client, gateway } = connected(t, RECEIPTS);
    client.sendText('one', 'm1');
    for (const pause of [250, 500]) {
      gateway.closes(1001);
      pass(t, pause);
      gateway.welcomes({ receipts: true });
      assert.equal(gateway.received.length, 1);
    }
    gateway.sends({ t: 'accepted', id: 'm1' });
    gateway.closes(1001);
    pass(t, 1000);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, []);
  });

  it('survives a disconnect of the app, and another instance', (t) => {
    const { client, gateway } = connected(t, RECEIPTS);
    client.sendText('one', 'm1');
    client.disconnect();
    client.connect();
    client.sendText('two', 'm2');
    gateway.welcomes({ receipts: true });
    gateway.closes(4001);
    client.connect();
    gateway.welcomes({ receipts: true });
    assert.deepEqual(
      gateway.received.map(({ id }) => id),
      ['m1', 'm2'],
    );
  });

  it('a refused message is not sent again, nor an answer whose card has ended', (t) => {
    const { client, gateway } = connected(t, RECEIPTS);
    client.sendText('', 'm1');
    client.answerPrompt('p1', 'once');
    gateway.sends(
      { t: 'error', code: 'bad_frame', message: 'text: empty', fatal: false, id: 'm1' },
      { t: 'prompt_done', id: 'p1', expired: true },
    );
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, []);
  });

  it('of two messages with one id, each needs its receipt', (t) => {
    const { client, gateway } = connected(t, RECEIPTS);
    client.answerPrompt('p1', 'once');
    client.answerPrompt('p1', 'deny');
    gateway.sends({ t: 'accepted', id: 'p1' });
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, [{ t: 'prompt', prompt_id: 'p1', option_id: 'deny' }]);
  });

  it('an id is known as the gateway reads it: trimmed, and cut to 128 characters (D12)', (t) => {
    const { client, gateway } = connected(t, RECEIPTS);
    client.sendText('one', ' m1\n');
    client.sendText('two', '🙂'.repeat(129));
    gateway.sends({ t: 'accepted', id: 'm1' }, { t: 'accepted', id: '🙂'.repeat(128) });
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, []);
  });

  it('without them nothing is sent again', (t) => {
    const { client, gateway, news } = connected(t);
    client.sendText('one');
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes();
    assert.deepEqual(gateway.received, []);
    assert.deepEqual(
      news().filter(([name]) => name === 'error'),
      [],
    );
  });

  it('after 64 messages the oldest is given up, when the connection ends', (t) => {
    const { client, gateway, news } = connected(t, RECEIPTS);
    for (let n = 1; n <= 66; n++) client.sendText('hi', `m${n}`);
    gateway.sends({ t: 'accepted', id: 'm1' });
    assert.deepEqual(news(), []);
    gateway.closes(1006);
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1'], OFFLINE]);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.equal(gateway.received.length, 64);
    assert.equal(gateway.received[0]?.['id'], 'm3');
  });

  it('beyond 16 MiB the oldest is given up', (t) => {
    const { client, gateway, news } = connected(t, RECEIPTS);
    const photo = 'A'.repeat(10 * MIB);
    client.sendAudio(photo, 'wav', '', 'a1');
    client.sendAudio(photo, 'wav', '', 'a2');
    gateway.closes(1006);
    assert.deepEqual(news().at(-1), OFFLINE);
    pass(t, 250);
    gateway.welcomes({ receipts: true });
    assert.deepEqual(
      gateway.received.map(({ id }) => id),
      ['a2'],
    );
  });

  it('a refusal gives all of it up: its cause may be among it', (t) => {
    const { client, gateway, news } = connected(t, RECEIPTS);
    client.sendAudio('A'.repeat(17 * MIB), 'wav');
    client.sendText('hi');
    gateway.closes(1008, 'too_big');
    assert.deepEqual(news().slice(2), [OFFLINE, OFFLINE]);
    client.connect();
    gateway.welcomes({ receipts: true });
    assert.deepEqual(gateway.received, []);
  });
});

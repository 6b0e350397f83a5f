/** The session over the real SDK, with a scripted socket below it. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { HermesClient } from '../src/client.ts';
import {
  Conversation,
  type Card,
  type Entry,
  type Said,
  type Shared,
} from '../src/conversation.ts';
import { Session, type Status } from '../src/session.ts';
import { Traffic } from '../src/traffic.ts';
import { FakeSocket } from './fake-socket.ts';

const READY = {
  t: 'ready',
  v: 1,
  session: 'mobile:tab-1',
  device: { id: 'tab-1', name: 'Web console' },
  avatar_url: '',
  capabilities: { text: true, voice: true, typing: true, receipts: true },
};

const CARD = {
  t: 'prompt',
  id: 'p1',
  kind: 'exec_approval',
  text: 'Allow?',
  command: 'ls',
  options: [
    { id: 'once', label: 'Once', style: 'primary' },
    { id: 'deny', label: 'Deny', style: 'danger' },
  ],
  session: 'mobile:tab-1',
  timeout_seconds: 300,
};

interface Page {
  readonly session: Session;
  readonly entries: readonly Entry[];
  readonly heard: Entry[];
  readonly statuses: Status[];
  /** Lets `milliseconds` pass, and everything that waits for them happen. */
  pass(milliseconds: number): Promise<void>;
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function open(t: TestContext): Page {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const heard: Entry[] = [];
  const statuses: Status[] = [];
  const silent = { added() {}, changed() {}, removed() {} };
  const conversation = new Conversation(silent);
  const traffic = new Traffic((id, arrived) => conversation.arriving(id, arrived));
  const original = globalThis.WebSocket;
  globalThis.WebSocket = traffic.watch(FakeSocket as unknown as typeof WebSocket);
  t.after(() => {
    session.end();
    globalThis.WebSocket = original;
  });
  const session = new Session(
    (options) => new HermesClient(options),
    {
      url: 'ws://localhost/ws',
      token: 't',
      device: { id: 'tab-1', name: 'Web console', platform: 'web', appVersion: '1' },
    },
    conversation,
    traffic,
    { status: (status) => statuses.push(status), heard: (entry) => heard.push(entry) },
  );
  const pass = async (milliseconds: number): Promise<void> => {
    await settled();
    t.mock.timers.tick(milliseconds);
    await settled();
  };
  return {
    session,
    get entries() {
      return conversation.entries;
    },
    heard,
    statuses,
    pass,
  };
}

function connect(page: Page, ready: object = READY): FakeSocket {
  page.session.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive(ready);
  return FakeSocket.last;
}

test('a text is sent, and says so when it has left the browser', async (t) => {
  const page = open(t);
  const socket = connect(page);
  page.session.say('hello');
  const said = page.entries[0] as Said;
  await page.pass(0);
  assert.equal(socket.frames('text')[0]?.['text'], 'hello');
  assert.equal(said.delivery.state, 'sending');
  socket.bufferedAmount = 0;
  await page.pass(50);
  assert.deepEqual(said.delivery, { state: 'sent' });
});

test('what is said without a connection waits for it, in order', async (t) => {
  const page = open(t);
  page.session.say('one');
  page.session.say('two');
  await page.pass(0);
  assert.deepEqual(
    page.entries.map((entry) => (entry as Said).delivery.state),
    ['waiting', 'waiting'],
  );
  const socket = connect(page);
  await page.pass(0);
  socket.bufferedAmount = 0;
  await page.pass(50);
  assert.deepEqual(
    socket.frames('text').map((frame) => frame['text']),
    ['one', 'two'],
  );
});

test('a file shows how far it is, and what follows waits until it has left', async (t) => {
  const page = open(t);
  const socket = connect(page);
  socket.bufferedAmount = 0;
  page.session.share(new File([new Uint8Array(30_000)], 'a.bin'), 'look');
  page.session.say('after it');
  await page.pass(0);
  const shared = page.entries[0] as Shared;
  const whole = socket.bufferedAmount;
  socket.bufferedAmount = whole / 4;
  await page.pass(50);
  assert.deepEqual(shared.delivery, { state: 'sending', progress: 0.75 });
  assert.equal(socket.frames('text').length, 0);
  socket.bufferedAmount = 0;
  await page.pass(50);
  assert.equal(shared.delivery.state, 'sent');
  assert.equal(socket.frames('text').length, 1);
  assert.equal(socket.frames('media')[0]?.['caption'], 'look');
});

test('/stop goes before everything that waits', async (t) => {
  const page = open(t);
  const socket = connect(page);
  page.session.share(new File([new Uint8Array(3000)], 'a.bin'), '');
  page.session.say(' /STOP ');
  assert.deepEqual(
    socket.frames('text').map((frame) => frame['text']),
    ['/stop'],
  );
});

test('a file that cannot be read is said to be so, and the next thing goes on', async (t) => {
  const page = open(t);
  const socket = connect(page);
  const gone = new File(['x'], 'gone.txt');
  gone.arrayBuffer = () => Promise.reject(new Error('gone'));
  page.session.share(gone, '');
  page.session.say('next');
  await page.pass(0);
  assert.deepEqual((page.entries[0] as Shared).delivery, {
    state: 'failed',
    why: 'It could not be read.',
  });
  assert.equal(socket.frames('text').length, 1);
});

test('without receipts, what a lost connection swallowed is sent again with its id', async (t) => {
  const page = open(t);
  const ready = { ...READY, capabilities: { text: true, voice: true, typing: true } };
  const first = connect(page, ready);
  page.session.say('hello');
  await page.pass(0);
  first.end(1006);
  await page.pass(50);
  assert.equal((page.entries[0] as Said).delivery.state, 'waiting');
  const second = connect(page, ready);
  await page.pass(0);
  assert.deepEqual(second.frames('text'), first.frames('text'));
});

test('a card is answered once, and says what counts', async (t) => {
  const page = open(t);
  const socket = connect(page);
  socket.receive(CARD);
  const card = page.entries[0] as Card;
  assert.deepEqual(page.heard, [card]);
  page.session.answer(card, 'once', '');
  page.session.answer(card, 'deny', '');
  assert.deepEqual(socket.frames('prompt'), [{ t: 'prompt', prompt_id: 'p1', option_id: 'once' }]);
  socket.receive({ t: 'prompt_done', id: 'p1', option_id: 'deny' });
  assert.deepEqual(card.answer, { state: 'closed', optionId: 'deny', text: '', instead: 'once' });
});

test('a card whose answer a lost connection may have swallowed can be answered again', async (t) => {
  const page = open(t);
  const socket = connect(page);
  socket.receive(CARD);
  const card = page.entries[0] as Card;
  page.session.answer(card, 'once', '');
  socket.end(1006);
  page.session.answer(card, 'once', '');
  assert.equal(card.answer.state, 'answering');
  connect(page);
  assert.equal(card.answer.state, 'open');
});

test('the first fatal word counts, not the general one of the close', async (t) => {
  const page = open(t);
  page.session.connect();
  FakeSocket.last.open();
  FakeSocket.last.receive({ t: 'error', code: 'forbidden', message: 'device.id', fatal: true });
  FakeSocket.last.end(1008, 'forbidden');
  assert.equal(page.session.status.connection, 'failed');
  assert.equal(page.session.status.problem?.title, 'Not allowed');
  assert.equal(page.entries.length, 0);
});

test('a tab that was replaced stays quiet until it is asked to take over', async (t) => {
  const page = open(t);
  connect(page).end(4001, 'replaced');
  const opened = FakeSocket.all.length;
  await page.pass(60_000);
  assert.equal(FakeSocket.all.length, opened);
  assert.equal(page.session.status.replaced, true);
  connect(page);
  assert.equal(page.session.status.connection, 'connected');
  assert.equal(page.session.status.replaced, false);
  assert.equal(page.session.status.problem, null);
});

test('a lost connection is a status, not an entry', async (t) => {
  const page = open(t);
  const socket = connect(page);
  socket.receive({ t: 'typing' });
  socket.receive({ t: 'avatar', state: 'thinking' });
  socket.end(1006);
  const { connection, attempt, working, avatar, problem } = page.session.status;
  assert.deepEqual([connection, attempt, working, avatar], ['reconnecting', 1, false, 'idle']);
  assert.equal(problem?.title, 'No connection');
  assert.equal(page.entries.length, 0);
});

test('an error that is not fatal is an entry, with what the server said', async (t) => {
  const page = open(t);
  connect(page).receive({ t: 'error', code: 'too_big', message: 'text: at most 9', fatal: false });
  const [notice] = page.entries;
  assert.ok(notice?.kind === 'notice');
  assert.equal(notice.problem.title, 'Too big');
  assert.equal(notice.detail, 'text: at most 9');
});

test('a reply is heard and acknowledged when it is whole', async (t) => {
  const page = open(t);
  const socket = connect(page);
  const piece = { t: 'message', id: 'r1', chunk: { index: 0, total: 1 } };
  socket.receive({ ...piece, text: 'a', final: false });
  assert.deepEqual(page.heard, []);
  socket.receive({ ...piece, text: 'a b', final: true, edit: true });
  assert.equal(page.heard.length, 1);
  assert.deepEqual(socket.frames('ack'), [{ t: 'ack', id: 'r1' }]);
});

test('a file that arrives in chunks shows how much is here; a lost connection drops it', async (t) => {
  const page = open(t);
  const socket = connect(page);
  const chunk = (part: number, final: boolean): object => ({
    t: 'media',
    id: 'f1',
    kind: 'document',
    mime: 'text/plain',
    filename: 'a.txt',
    part,
    parts: 2,
    final,
    size: 2,
    data: 'YQ==',
  });
  socket.receive(chunk(0, false));
  const [half] = page.entries;
  assert.ok(half?.kind === 'received');
  assert.deepEqual([half.arrived, half.file], [0.5, null]);
  socket.end(1006);
  assert.equal(page.entries.length, 0);
  const again = connect(page);
  again.receive(chunk(0, false));
  again.receive(chunk(1, true));
  const [file, ...others] = page.entries;
  assert.ok(file?.kind === 'received');
  assert.ok(file.file?.content instanceof Blob);
  assert.equal(await file.file.content.text(), 'aa');
  assert.deepEqual(others, []);
});

test('typing is reported at most every two seconds', async (t) => {
  const page = open(t);
  const socket = connect(page);
  page.session.typing();
  await page.pass(1999);
  page.session.typing();
  assert.equal(socket.frames('typing').length, 1);
  await page.pass(1);
  page.session.typing();
  assert.equal(socket.frames('typing').length, 2);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Conversation,
  MAX_ENTRIES,
  textOf,
  type Audience,
  type Entry,
} from '../src/conversation.ts';
import type { AgentMessage, PromptPayload } from '../src/client.ts';

class Recorder implements Audience {
  readonly told: string[] = [];

  added(entry: Entry): void {
    this.told.push(`+${entry.kind}`);
  }

  changed(entry: Entry): void {
    this.told.push(`~${entry.kind}`);
  }

  removed(entry: Entry): void {
    this.told.push(`-${entry.kind}`);
  }
}

function message(text: string, extra: Partial<AgentMessage> = {}): AgentMessage {
  return { id: 'r1', text, index: 0, total: 1, final: true, ...extra };
}

const PROMPT: PromptPayload = {
  id: 'p1',
  kind: 'clarify',
  text: 'Which?',
  options: [
    { id: 'c0', label: 'A' },
    { id: 'other', label: 'Other' },
  ],
  session: 's',
  timeout_seconds: 10,
};

function replies(conversation: Conversation): string[] {
  return conversation.entries.flatMap((entry) => (entry.kind === 'reply' ? [textOf(entry)] : []));
}

test('pieces are joined by id and number', () => {
  const recorder = new Recorder();
  const conversation = new Conversation(recorder);
  conversation.receive(message('Hello ', { total: 2, final: false }));
  conversation.receive(message('world', { index: 1, total: 2 }));
  assert.deepEqual(replies(conversation), ['Hello world']);
  assert.deepEqual(recorder.told, ['+reply', '~reply']);
});

test('an edit replaces the whole text', () => {
  const conversation = new Conversation(new Recorder());
  conversation.receive(message('a', { final: false }));
  conversation.receive(message('a b', { edit: true, final: false }));
  conversation.receive(message('a b c', { edit: true }));
  assert.deepEqual(replies(conversation), ['a b c']);
});

test('an edit of an unknown id is a new message (T8)', () => {
  const conversation = new Conversation(new Recorder());
  conversation.receive(message('late', { edit: true }));
  assert.deepEqual(replies(conversation), ['late']);
});

test('a message that comes again after its end changes nothing', () => {
  const conversation = new Conversation(new Recorder());
  const pieces = [message('a', { total: 2, final: false }), message('b', { index: 1, total: 2 })];
  for (const piece of [...pieces, ...pieces]) conversation.receive(piece);
  assert.deepEqual(replies(conversation), ['ab']);
});

test('an id that is used again after its end is a new message', () => {
  const conversation = new Conversation(new Recorder());
  conversation.receive(message('Monday’s report'));
  conversation.receive(message('Tuesday’s report'));
  assert.deepEqual(replies(conversation), ['Monday’s report', 'Tuesday’s report']);
});

test('a card that is shown again keeps its deadline', () => {
  let now = 1000;
  const conversation = new Conversation(new Recorder(), () => now);
  const card = conversation.ask(PROMPT);
  now = 5000;
  assert.equal(conversation.ask({ ...PROMPT, timeout_seconds: 6 }), card);
  assert.equal(card.deadline, 11_000);
});

test('a card that ends without an option has expired', () => {
  const conversation = new Conversation(new Recorder());
  const card = conversation.ask(PROMPT);
  conversation.close({ id: 'p1', expired: true });
  assert.deepEqual(card.answer, { state: 'expired' });
});

test('an answer in words is shown with the card', () => {
  const conversation = new Conversation(new Recorder());
  const card = conversation.ask(PROMPT);
  conversation.answering(card, 'other', 'Violet');
  conversation.close({ id: 'p1', option_id: 'other' });
  conversation.close({ id: 'p1', expired: true });
  assert.deepEqual(card.answer, {
    state: 'closed',
    optionId: 'other',
    text: 'Violet',
    instead: '',
  });
});

test('the end of an unknown card is nothing', () => {
  const recorder = new Recorder();
  new Conversation(recorder).close({ id: 'never', expired: true });
  assert.deepEqual(recorder.told, []);
});

test('the oldest entries go, but not an open card', () => {
  const conversation = new Conversation(new Recorder());
  const card = conversation.ask(PROMPT);
  for (let n = 0; n < MAX_ENTRIES + 10; n++) conversation.receive(message('x', { id: `r${n}` }));
  assert.equal(conversation.entries.length, MAX_ENTRIES);
  assert.equal(conversation.entries[0], card);
});

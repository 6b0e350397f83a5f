import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parts, question } from '../src/command.ts';

test('a command is shown exactly, with what would not be seen spelled out', () => {
  assert.deepEqual(parts('ls -l\n\tx'), [{ text: 'ls -l\n\tx', hidden: false }]);
  assert.deepEqual(parts('a\u202eb\x1b\u{e0041}'), [
    { text: 'a', hidden: false },
    { text: 'U+202E', hidden: true },
    { text: 'b', hidden: false },
    { text: 'U+001B', hidden: true },
    { text: 'U+E0041', hidden: true },
  ]);
});

test('a question does not repeat the command that is shown below it (D23)', () => {
  const ask = (text: string, command?: string): string =>
    question({
      id: 'p',
      kind: 'exec_approval',
      text,
      options: [],
      session: '',
      timeout_seconds: 1,
      ...(command !== undefined && { command }),
    });
  assert.equal(ask('Allow this command?\n\nls -l', 'ls -l'), 'Allow this command?');
  const long = 'x'.repeat(3000);
  assert.equal(ask(`Allow?\n\n${long.slice(0, 2000)}…`, long), 'Allow?');
  assert.equal(ask('Run ls and more', 'ls'), 'Run ls and more');
  assert.equal(ask('Which?'), 'Which?');
});

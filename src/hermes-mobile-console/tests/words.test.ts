import assert from 'node:assert/strict';
import { test } from 'node:test';
import { length, minutes, problem, size } from '../src/words.ts';

test('sizes and times are said as people say them', () => {
  assert.deepEqual([0, 1, 1023, 1024, 1536 * 1024, 8 * 1024 * 1024, 123 * 1024 * 1024].map(size), [
    '0 bytes',
    '1 byte',
    '1023 bytes',
    '1 KB',
    '1.5 MB',
    '8 MB',
    '123 MB',
  ]);
  assert.deepEqual([-1, 0, 0.1, 59.2, 300].map(minutes), ['0:00', '0:00', '0:01', '1:00', '5:00']);
});

test('lengths are code points (D15)', () => {
  assert.equal(length('a😀é'), 3);
});

test('every error code of the protocol has words, and so has an unknown one', () => {
  const codes =
    'auth_failed auth_required bad_frame device_offline forbidden internal_error offline replaced too_big transport unsupported_frame';
  for (const code of codes.split(' ')) assert.ok(!problem(code).advice.includes(code), code);
  assert.match(problem('constructor').advice, /“constructor”/);
});

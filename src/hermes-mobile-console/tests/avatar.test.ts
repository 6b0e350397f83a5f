import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fragment, stateFrom, stateInMessage } from '../src/avatar/state.ts';

test('an avatar’s state is one of three; anything else is idle', () => {
  assert.equal(stateFrom(' Thinking '), 'thinking');
  for (const name of ['', 'dancing', undefined, 7, {}]) assert.equal(stateFrom(name), 'idle');
});

test('the avatar is told by a name, an object, or that object as JSON', () => {
  assert.equal(stateInMessage('speaking'), 'speaking');
  assert.equal(stateInMessage({ type: 'hermes-avatar', state: 'thinking' }), 'thinking');
  assert.equal(stateInMessage('{"type":"hermes-avatar","state":"thinking"}'), 'thinking');
  assert.equal(stateInMessage({ type: 'hermes-avatar' }), 'idle');
  for (const foreign of [{ type: 'webpackOk' }, { state: 'thinking' }, '{"a":1}', '{', null, 3]) {
    assert.equal(stateInMessage(foreign), null);
  }
});

test('the avatar’s fragment names a state, a background, or both', () => {
  assert.deepEqual(fragment('#thinking'), { state: 'thinking', transparent: false });
  assert.deepEqual(fragment('#state=speaking&transparent=1'), {
    state: 'speaking',
    transparent: true,
  });
  assert.deepEqual(fragment('#transparent=1'), { state: null, transparent: true });
  assert.deepEqual(fragment('#transparent'), { state: null, transparent: true });
  assert.deepEqual(fragment('#thinking&transparent=0'), { state: 'thinking', transparent: false });
  assert.deepEqual(fragment('#dancing'), { state: 'idle', transparent: false });
  assert.deepEqual(fragment(''), { state: null, transparent: false });
});

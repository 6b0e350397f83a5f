import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kindOf, preview, refusal, safeType } from '../src/files.ts';

test('a file is shown only if its type is known to be safe', () => {
  assert.equal(preview('image/PNG; charset=x'), 'image');
  assert.equal(safeType('Audio/OGG; codecs=opus'), 'audio/ogg');
  for (const mime of ['image/svg+xml', 'text/html', 'application/pdf', '', 'toString']) {
    assert.equal(preview(mime), 'none', mime);
    assert.equal(safeType(mime), 'application/octet-stream', mime);
  }
});

test('a file is the best kind that the agent takes', () => {
  assert.equal(kindOf('image/png', ['image', 'document']), 'image');
  assert.equal(kindOf('video/mp4', ['image', 'document']), 'document');
  assert.equal(kindOf('text/plain', ['image']), 'document');
  assert.equal(kindOf('', []), 'document');
});

test('a file that cannot be sent is refused in words', () => {
  assert.equal(refusal({ name: 'a', size: 8 }, 8), null);
  assert.match(refusal({ name: 'a', size: 0 }, 8) ?? '', /“a” is empty/);
  assert.match(refusal({ name: 'a', size: 9 }, 8) ?? '', /“a” has 9 bytes. .* 8 bytes/);
});

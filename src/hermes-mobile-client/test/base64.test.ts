import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { joinBase64 } from '../dist/esm/base64.js';
import { base64ToBytes, bytesToBase64, makeId } from '../dist/esm/hermesClient.js';

/** Bytes without a pattern, the same in every run. */
function bytesOf(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = length;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

function roundTripMs(bytes: Uint8Array): number {
  const began = performance.now();
  const decoded = base64ToBytes(bytesToBase64(bytes));
  const took = performance.now() - began;
  assert.equal(Buffer.compare(bytes, decoded), 0);
  return took;
}

describe('base64', () => {
  it("is Node's, for every length and every byte", () => {
    for (let length = 0; length < 300; length++) {
      const bytes = bytesOf(length);
      const base64 = Buffer.from(bytes).toString('base64');
      assert.equal(bytesToBase64(bytes), base64);
      assert.deepEqual(base64ToBytes(base64), bytes);
    }
    const every = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    assert.deepEqual(base64ToBytes(bytesToBase64(every)), every);
  });

  it('encodes a part of a buffer as that part', () => {
    assert.equal(bytesToBase64(Uint8Array.of(9, 1, 2, 3, 9).subarray(1, 4)), 'AQID');
  });

  it('drops what is not base64 when it decodes', () => {
    for (const input of ['AQID', 'AQ\r\nID\t', '=A-Q_I(D)\u{1F642}', 'AQID==', 'AQIDA']) {
      assert.deepEqual(base64ToBytes(input), Uint8Array.of(1, 2, 3), JSON.stringify(input));
    }
    assert.deepEqual(base64ToBytes(''), new Uint8Array());
  });

  it('takes 8 MiB well under a second, in either direction', () => {
    const bytes = bytesOf(8 * 1024 * 1024);
    // The best of three: a busy machine takes its time from any one of them.
    const took = Math.min(...[1, 2, 3].map(() => roundTripMs(bytes)));
    assert.ok(took < 1000, `${took} ms`);
  });

  it('joins pieces of any length into the whole', () => {
    const bytes = bytesOf(1000);
    for (const size of [1, 2, 3, 4, 5, 333, 999, 1000]) {
      const pieces = Array.from({ length: Math.ceil(1000 / size) }, (_, n) =>
        bytesToBase64(bytes.subarray(n * size, (n + 1) * size)),
      );
      assert.equal(joinBase64(pieces), bytesToBase64(bytes));
    }
  });
});

describe('makeId', () => {
  it('begins with the time, and never repeats', (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: 1_722_945_600_123 });
    const ids = Array.from({ length: 1000 }, makeId);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.ok(id.startsWith(`${(1_722_945_600_123).toString(36)}-`));
  });

  it('needs no crypto', (t) => {
    const { crypto } = globalThis;
    t.after(() => Object.defineProperty(globalThis, 'crypto', { value: crypto }));
    Object.defineProperty(globalThis, 'crypto', { value: undefined, configurable: true });
    assert.notEqual(makeId(), makeId());
  });
});

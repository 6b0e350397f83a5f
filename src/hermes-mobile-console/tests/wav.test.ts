import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeWav, mono, wavSeconds } from '../src/wav.ts';

test('a recording is a WAV file of 16 kHz, mono, 16 bits', () => {
  const wav = encodeWav(Float32Array.of(0, 1, -1, 2, -0.5));
  const view = new DataView(wav.buffer);
  const text = (at: number): string => String.fromCharCode(...wav.subarray(at, at + 4));
  assert.deepEqual([text(0), text(8), text(12), text(36)], ['RIFF', 'WAVE', 'fmt ', 'data']);
  assert.equal(view.getUint32(4, true), wav.length - 8);
  assert.deepEqual(
    [20, 22, 32, 34].map((at) => view.getUint16(at, true)),
    [1, 1, 2, 16],
  );
  assert.deepEqual(
    [24, 28, 40].map((at) => view.getUint32(at, true)),
    [16_000, 32_000, 10],
  );
  assert.deepEqual(
    [44, 46, 48, 50, 52].map((at) => view.getInt16(at, true)),
    [0, 32_767, -32_767, 32_767, -16_383],
  );
});

test('a recording of the largest size lasts 262 seconds', () => {
  assert.equal(Math.floor(wavSeconds(8 * 1024 * 1024)), 262);
});

test('channels are averaged', () => {
  assert.deepEqual(
    mono([Float32Array.of(1, 0), Float32Array.of(0, -1)]),
    Float32Array.of(0.5, -0.5),
  );
  assert.deepEqual(mono([]), new Float32Array());
});

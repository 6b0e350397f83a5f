/** The sample rate of a voice message, in Hz: what speech recognition listens at. */
export const VOICE_RATE = 16_000;

const HEADER_BYTES = 44;
const BYTES_PER_SAMPLE = 2;

/** How many seconds of voice fit into that many bytes. */
export function wavSeconds(bytes: number): number {
  return Math.max(0, (bytes - HEADER_BYTES) / (VOICE_RATE * BYTES_PER_SAMPLE));
}

/** Averages the channels of a recording, all of the same length, into one. */
export function mono(channels: readonly Float32Array[]): Float32Array {
  const [first, ...others] = channels;
  if (first === undefined) return new Float32Array();
  if (others.length === 0) return first;
  const mixed = Float32Array.from(first);
  for (const channel of others) {
    for (let i = 0; i < mixed.length; i++) mixed[i]! += channel[i] ?? 0;
  }
  return mixed.map((sample) => sample / channels.length);
}

/** A WAV file, 16 kHz, mono, 16 bits, of samples between -1 and 1; beyond is clipped. */
export function encodeWav(samples: Float32Array): Uint8Array {
  const dataBytes = samples.length * BYTES_PER_SAMPLE;
  const file = new DataView(new ArrayBuffer(HEADER_BYTES + dataBytes));
  const ascii = (offset: number, text: string): void => {
    for (let i = 0; i < text.length; i++) file.setUint8(offset + i, text.charCodeAt(i));
  };

  ascii(0, 'RIFF');
  file.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
  ascii(8, 'WAVE');
  ascii(12, 'fmt ');
  file.setUint32(16, 16, true); // bytes of the format that follow
  file.setUint16(20, 1, true); // PCM
  file.setUint16(22, 1, true); // channels
  file.setUint32(24, VOICE_RATE, true);
  file.setUint32(28, VOICE_RATE * BYTES_PER_SAMPLE, true);
  file.setUint16(32, BYTES_PER_SAMPLE, true);
  file.setUint16(34, 8 * BYTES_PER_SAMPLE, true);
  ascii(36, 'data');
  file.setUint32(40, dataBytes, true);

  for (const [i, sample] of samples.entries()) {
    const clipped = Math.max(-1, Math.min(1, sample));
    file.setInt16(HEADER_BYTES + i * BYTES_PER_SAMPLE, Math.round(clipped * 0x7fff), true);
  }
  return new Uint8Array(file.buffer);
}

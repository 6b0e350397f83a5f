// base64 without `atob`, `btoa` and `Buffer`: none of them is everywhere.

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const PAD = '='.charCodeAt(0);
const NOT_BASE64 = 64;

const CODE_OF_SEXTET = Uint8Array.from(ALPHABET, (char) => char.charCodeAt(0));
const SEXTET_OF_CODE = new Uint8Array(128).fill(NOT_BASE64);
CODE_OF_SEXTET.forEach((code, sextet) => {
  SEXTET_OF_CODE[code] = sextet;
});

/** As many arguments as every engine takes at once. */
const CODES_PER_CALL = 4096;

/** Encode bytes in the standard alphabet with padding. */
export function bytesToBase64(bytes: Uint8Array): string {
  const codes = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
  let at = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    // Beyond the end `bytes[i]` is undefined, which counts as 0.
    const group = (bytes[i]! << 16) | (bytes[i + 1]! << 8) | bytes[i + 2]!;
    codes[at++] = CODE_OF_SEXTET[group >> 18]!;
    codes[at++] = CODE_OF_SEXTET[(group >> 12) & 63]!;
    codes[at++] = CODE_OF_SEXTET[(group >> 6) & 63]!;
    codes[at++] = CODE_OF_SEXTET[group & 63]!;
  }
  const padding = (3 - (bytes.length % 3)) % 3;
  codes.fill(PAD, codes.length - padding);
  return asciiToString(codes);
}

function asciiToString(codes: Uint8Array): string {
  const pieces: string[] = [];
  for (let at = 0; at < codes.length; at += CODES_PER_CALL) {
    // `apply` reads the array as it is; spreading it would iterate, eight times slower.
    const piece: ArrayLike<number> = codes.subarray(at, at + CODES_PER_CALL);
    pieces.push(String.fromCharCode.apply(null, piece as number[]));
  }
  return pieces.join('');
}

/** Decode base64; characters outside the standard alphabet, padding included, are dropped. */
export function base64ToBytes(input: string): Uint8Array {
  const bytes = new Uint8Array(Math.floor((input.length * 3) / 4));
  let length = 0;
  let bits = 0;
  let pending = 0;
  for (let i = 0; i < input.length; i++) {
    const sextet = SEXTET_OF_CODE[input.charCodeAt(i)] ?? NOT_BASE64;
    if (sextet === NOT_BASE64) continue;
    bits = (bits << 6) | sextet;
    pending += 6;
    if (pending >= 8) {
      pending -= 8;
      bytes[length++] = bits >> pending;
      bits &= (1 << pending) - 1;
    }
  }
  return length === bytes.length ? bytes : bytes.slice(0, length);
}

/** Join the base64 of consecutive pieces of a file into the base64 of the file. */
export function joinBase64(pieces: readonly string[]): string {
  const seamless = pieces
    .slice(0, -1)
    .every((piece) => piece.length % 4 === 0 && !piece.endsWith('='));
  if (seamless) return pieces.join('');

  const decoded = pieces.map(base64ToBytes);
  const whole = new Uint8Array(decoded.reduce((length, bytes) => length + bytes.length, 0));
  let at = 0;
  for (const bytes of decoded) {
    whole.set(bytes, at);
    at += bytes.length;
  }
  return bytesToBase64(whole);
}

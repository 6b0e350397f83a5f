/** A new message id: the time in base 36, and a random suffix. */
export function makeId(): string {
  return `${Date.now().toString(36)}-${randomSuffix()}`;
}

function randomSuffix(): string {
  // React Native has no `crypto` of its own; an id has to be unique within a device, not secret.
  const { crypto } = globalThis as { crypto?: Crypto };
  const random = crypto
    ? crypto.getRandomValues(new Uint32Array(2))
    : Uint32Array.from([0, 0], () => Math.random() * 2 ** 32);
  return Array.from(random, (word) => word.toString(36)).join('');
}

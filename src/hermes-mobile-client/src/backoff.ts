const FIRST_CEILING_MS = 500;

/** The pause before attempt `n`, from 0, in ms: full jitter below a doubling ceiling (T2). */
export function backoffMs(n: number, maxMs: number, random: () => number = Math.random): number {
  return random() * Math.min(maxMs, FIRST_CEILING_MS * 2 ** n);
}

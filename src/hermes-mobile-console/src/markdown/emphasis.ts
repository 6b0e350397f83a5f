/** The pairing of `*`, `_` and `~~`, by the rules of CommonMark, in linear time. */

import type { Inline } from './inline.ts';

/** Something finished, and how deep it is; or a run of marks that waits for its partner. */
export type Piece =
  | { readonly inline: Inline; readonly depth: number }
  | { readonly mark: string; count: number; readonly opens: boolean; readonly closes: boolean };

type Run = Extract<Piece, { mark: string }>;

/** Emphasis inside emphasis goes this deep; deeper marks are characters. */
const MAX_DEPTH = 8;

export function emphasize(pieces: readonly Piece[]): Inline[] {
  const done: Piece[] = [];
  // Below these places is no partner for a mark: nothing is searched twice.
  const floors = new Map<string, number>();
  for (const piece of pieces) {
    if (!('mark' in piece)) {
      done.push(piece);
      continue;
    }
    const run = { ...piece };
    while (run.closes && run.count > 0) {
      const opener = openerOf(run, done, floors.get(floorKey(run)) ?? 0);
      if (opener === -1) {
        floors.set(floorKey(run), done.length);
        break;
      }
      if (!wrap(done, opener, run)) break;
    }
    if (run.count > 0) done.push(run);
  }
  return done.map(toInline);
}

/** What `fits` looks at, so that a search that failed failed for all runs like this one. */
function floorKey(run: Run): string {
  return `${run.mark}${run.opens}${run.count % 3}`;
}

function openerOf(closer: Run, done: readonly Piece[], floor: number): number {
  for (let at = done.length - 1; at >= floor; at--) {
    const piece = done[at]!;
    if ('mark' in piece && piece.mark === closer.mark && piece.opens && fits(piece, closer)) {
      return at;
    }
  }
  return -1;
}

/** The "rule of three": `*a**b*` is one emphasis around `a**b`. */
function fits(opener: Run, closer: Run): boolean {
  if (!opener.closes && !closer.opens) return true;
  return (opener.count + closer.count) % 3 !== 0 || opener.count % 3 === 0;
}

/** Puts what follows the opener into an emphasis, and takes the marks for it from both runs. */
function wrap(done: Piece[], at: number, closer: Run): boolean {
  const opener = done[at] as Run;
  const inside = done.slice(at + 1);
  const depth = 1 + inside.reduce((max, p) => ('mark' in p ? max : Math.max(max, p.depth)), 0);
  if (depth > MAX_DEPTH) return false;
  const used = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
  const type = closer.mark === '~' ? 'strike' : used === 2 ? 'strong' : 'emphasis';
  opener.count -= used;
  closer.count -= used;
  done.length = opener.count > 0 ? at + 1 : at;
  done.push({ inline: { type, children: inside.map(toInline) }, depth });
  return true;
}

function toInline(piece: Piece): Inline {
  return 'mark' in piece ? { type: 'text', text: piece.mark.repeat(piece.count) } : piece.inline;
}

/** How the command of a card is shown: exactly, and nothing in it unseen. */

import type { PromptPayload } from './client.ts';

/** A run of characters as they are, or one that would not be seen or would turn others around. */
export interface Part {
  readonly text: string;
  readonly hidden: boolean;
}

/** Control characters but tab and line feed, soft hyphens, zero widths, the marks of direction, tags. */
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e01ef}]/gu;

/** A command in parts, whose hidden characters are spelled out: `U+202E`. */
export function parts(command: string): Part[] {
  const found: Part[] = [];
  let from = 0;
  for (const { 0: character, index } of command.matchAll(HIDDEN)) {
    if (index > from) found.push({ text: command.slice(from, index), hidden: false });
    const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    found.push({ text: `U+${code}`, hidden: true });
    from = index + character.length;
  }
  if (from < command.length) found.push({ text: command.slice(from), hidden: false });
  return found;
}

/** The question of a card, without the command that its text ends with (D23): that is shown below. */
export function question(prompt: PromptPayload): string {
  const { text, command } = prompt;
  if (command === undefined || command === '') return text;
  const at = text.indexOf(command.slice(0, 80));
  if (at < 1) return text;
  const shown = text.slice(at).replace(/…$/, '');
  return command.startsWith(shown) ? text.slice(0, at).trim() : text;
}

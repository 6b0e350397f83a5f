/**
 * What stands in a line of Markdown: emphasis, code, links. Unpaired marks are characters. A link
 * leads to http, https or mailto; any other is shown as it was written.
 */

import { emphasize, type Piece } from './emphasis.ts';

export type Inline =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'code'; readonly text: string }
  | { readonly type: 'strong' | 'emphasis' | 'strike'; readonly children: readonly Inline[] }
  | { readonly type: 'link'; readonly href: string; readonly children: readonly Inline[] };

/** How far the end of a code span or link is looked for, in characters: it bounds the time. */
const REACH = 2_000;

const BARE_LINK = /^https?:\/\/[^\s<>"'`]+/i;
const MARKS = /[*_~]+/y;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;

export function parseInline(text: string): Inline[] {
  return parse(text, true);
}

/** The address if a link may lead there, else null. */
export function safeHref(address: string): string | null {
  if (!URL.canParse(address)) return null;
  const url = new URL(address);
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

function parse(text: string, links: boolean): Inline[] {
  const pieces: Piece[] = [];
  let plain = '';
  const flush = (): void => {
    if (plain !== '') pieces.push({ inline: { type: 'text', text: plain }, depth: 0 });
    plain = '';
  };

  let at = 0;
  while (at < text.length) {
    if (text[at] === '\\' && ESCAPABLE.test(text[at + 1] ?? '')) {
      plain += text[at + 1]!;
      at += 2;
      continue;
    }
    const found = markAt(text, at) ?? spanAt(text, at, links);
    if (found === null) {
      plain += text[at]!;
      at++;
      continue;
    }
    flush();
    pieces.push(found.piece);
    at = found.end;
  }
  flush();
  return emphasize(pieces);
}

interface Found {
  readonly piece: Piece;
  readonly end: number;
}

function span(inline: Inline, end: number): Found {
  return { piece: { inline, depth: 1 }, end };
}

/** A run of marks, and whether emphasis may begin or end with it (the rules of CommonMark). */
function markAt(text: string, at: number): Found | null {
  const mark = text[at]!;
  if (mark !== '*' && mark !== '_' && mark !== '~') return null;
  MARKS.lastIndex = at;
  let count = 0;
  for (const character of MARKS.exec(text)![0]) {
    if (character !== mark) break;
    count++;
  }
  const end = at + count;
  if (mark === '~' && count !== 2) return span({ type: 'text', text: mark.repeat(count) }, end);

  const before = text[at - 1] ?? ' ';
  const after = text[end] ?? ' ';
  const touchesLeft = !/\s/.test(before);
  const touchesRight = !/\s/.test(after);
  const opens = touchesRight && (isWord(after) || !isWord(before));
  const closes = touchesLeft && (isWord(before) || !isWord(after));
  const inWord = mark === '_' && isWord(before) && isWord(after);
  return { piece: { mark, count, opens: opens && !inWord, closes: closes && !inWord }, end };
}

function isWord(character: string): boolean {
  return WORD.test(character) || /[\ud800-\udfff]/.test(character);
}

function spanAt(text: string, at: number, links: boolean): Found | null {
  switch (text[at]) {
    case '`':
      return code(text, at);
    case '[':
      return links ? link(text, at) : null;
    case '<':
      return links ? angleLink(text, at) : null;
    case 'h':
    case 'H':
      return links && !WORD.test(text[at - 1] ?? '') ? bareLink(text, at) : null;
    default:
      return null;
  }
}

function code(text: string, at: number): Found {
  const ahead = text.slice(at, at + REACH);
  const ticks = /^`+/.exec(ahead)![0];
  for (const { 0: run, index } of ahead.matchAll(/`+/g)) {
    if (index === 0 || run.length !== ticks.length) continue;
    const inner = ahead.slice(ticks.length, index).replace(/\n/g, ' ');
    const padded = inner.startsWith(' ') && inner.endsWith(' ') && inner.trim() !== '';
    const shown = padded ? inner.slice(1, -1) : inner;
    return span({ type: 'code', text: shown }, at + index + run.length);
  }
  return span({ type: 'text', text: ticks }, at + ticks.length);
}

function link(text: string, at: number): Found | null {
  const ahead = text.slice(at, at + REACH);
  const middle = ahead.indexOf('](');
  const label = ahead.slice(1, middle);
  if (middle === -1 || label === '' || label.includes('[')) return null;
  const end = closingParenthesis(ahead, middle + 2);
  if (end === -1) return null;
  // What follows the address is a title, which nobody needs here.
  const address =
    ahead
      .slice(middle + 2, end)
      .trim()
      .split(/\s/)[0] ?? '';
  const href = safeHref(address.replace(/^<|>$/g, ''));
  if (href === null) return null;
  return span({ type: 'link', href, children: parse(label, false) }, at + end + 1);
}

/** Where the parenthesis that was opened before `from` is closed, or -1. */
function closingParenthesis(text: string, from: number): number {
  let open = 1;
  for (let i = from; i < text.length && text[i] !== '\n'; i++) {
    if (text[i] === '(') open++;
    if (text[i] === ')' && --open === 0) return i;
  }
  return -1;
}

/** `<https://…>` or `<name@host>`. */
function angleLink(text: string, at: number): Found | null {
  const shown = /^<([^\s<>]+)>/.exec(text.slice(at, at + REACH))?.[1];
  if (shown === undefined) return null;
  const mail = /^[^@:/]+@[^@:/]+$/.test(shown);
  const href = safeHref(mail ? `mailto:${shown}` : shown);
  if (href === null) return null;
  const children: Inline[] = [{ type: 'text', text: shown }];
  return span({ type: 'link', href, children }, at + shown.length + 2);
}

function bareLink(text: string, at: number): Found | null {
  const found = BARE_LINK.exec(text.slice(at, at + REACH));
  if (found === null) return null;
  const shown = withoutPunctuation(found[0]);
  const href = safeHref(shown);
  if (href === null) return null;
  return span({ type: 'link', href, children: [{ type: 'text', text: shown }] }, at + shown.length);
}

/** What ends a sentence is not part of the address; nor is a parenthesis that was opened before it. */
function withoutPunctuation(address: string): string {
  let end = address.length;
  let surplus = address.split(')').length - address.split('(').length;
  for (; end > 0; end--) {
    const last = address[end - 1]!;
    if (last === ')' && surplus > 0) surplus--;
    else if (last === ')' || !/[.,:;!?*_~\]]/.test(last)) break;
  }
  return address.slice(0, end);
}

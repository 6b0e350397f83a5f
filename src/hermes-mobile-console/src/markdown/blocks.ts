/**
 * Markdown into blocks, the way agents write it: paragraphs whose line breaks count, headings, lists,
 * quotes, code, tables, rules. There is no HTML in it: `<` is a character. Every line is read a
 * bounded number of times, so the time is linear in the length, for any text.
 */

export type Block =
  | { readonly type: 'paragraph'; readonly text: string }
  | { readonly type: 'heading'; readonly level: number; readonly text: string }
  | { readonly type: 'code'; readonly language: string; readonly text: string }
  | { readonly type: 'quote'; readonly blocks: readonly Block[] }
  | { readonly type: 'list'; readonly start: number | null; readonly items: readonly Block[][] }
  | { readonly type: 'table'; readonly head: readonly string[]; readonly rows: readonly string[][] }
  | { readonly type: 'rule' };

/** Quotes and lists inside each other go this deep; deeper marks are text. */
const MAX_DEPTH = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const TABLE_LINE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function parseBlocks(text: string): Block[] {
  return parseLines(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}

function parseLines(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (isBlank(line)) {
      at++;
      continue;
    }
    const [block, next] =
      fencedCode(lines, at) ??
      heading(line, at) ??
      rule(line, at) ??
      (depth < MAX_DEPTH ? (quote(lines, at, depth) ?? list(lines, at, depth)) : null) ??
      table(lines, at) ??
      paragraph(lines, at);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

/** A block, and the number of the line after it. */
type Parsed = [Block, number];

function isBlank(line: string): boolean {
  return line.trim() === '';
}

function fencedCode(lines: readonly string[], at: number): Parsed | null {
  const opened = FENCE.exec(lines[at]!);
  if (opened === null) return null;
  const fence = opened[1]!;
  const indent = /^ */.exec(lines[at]!)![0].length;
  const code: string[] = [];
  let next = at + 1;
  for (; next < lines.length; next++) {
    const line = lines[next]!;
    const closed = line.trim();
    // While a reply is being written the end is missing: then the code goes on to the last line.
    if (closed.length >= fence.length && closed === fence[0]!.repeat(closed.length)) {
      next++;
      break;
    }
    code.push(line.slice(Math.min(indent, /^ */.exec(line)![0].length)));
  }
  return [{ type: 'code', language: opened[2]!, text: code.join('\n') }, next];
}

function heading(line: string, at: number): Parsed | null {
  const found = HEADING.exec(line);
  if (found === null) return null;
  const text = trimClosingMarks(found[2]!);
  return [{ type: 'heading', level: found[1]!.length, text }, at + 1];
}

/** `## Title ##` is `Title`. */
function trimClosingMarks(text: string): string {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (end > 0 && trimmed[end - 1] === '#') end--;
  const closes = end < trimmed.length && (end === 0 || trimmed[end - 1] === ' ');
  return closes ? trimmed.slice(0, end).trim() : trimmed;
}

function rule(line: string, at: number): Parsed | null {
  return RULE.test(line) ? [{ type: 'rule' }, at + 1] : null;
}

function quote(lines: readonly string[], at: number, depth: number): Parsed | null {
  let next = at;
  const inner: string[] = [];
  while (next < lines.length && QUOTE.test(lines[next]!)) {
    inner.push(lines[next]!.replace(QUOTE, ''));
    next++;
  }
  if (inner.length === 0) return null;
  return [{ type: 'quote', blocks: parseLines(inner, depth + 1) }, next];
}

function list(lines: readonly string[], at: number, depth: number): Parsed | null {
  const first = ITEM.exec(lines[at]!);
  if (first === null) return null;
  const ordered = isOrdered(first);
  const items: Block[][] = [];
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]!);
    if (item === null || isOrdered(item) !== ordered || RULE.test(lines[next]!)) break;
    const [inner, after] = itemLines(lines, next, item);
    items.push(parseLines(inner, depth + 1));
    next = after;
  }
  const start = ordered ? Number.parseInt(first[2]!, 10) : null;
  return [{ type: 'list', start, items }, next];
}

function isOrdered(item: RegExpExecArray): boolean {
  return /\d/.test(item[2]!);
}

/** The lines of one item without its mark and indentation, and the number of the line after it. */
function itemLines(
  lines: readonly string[],
  at: number,
  item: RegExpExecArray,
): [string[], number] {
  const inner = [lines[at]!.slice(item[0].length)];
  // What belongs to an item is indented below it. Two columns are enough: agents are not exact.
  const indent = Math.min(item[1]!.length + item[2]!.length + 1, 4);
  let next = at + 1;
  for (; next < lines.length; next++) {
    const line = lines[next]!.replace(/^\t/, '    ');
    const columns = /^ */.exec(line)![0].length;
    if (isBlank(line)) {
      const below = lines[next + 1];
      const goesOn = below !== undefined && !isBlank(below) && /^(?: {2,}|\t)/.test(below);
      if (goesOn) inner.push('');
      else if (below !== undefined && ITEM.test(below)) continue;
      else break;
    } else if (columns >= Math.min(indent, 2) && columns > item[1]!.length) {
      inner.push(line.slice(Math.min(columns, indent)));
    } else if (ITEM.test(line) || startsBlock(lines, next)) {
      break;
    } else {
      inner.push(line.trimStart());
    }
  }
  return [inner, next];
}

function table(lines: readonly string[], at: number): Parsed | null {
  if (!startsTable(lines, at)) return null;
  const head = cells(lines[at]!);
  const rows: string[][] = [];
  let next = at + 2;
  for (; next < lines.length && lines[next]!.includes('|') && !isBlank(lines[next]!); next++) {
    const row = cells(lines[next]!);
    rows.push(head.map((_, column) => row[column] ?? ''));
  }
  return [{ type: 'table', head, rows }, next];
}

function startsTable(lines: readonly string[], at: number): boolean {
  const head = lines[at]!;
  const below = lines[at + 1];
  if (below === undefined || !head.includes('|') || !below.includes('-')) return false;
  return TABLE_LINE.test(below) && cells(head).length === cells(below).length;
}

/** The cells of a table's line; `\|` is a character of a cell. */
function cells(line: string): string[] {
  const found: string[] = [];
  let cell = '';
  const inner = line.trim().replace(/^\|/, '');
  for (let i = 0; i < inner.length; i++) {
    if (inner[i] === '\\' && inner[i + 1] === '|') {
      cell += '|';
      i++;
    } else if (inner[i] === '|') {
      found.push(cell.trim());
      cell = '';
    } else {
      cell += inner[i];
    }
  }
  if (cell.trim() !== '') found.push(cell.trim());
  return found;
}

function paragraph(lines: readonly string[], at: number): Parsed {
  let next = at + 1;
  while (next < lines.length && !isBlank(lines[next]!) && !startsBlock(lines, next)) next++;
  return [{ type: 'paragraph', text: lines.slice(at, next).join('\n') }, next];
}

/** Whether a line ends the paragraph above it. */
function startsBlock(lines: readonly string[], at: number): boolean {
  const line = lines[at]!;
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    ITEM.test(line) ||
    startsTable(lines, at)
  );
}

/** Blocks of Markdown as elements of the page: made one by one, with text as text. */

import { element } from '../view/dom.ts';
import type { Block } from './blocks.ts';
import { parseInline, type Inline } from './inline.ts';

/** Shows `blocks` in `parent`, and keeps the elements of those that are as they were before. */
export class MarkdownView {
  readonly #parent: HTMLElement;
  #shown: string[] = [];

  constructor(parent: HTMLElement) {
    this.#parent = parent;
  }

  show(blocks: readonly Block[]): void {
    const wanted = blocks.map((block) => JSON.stringify(block));
    let same = 0;
    while (same < wanted.length && wanted[same] === this.#shown[same]) same++;
    while (this.#parent.childElementCount > same) this.#parent.lastElementChild?.remove();
    this.#parent.append(...blocks.slice(same).map(renderBlock));
    this.#shown = wanted;
  }
}

function renderBlock(block: Block): HTMLElement {
  switch (block.type) {
    case 'paragraph':
      return element('p', {}, ...renderLines(block.text));
    case 'heading':
      return renderHeading(block.level, block.text);
    case 'code':
      return renderCode(block.text, block.language);
    case 'quote':
      return element('blockquote', {}, ...block.blocks.map(renderBlock));
    case 'list':
      return renderList(block.start, block.items);
    case 'table':
      return renderTable(block.head, block.rows);
    case 'rule':
      return element('hr');
  }
}

/** The page's own heading is the first, a message's begin at the third level. */
function renderHeading(level: number, text: string): HTMLElement {
  const tag = (['h3', 'h4', 'h5', 'h6'] as const)[Math.min(level, 4) - 1] ?? 'h6';
  return element(tag, {}, ...renderInline(parseInline(text)));
}

/** A line break in a chat is meant. */
function renderLines(text: string): Node[] {
  const lines = renderInline(parseInline(text));
  return lines.flatMap((node) => breakLines(node));
}

function breakLines(node: Node): Node[] {
  if (!(node instanceof Text)) {
    for (const child of [...node.childNodes]) child.replaceWith(...breakLines(child));
    return [node];
  }
  const [first = '', ...others] = node.data.split('\n');
  return [
    document.createTextNode(first),
    ...others.flatMap((line) => [element('br'), document.createTextNode(line)]),
  ];
}

function renderCode(text: string, language: string): HTMLElement {
  const label = language === '' ? 'Code' : `Code, ${language}`;
  const code = element('code', {}, text);
  const pre = element('pre', { tabindex: '0', role: 'region', 'aria-label': label }, code);
  const copy = element('button', { type: 'button', class: 'quiet copy' }, 'Copy');
  copy.addEventListener('click', () => {
    copyText(text).then(
      () => (copy.textContent = 'Copied'),
      () => (copy.textContent = 'Could not copy'),
    );
  });
  return element('div', { class: 'code' }, pre, copy);
}

async function copyText(text: string): Promise<void> {
  // Where the page is neither https nor localhost there is no clipboard.
  await navigator.clipboard.writeText(text);
}

function renderList(start: number | null, items: readonly Block[][]): HTMLElement {
  const rendered = items.map((blocks) => element('li', {}, ...blocks.map(renderBlock)));
  if (start === null) return element('ul', {}, ...rendered);
  return element('ol', { start: String(start) }, ...rendered);
}

function renderTable(head: readonly string[], rows: readonly string[][]): HTMLElement {
  const cell = (tag: 'th' | 'td', text: string): HTMLElement =>
    element(tag, tag === 'th' ? { scope: 'col' } : {}, ...renderInline(parseInline(text)));
  const table = element(
    'table',
    {},
    element('thead', {}, element('tr', {}, ...head.map((text) => cell('th', text)))),
    element(
      'tbody',
      {},
      ...rows.map((row) => element('tr', {}, ...row.map((text) => cell('td', text)))),
    ),
  );
  return element(
    'div',
    { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' },
    table,
  );
}

function renderInline(nodes: readonly Inline[]): Node[] {
  return nodes.map((node) => {
    switch (node.type) {
      case 'text':
        return document.createTextNode(node.text);
      case 'code':
        return element('code', {}, node.text);
      case 'strong':
        return element('strong', {}, ...renderInline(node.children));
      case 'emphasis':
        return element('em', {}, ...renderInline(node.children));
      case 'strike':
        return element('s', {}, ...renderInline(node.children));
      case 'link':
        return renderLink(node.href, renderInline(node.children));
    }
  });
}

export function renderLink(href: string, children: readonly Node[]): HTMLElement {
  return element('a', { href, target: '_blank', rel: 'noopener noreferrer' }, ...children);
}

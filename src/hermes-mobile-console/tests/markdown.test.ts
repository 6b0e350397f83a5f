import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseBlocks, type Block } from '../src/markdown/blocks.ts';
import { parseInline, safeHref, type Inline } from '../src/markdown/inline.ts';

/** Inline Markdown in a form that is quick to read: marks become tags. */
function inline(text: string): string {
  const shown = (nodes: readonly Inline[]): string =>
    nodes
      .map((node) => {
        switch (node.type) {
          case 'text':
            return node.text;
          case 'code':
            return `<code>${node.text}</code>`;
          case 'link':
            return `<a ${node.href}>${shown(node.children)}</a>`;
          default:
            return `<${node.type}>${shown(node.children)}</${node.type}>`;
        }
      })
      .join('');
  return shown(parseInline(text));
}

const paragraph = (text: string): Block => ({ type: 'paragraph', text });

const INLINE: readonly (readonly [name: string, text: string, expected: string])[] = [
  ['plain text is itself', 'a < b & c > d', 'a < b & c > d'],
  ['one mark emphasizes', '*a* and _b_', '<emphasis>a</emphasis> and <emphasis>b</emphasis>'],
  ['two marks are strong', '**a** __b__', '<strong>a</strong> <strong>b</strong>'],
  ['three marks are both', '***a***', '<emphasis><strong>a</strong></emphasis>'],
  ['emphasis nests', '**a *b* c**', '<strong>a <emphasis>b</emphasis> c</strong>'],
  ['two tildes strike', '~~a~~ ~b~', '<strike>a</strike> ~b~'],
  ['an unpaired mark is a character', '2 * 3 and *a', '2 * 3 and *a'],
  ['snake_case is not emphasis', 'a_b_c snake_case_name', 'a_b_c snake_case_name'],
  ['code keeps its marks', '`a *b* <c>`', '<code>a *b* <c></code>'],
  ['code may hold ticks', '`` a`b ``', '<code>a`b</code>'],
  ['an unpaired tick is a character', 'a ` b', 'a ` b'],
  ['a backslash takes the meaning from a mark', '\\*a\\* \\n', '*a* \\n'],
  ['a link', '[a *b*](https://x.org/y)', '<a https://x.org/y>a <emphasis>b</emphasis></a>'],
  ['a link with parentheses', '[a](https://x.org/y_(z))', '<a https://x.org/y_(z)>a</a>'],
  ['a link loses its title', '[a](https://x.org "t")', '<a https://x.org/>a</a>'],
  [
    'a bare address is a link',
    'see https://x.org/a_b_c.',
    'see <a https://x.org/a_b_c>https://x.org/a_b_c</a>.',
  ],
  [
    'the parenthesis around an address stays outside',
    '(https://x.org/a)',
    '(<a https://x.org/a>https://x.org/a</a>)',
  ],
  [
    'an address in angles',
    '<https://x.org> <a@x.org>',
    '<a https://x.org/>https://x.org</a> <a mailto:a@x.org>a@x.org</a>',
  ],
  ['HTML is text', '<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
  ['a script address is text', '[a](javascript:alert(1))', '[a](javascript:alert(1))'],
  ['a data address is text', '[a](data:text/html,x)', '[a](data:text/html,x)'],
  [
    "a link in a link's label is not one",
    '[https://a.org](https://b.org)',
    '<a https://b.org/>https://a.org</a>',
  ],
];

for (const [name, text, expected] of INLINE) {
  test(`inline: ${name}`, () => assert.equal(inline(text), expected));
}

const BLOCKS: readonly (readonly [name: string, text: string, expected: readonly Block[]])[] = [
  ['paragraphs keep their line breaks', 'a\nb\n\nc', [paragraph('a\nb'), paragraph('c')]],
  ['nothing is nothing', ' \n\n', []],
  ['a heading', '## A b ##\ntext', [{ type: 'heading', level: 2, text: 'A b' }, paragraph('text')]],
  ['a number sign alone is text', '#1 and #two', [paragraph('#1 and #two')]],
  ['a rule', 'a\n\n---\nb', [paragraph('a'), { type: 'rule' }, paragraph('b')]],
  [
    'code is verbatim',
    '```sh\n*a*\n\n  b\n```\nc',
    [{ type: 'code', language: 'sh', text: '*a*\n\n  b' }, paragraph('c')],
  ],
  [
    'code that is being written goes on to the end',
    'a\n```\nb',
    [paragraph('a'), { type: 'code', language: '', text: 'b' }],
  ],
  [
    'a quote holds blocks',
    '> a\n> - b',
    [
      {
        type: 'quote',
        blocks: [paragraph('a'), { type: 'list', start: null, items: [[paragraph('b')]] }],
      },
    ],
  ],
  [
    'a list',
    '- a\n- b\n  more',
    [{ type: 'list', start: null, items: [[paragraph('a')], [paragraph('b\nmore')]] }],
  ],
  [
    'a numbered list begins where it says',
    '3. a\n4. b',
    [{ type: 'list', start: 3, items: [[paragraph('a')], [paragraph('b')]] }],
  ],
  [
    'lists nest',
    '- a\n  - b\n    - c\n- d',
    [
      {
        type: 'list',
        start: null,
        items: [
          [
            paragraph('a'),
            {
              type: 'list',
              start: null,
              items: [[paragraph('b'), { type: 'list', start: null, items: [[paragraph('c')]] }]],
            },
          ],
          [paragraph('d')],
        ],
      },
    ],
  ],
  [
    'blank lines between items are one list',
    '1. a\n\n2. b',
    [{ type: 'list', start: 1, items: [[paragraph('a')], [paragraph('b')]] }],
  ],
  [
    'a table',
    '| a | b |\n|---|:-:|\n| 1 | x \\| y |\n| 2 |\nend',
    [
      {
        type: 'table',
        head: ['a', 'b'],
        rows: [
          ['1', 'x | y'],
          ['2', ''],
        ],
      },
      paragraph('end'),
    ],
  ],
  ['a line with bars is text', 'a | b\nc | d', [paragraph('a | b\nc | d')]],
];

for (const [name, text, expected] of BLOCKS) {
  test(`blocks: ${name}`, () => assert.deepEqual(parseBlocks(text), expected));
}

test('a link leads to http, https or mailto only', () => {
  assert.equal(safeHref('https://x.org/a b'), 'https://x.org/a%20b');
  assert.equal(safeHref('MAILTO:a@x.org'), 'mailto:a@x.org');
  for (const address of [
    'javascript:alert(1)',
    ' java\nscript:alert(1)',
    'data:,x',
    'file:///etc',
    'blob:x',
    '/a',
    '',
  ]) {
    assert.equal(safeHref(address), null, address);
  }
});

const HOSTILE: Readonly<Record<string, string>> = {
  stars: '*'.repeat(50_000),
  'opening marks': '*a '.repeat(20_000),
  'alternating marks': '*a_b'.repeat(20_000),
  'closing marks': 'a* '.repeat(20_000),
  ticks: '`a``b```c'.repeat(5_000),
  brackets: '['.repeat(50_000),
  'half links': '[a]('.repeat(10_000),
  angles: '<'.repeat(50_000),
  quotes: '>'.repeat(50_000),
  'nested items': Array.from({ length: 2_000 }, (_, n) => `${' '.repeat(n % 40)}- a`).join('\n'),
  'table lines': '|-'.repeat(20_000) + '\n' + '|-'.repeat(20_000),
  dashes: '- '.repeat(50_000) + 'a',
  addresses: 'https://a.org/(((('.repeat(5_000),
};

for (const [name, text] of Object.entries(HOSTILE)) {
  test(`hostile text takes no time: ${name}`, () => {
    const started = performance.now();
    for (const block of parseBlocks(text)) if (block.type === 'paragraph') parseInline(block.text);
    assert.ok(performance.now() - started < 1_500);
  });
}

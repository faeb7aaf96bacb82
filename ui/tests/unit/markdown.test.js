import assert from 'node:assert/strict';
import { test } from 'node:test';
import { safeHref } from '../../src/model/inline.js';
import { parse, parsePlain } from '../../src/model/markdown.js';

/** A tree as a short line, so that a test reads at one glance. */
const told = (text) => parse(text).map(block).join(' ');
const inlines = (nodes) => nodes.map(inline).join('');

function block(node) {
  if (node.type === 'paragraph') return `p(${inlines(node.children)})`;
  if (node.type === 'heading') return `h${node.level}(${inlines(node.children)})`;
  if (node.type === 'fence') return `fence[${node.lang}](${JSON.stringify(node.text)})`;
  if (node.type === 'quote') return `quote(${node.blocks.map(block).join(' ')})`;
  if (node.type === 'list') {
    const items = node.items.map((item) => `li(${item.map(block).join(' ')})`).join(' ');
    return `${node.ordered ? `ol${node.start}` : 'ul'}(${items})`;
  }
  if (node.type === 'table') {
    const rows = [node.head, ...node.rows].map((row) => row.map(inlines).join('|'));
    return `table[${node.align.join(',')}](${rows.join(' / ')})`;
  }
  return node.type;
}

function inline(node) {
  if (node.type === 'text') return node.text;
  if (node.type === 'code') return `code(${node.text})`;
  if (node.type === 'break') return '⏎';
  if (node.type === 'mention') return `mention(${node.id})`;
  if (node.type === 'link') return `link[${node.href}](${inlines(node.children)})`;
  return `${node.type}(${inlines(node.children)})`;
}

const CASES = [
  ['plain', 'p(plain)'],
  ['one\ntwo\n\nthree', 'p(one⏎two) p(three)'],
  ['# Title #\ntext', 'h1(Title) p(text)'],
  ['####### no heading', 'p(####### no heading)'],
  ['#hash', 'p(#hash)'],
  ['*a* **b** ***c*** _d_ __e__ ~~f~~', 'p(em(a) strong(b) strong(em(c)) em(d) strong(e) del(f))'],
  ['**bold and *both* here**', 'p(strong(bold and em(both) here))'],
  ['snake_case_name and 2 * 3 * 4', 'p(snake_case_name and 2 * 3 * 4)'],
  ['a_b_ c _d_e', 'p(a_b_ c _d_e)'],
  ['*open **never closed', 'p(*open **never closed)'],
  ['**a* b', 'p(**a* b)'],
  ['`code *not em*` and ``a ` b``', 'p(code(code *not em*) and code(a ` b))'],
  ['a ` b', 'p(a ` b)'],
  ['\\*not em\\* \\<b\\>', 'p(*not em* <b>)'],
  ['```js\nlet a = "<b>";\n\n# no\n```\nafter', 'fence[js]("let a = \\"<b>\\";\\n\\n# no") p(after)'],
  ['```\nnever closed', 'fence[]("never closed")'],
  ['> quoted\n> > twice\n\nout', 'quote(p(quoted) quote(p(twice))) p(out)'],
  ['- a\n- b\n  - c\n  - d\n- e', 'ul(li(p(a)) li(p(b) ul(li(p(c)) li(p(d)))) li(p(e)))'],
  ['3. a\n4. b\n\nend', 'ol3(li(p(a)) li(p(b))) p(end)'],
  ['in\n1999. a year', 'p(in⏎1999. a year)'],
  ['- a\n\n  more of a\n- b', 'ul(li(p(a) p(more of a)) li(p(b)))'],
  ['- a\nlazy', 'ul(li(p(a⏎lazy)))'],
  ['---', 'rule'],
  ['* * *', 'rule'],
  ['| a | b |\n|---|--:|\n| 1 | **2** |\n| x \\| y |', 'table[left,right](a|b / 1|strong(2) / x | y)'],
  ['a | b\nno table', 'p(a | b⏎no table)'],
  ['[text](https://a.example/x_(y))', 'p(link[https://a.example/x_(y)](text))'],
  ['[**b** c](mailto:a@b.example)', 'p(link[mailto:a@b.example](strong(b) c))'],
  ['![alt](https://a.example/i.png)', 'p(link[https://a.example/i.png](alt))'],
  ['[x](javascript:alert(1))', 'p([x](javascript:alert(1)))'],
  ['[x](data:text/html,hi) [y](//evil.example)', 'p([x](data:text/html,hi) [y](//evil.example))'],
  ['[a [b](https://c.example) d](https://e.example)', 'p(link[https://e.example](a b d))'],
  ['see https://a.example/b?c=d. And (https://e.example).',
    'p(see link[https://a.example/b?c=d](https://a.example/b?c=d). And (link[https://e.example](https://e.example)).)'],
  ['<script>alert(1)</script>', 'p(<script>alert(1)</script>)'],
  ['<img src=x onerror=alert(1)>', 'p(<img src=x onerror=alert(1)>)'],
  ['ask @auth0|5f7c, @a+b=c#1 or @x!y$z: now!', 'p(ask mention(auth0|5f7c), mention(a+b=c#1) or mention(x!y$z): now!)'],
  ['done, @rover! or @rover= or |@rover|', 'p(done, mention(rover)! or mention(rover)= or |mention(rover)|)'],
  ['@alice+@bob, @x=@y!@z', 'p(mention(alice)+mention(bob), mention(x)=mention(y)!mention(z))'],
  ['hi @rover, and @a.b: me@example.org', 'p(hi mention(rover), and mention(a.b): me@example.org)'],
  ['@ @- @.', 'p(@ @- @.)'],
];

for (const [text, wanted] of CASES) {
  test(`markdown: ${JSON.stringify(text)}`, () => assert.equal(told(text), wanted));
}

test('plain text keeps its marks and line breaks, and has links and mentions', () => {
  assert.equal(inlines(parsePlain('*a*\n`b` https://c.example @d')), '*a*\n`b` link[https://c.example](https://c.example) mention(d)');
});

test('only addresses that can do no harm are links', () => {
  const good = ['https://a.example', 'HTTP://a.example/x?y#z', 'mailto:a@b.example'];
  const bad = ['javascript:alert(1)', ' https://a.example', 'https://', 'https:///x', 'data:text/html,x', 'vbscript:x', 'file:///etc',
    '//a.example', '/v0/session', 'mailto:nobody', 'https://a.example/\u0000', 'https://a.example/"x', 'java\nscript:alert(1)', ''];
  for (const href of good) assert.equal(safeHref(href), href);
  for (const href of bad) assert.equal(safeHref(href), null, href);
});

const HOSTILE = ['[', ']', '[]', '[](', '](', '![', '*', '**', '*a ', '_a _', '**a *b ~~c ', '`', '`a', '``', '~~', '>', '> ', '- ', '1. ', '#',
  '# ', '|', '|-', '| a | b |\n', '|\n-\n', '\\', '@', '@a', 'h', 'http://', 'https://a)', 'https://a(', '(', ')', '\n', ' ', '\t', ' \n',
  '- \n', '> \n', '```\n', '~~~', '*a**b', '[a](b', '[a](https://b)', '<', '&', 'a*', '*_', '- a\n  ', '> - ', '****', '[*', '*]', 'mailto:'];

/** Text that counts with its first half: `a` then `b` so that what was opened is closed. */
const shapes = (a, b, size) => [a.repeat(size), a.repeat(size / 2) + b.repeat(size / 2)];

test('hostile text is read in linear work', () => {
  const steps = (text) => {
    const meter = { steps: 0 };
    parse(text, meter);
    parsePlain(text, meter);
    return meter.steps;
  };
  for (const a of HOSTILE) {
    for (const b of HOSTILE) {
      const small = shapes(a, b, 256);
      const large = shapes(a, b, 2048);
      for (const at of [0, 1]) {
        const work = steps(large[at]);
        assert.ok(work <= 60 * large[at].length + 1000, `${JSON.stringify(a + b)}: ${work} steps for ${large[at].length}`);
        assert.ok(work <= 9 * steps(small[at]) + 1000, `${JSON.stringify(a + b)} is not linear: ${work}`);
      }
    }
  }
});

test('nesting is bounded, so that drawing it cannot overflow', () => {
  const depth = (node) => {
    if (Array.isArray(node)) return Math.max(0, ...node.map(depth));
    if (typeof node !== 'object' || node === null) return 0;
    return 1 + Math.max(0, ...Object.values(node).map(depth));
  };
  for (const text of ['> '.repeat(5000), '- '.repeat(5000) + 'x', '*a _b '.repeat(5000) + 'x* y_ '.repeat(5000), '['.repeat(5000)]) {
    assert.ok(depth(parse(text)) < 60, text.slice(0, 20));
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hiddenHost, textOf } from '../../src/model/links.js';
import { parse } from '../../src/model/markdown.js';

/** What is shown behind the first link of a text. */
function behind(text) {
  const [paragraph] = parse(text);
  const link = paragraph.type === 'paragraph' && paragraph.children.find((node) => node.type === 'link');
  assert.ok(link && link.type === 'link', text);
  return hiddenHost(textOf(link.children), link.href);
}

test('a link whose text is another address says where it leads', () => {
  for (const text of ['https://bank.example/', 'bank.example', 'www.bank.example/login', 'go to https://bank.example', '`bank.example`', '**bank.example**',
    'https://bank.example:444/', 'bank.example\u202e', 'https://evil.example@bank.example/']) {
    assert.equal(behind(`[${text}](https://evil.example/x)`), 'evil.example', text);
  }
  assert.equal(behind('[bank.example](mailto:a@evil.example)'), 'a@evil.example');
  assert.equal(behind('https://bank.example@evil.example/'), 'evil.example', 'also one that was only written');
  assert.equal(behind('[Bank](https://xn--bnk-5cd.example/)'), 'xn--bnk-5cd.example');
});

test('a link that is true, or only words, says no more', () => {
  for (const text of ['[the docs](https://a.example/x)', '[https://a.example/](https://a.example/x)', '[A.example](https://a.example/)', 'https://a.example/x?y=z',
    '[a@b.example](mailto:a@b.example)']) {
    assert.equal(behind(text), '', text);
  }
});

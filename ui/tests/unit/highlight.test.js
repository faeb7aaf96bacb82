import assert from 'node:assert/strict';
import { test } from 'node:test';
import { highlight } from '../../src/model/highlight.js';
import { ends } from '../support/ends.js';

const parts = (text, lang) => highlight(text, lang).filter(({ token }) => token !== '').map(({ token, text: part }) => `${token} ${part}`);

test('comments, texts, numbers and words of a language are told apart', () => {
  assert.deepEqual(parts('const a = 31; // warm\nif (a > 0x1f) open("the \\"roof\\"");', 'js'),
    ['keyword const', 'number 31', 'comment // warm', 'keyword if', 'number 0x1f', 'string "the \\"roof\\""']);
  assert.deepEqual(parts("def f():\n  '''why'''\n  return None # nothing", 'python'), ['keyword def', "string '''why'''", 'keyword return', 'keyword None', 'comment # nothing']);
  assert.deepEqual(parts('SELECT name FROM t -- all\nWHERE x = \'y\'', 'sql'), ['keyword SELECT', 'keyword FROM', 'comment -- all', 'keyword WHERE', "string 'y'"]);
  assert.deepEqual(parts("fn first<'a>(x: &'a str) { 'x' }", 'rust ignore'), ['keyword fn', "string 'x'"], 'a lifetime is no text');
  assert.deepEqual(parts('/* never closed "', 'c'), ['comment /* never closed "']);
  assert.deepEqual(parts('const a = 1', 'unheard-of'), []);
  assert.deepEqual(parts('const a = 1', ''), []);
});

test('the parts make up the code again, whatever it is', () => {
  let seed = 3;
  const random = (most) => (seed = (seed * 48_271) % 2_147_483_647) % most;
  const pieces = ['"', "'", '`', '\\', '/*', '*/', '//', '#', '--', '"""', "'''", '\n', ' ', 'if', 'x', '1', '$', 'é', '😀'];
  for (let times = 0; times < 500; times += 1) {
    const text = Array.from({ length: 40 }, () => pieces[random(pieces.length)]).join('');
    for (const lang of ['js', 'rust', 'py', 'sql', 'none']) assert.equal(highlight(text, lang).map((part) => part.text).join(''), text);
  }
});

test('hostile code is coloured soon', async () => {
  const many = await ends('model/highlight.js', ({ highlight: colour }) => {
    const texts = ['"', "'", '`', '/*', '"""', "'''", '\\', "'\\", '#', '1', 'a', '"\\', "''", "'a"].map((piece) => piece.repeat(20_000 / piece.length));
    return ['js', 'rust', 'py', 'sql'].reduce((sum, lang) => sum + texts.reduce((all, text) => all + colour(text, lang).length, 0), 0);
  });
  assert.ok(many > 0);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ends } from '../support/ends.js';

import { cellText, looksLikeMarkdown, mediaAddress, tableOf, tablesOf } from '../../src/model/content.js';
import { parseExact } from '../../src/model/exact.js';
import { expand, variablesOf } from '../../src/model/template.js';

test('lists of objects and plain objects are tables', () => {
  assert.deepEqual(tableOf([{ a: 1 }, { b: 'x', a: null }]), { columns: ['a', 'b'], rows: [[1, undefined], [null, 'x']] });
  assert.deepEqual(tableOf({ a: 1, b: 'x' }), { columns: ['name', 'value'], rows: [['a', 1], ['b', 'x']] });
  for (const tree of [[], {}, 'text', 1, null, [1, 2], [{ a: 1 }, 2], { a: { b: 1 } }, { a: [1] }, [{}], parseExact('9007199254740993')]) {
    assert.equal(tableOf(tree), undefined, JSON.stringify(tree));
  }
  const wide = [Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`c${index}`, 1]))];
  assert.equal(tableOf(wide), undefined);
});

test('an object of plain values and lists is several tables', () => {
  assert.deepEqual(tablesOf({ topic: 't', people: [{ id: 'a' }] }), [
    { name: '', table: { columns: ['name', 'value'], rows: [['topic', 't']] } }, { name: 'people', table: { columns: ['id'], rows: [['a']] } },
  ]);
  assert.deepEqual(tablesOf({ people: [{ id: 'a' }] })?.map(({ name }) => name), ['people']);
  assert.equal(tablesOf({ a: [{ id: 1 }], b: { c: 1 } }), undefined);
  assert.equal(tablesOf({ a: [1, 2] }), undefined);
  assert.equal(tablesOf('text'), undefined);
});

test('cells keep every digit', () => {
  const table = tableOf(parseExact('[{"n":9007199254740993,"o":{"m":1.0}}]'));
  assert.deepEqual(table?.rows[0]?.map(cellText), ['9007199254740993', '{"m":1.0}']);
  assert.equal(cellText(undefined), '');
  assert.equal(cellText('plain'), 'plain');
});

test('pictures and sound: only their own types, only base64', () => {
  assert.equal(mediaAddress('image', 'image/png', 'AA=='), 'data:image/png;base64,AA==');
  assert.equal(mediaAddress('image', 'image/png;charset=utf-8', 'A-_\n8'), 'data:image/png;base64,A+/8');
  assert.equal(mediaAddress('image', 'image/svg+xml', 'AAAA'), undefined, 'it draws as long as it likes');
  assert.equal(mediaAddress('audio', 'Audio/WAV', 'AAAA'), 'data:audio/wav;base64,AAAA');
  for (const [type, mime, data] of /** @type {[any, any, any][]} */ ([
    ['image', 'text/html', 'AAAA'], ['image', 'audio/wav', 'AAAA'], ['audio', '"><script>', 'AAAA'], ['image', 'image/png', '<svg>'], ['image', 'image/png', ''],
    ['image', undefined, 'AAAA'], ['image', 'image/png', 7], ['image', 'image/png,x', 'AAAA'],
  ])) assert.equal(mediaAddress(type, mime, data), undefined, `${mime} ${data}`);
});

test('Markdown is told from text that only looks odd', () => {
  for (const text of ['# Title', 'a\n```\ncode\n```', '- a\n- b', 'some **bold** word', 'see [x](https://example.org/)', '| a | b |\n|---|---|']) {
    assert.equal(looksLikeMarkdown(text), true, text);
  }
  for (const text of ['plain', 'a_b_c', '2 * 3 * 4', '-1', '#hash', 'C:\\path\\*', '- one dash']) assert.equal(looksLikeMarkdown(text), false, text);
});

test('addresses with gaps', () => {
  assert.deepEqual(variablesOf('file:///{+path}{?a,b*}/{a}/{n:3}'), ['path', 'a', 'b', 'n']);
  assert.deepEqual(variablesOf('file:///plain'), []);
  const values = { path: 'a b/c', a: 'x&y', b: '' };
  assert.equal(expand('file:///{path}', values), 'file:///a%20b%2Fc');
  assert.equal(expand('file:///{+path}', values), 'file:///a%20b/c');
  assert.equal(expand('db://t{?a,b}', values), 'db://t?a=x%26y');
  assert.equal(expand('db://t{/a,missing}{#a}', values), 'db://t/x%26y#x&y');
});

test('it is found out soon, whatever the text', async () => {
  const found = await ends('model/content.js', ({ looksLikeMarkdown: looks }) => {
    const pieces = ['[', '[a](http:', '[a', '**a', '|', '|a|\n|-', '- a\n', '1. ', '![', '|\n'];
    const texts = pieces.map((piece) => piece.repeat(Math.ceil(20_000 / piece.length)));
    for (let times = 0; times < 500; times += 1) texts.forEach((text) => looks(text));
    return ['see [this](https://example.org/a) there', '[[[[a]](b)'].map((text) => looks(text));
  });
  assert.deepEqual(found, [true, false]);
});

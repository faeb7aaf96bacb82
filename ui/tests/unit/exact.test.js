import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Exact, exactNumber, parseExact, stringifyExact } from '../../src/model/exact.js';
import { stringify } from '../../src/model/raw.js';

test('what is read is written again as it was', () => {
  for (const text of [
    '9007199254740993', '1.0', '-0', '1e400', '0.1', '[]', '{}', '{"b":1,"a":[1.50,{"deep":18446744073709551615}]}', 'null',
    '"a\\"b\\\\c"', 'true', '[null,false,"😀"]', '{"__proto__":{"x":1}}',
  ]) {
    assert.equal(stringifyExact(parseExact(text)), text);
    assert.equal(stringify(parseExact(text)), text, 'the page sends with `stringify`');
  }
});

test('ordinary numbers are numbers', () => {
  assert.equal(parseExact('42'), 42);
  assert.equal(parseExact('-1.5'), -1.5);
  assert.ok(exactNumber('1e2') instanceof Exact);
});

test('refuses what the gateway would refuse, and says where', () => {
  const cases = /** @type {[string, RegExp][]} */ ([
    ['{"a":1,"a":2}', /line 1, column 8: the key "a" stands twice/],
    ['{\n  "a": [1,\n  x]\n}', /line 3, column 3: a JSON value was expected/],
    ['"\\ud800"', /surrogate/],
    ['[1,]', /a JSON value was expected/],
    ['{"a" 1}', /`:` was expected/],
    ['{a:1}', /double quotes/],
    ['[1 2]', /`,` or `\]` was expected/],
    ['"abc', /has no end/],
    ['"a\nb"', /must be escaped/],
    ['', /ends too early/],
    ['01', /nothing more was expected/],
    ['1 2', /nothing more was expected/],
    ['['.repeat(70) + ']'.repeat(70), /nested deeper than 64/],
  ]);
  for (const [text, message] of cases) assert.throws(() => parseExact(text), message, text);
});

test('indented like JSON.stringify does', () => {
  const value = { a: [1, { b: 'c' }], d: {}, e: [] };
  assert.equal(stringifyExact(value, 2), JSON.stringify(value, null, 2));
});

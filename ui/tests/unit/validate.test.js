import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseExact } from '../../src/model/exact.js';
import { matches } from '../../src/model/pattern.js';
import { validate } from '../../src/model/validate.js';

/** @param {any} schema @param {string} json */
const judge = (schema, json) => Object.fromEntries(validate(schema, parseExact(json)));

test('each keyword, kept and broken', () => {
  const cases = /** @type {[any, string, string, string][]} */ ([
    [{ type: 'string' }, '"a"', '1', 'must be text'],
    [{ type: 'integer' }, '1.0', '1.5', 'must be a whole number'],
    [{ type: 'integer' }, '99999999999999999999', '"1"', 'must be a whole number'],
    [{ type: ['number', 'null'] }, 'null', 'true', 'must be a number or null'],
    [{ type: 'object' }, '{}', '18446744073709551615', 'must be an object'],
    [{ type: 'array' }, '[]', '{}', 'must be a list'],
    [{ type: 'boolean' }, 'false', 'null', 'must be true or false'],
    [{ const: { a: [1] } }, '{"a":[1]}', '{"a":[2]}', 'must be {"a":[1]}'],
    [{ enum: ['a', 1] }, '1', '2', 'must be one of the values listed'],
    [{ minLength: 2 }, '"ab"', '"😀"', 'needs at least 2 characters'],
    [{ maxLength: 1 }, '"😀"', '"ab"', 'may have at most 1 character, and has 2'],
    [{ pattern: '^[a-z]+$' }, '"abc"', '"a1"', 'must match ^[a-z]+$'],
    [{ minimum: 1 }, '1', '0', 'must be 1 or more'],
    [{ maximum: 9 }, '9', '9007199254740993', 'must be 9 or less'],
    [{ exclusiveMinimum: 0 }, '0.1', '0', 'must be more than 0'],
    [{ exclusiveMaximum: 1 }, '0.9', '1', 'must be less than 1'],
    [{ multipleOf: 0.1 }, '0.3', '0.35', 'must be a multiple of 0.1'],
    [{ multipleOf: 2 }, '9007199254740994000', '9007199254740993', 'must be a multiple of 2'],
    [{ minItems: 1 }, '[1]', '[]', 'needs at least 1 entry'],
    [{ maxItems: 1 }, '[1]', '[1,2]', 'may have at most 1 entry'],
    [{ uniqueItems: true }, '[1,"1"]', '[{"a":1,"b":2},{"b":2,"a":1}]', 'must not have the same entry twice'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'null', '1', 'fits none of the alternatives'],
    [{ $ref: '#/$defs/x', $defs: { x: { type: 'string' } } }, '"a"', '1', 'must be text'],
    [{ format: 'email' }, '"a@b.example"', '"a b"', 'must be an e-mail address'],
    [{ format: 'uri' }, '"mailto:x"', '"x"', 'must be an address such as https://example.org/'],
    [{ format: 'date' }, '"2024-02-29"', '"2023-02-29"', 'must be a date such as 2026-01-31'],
    [{ format: 'date-time' }, '"2024-02-29T23:59:60Z"', '"2024-02-29T24:00:00Z"', 'must be a date and time such as 2026-01-31T13:45:00Z'],
    [{ format: 'time' }, '"13:45:00+02:00"', '"13:45"', 'must be a time such as 13:45:00Z'],
    [{ format: 'uuid' }, '"01234567-89ab-cdef-0123-456789abcdef"', '"0"', 'must be a UUID'],
    [{ format: 'ipv4' }, '"127.0.0.1"', '"256.0.0.1"', 'must be an IPv4 address'],
    [false, '', '1', 'is not allowed here'],
  ]);
  for (const [schema, good, bad, message] of cases) {
    if (good) assert.deepEqual(judge(schema, good), {}, JSON.stringify(schema));
    assert.deepEqual(judge(schema, bad), { '': message }, JSON.stringify(schema));
  }
});

test('what is inside is found by its pointer', () => {
  const schema = {
    properties: { 'a/b': { items: { properties: { n: { type: 'integer' } }, required: ['n'] } } }, additionalProperties: { type: 'string' },
  };
  assert.deepEqual(judge(schema, '{"a/b":[{"n":1},{},{"n":"x"}],"other":1}'),
    { '/a~1b/1/n': 'is required', '/a~1b/2/n': 'must be a whole number', '/other': 'must be text' });
});

test('unknown words let pass', () => {
  assert.deepEqual(judge({ format: 'tea-pot', if: { const: 1 }, else: false, contains: { type: 'string' } }, '"x"'), {});
});

test('a schema cannot keep the page busy', () => {
  const endless = { anyOf: [{ $ref: '#' }, { $ref: '#' }, { $ref: '#' }], type: 'string' };
  assert.deepEqual(judge({ $ref: '#' }, '1'), {});
  assert.equal(judge(endless, '1')[''] !== undefined, true);
});

test('references and allOf that multiply cost a bounded number of steps', () => {
  /** @type {any} */
  let chain = { type: 'string' };
  const $defs = /** @type {Record<string, any>} */ ({});
  for (let level = 0; level < 12; level += 1) {
    $defs[`d${level}`] = chain;
    chain = { allOf: Array(16).fill({ $ref: `#/$defs/d${level}` }) };
  }
  assert.deepEqual(judge({ ...chain, $defs }, '"x"'), {});
  const long = 'x'.repeat(200_000);
  const often = { items: { anyOf: Array(200).fill({ $ref: '#/$defs/c' }) }, $defs: { c: { type: 'string', const: { long } } } };
  assert.ok(Object.keys(judge(often, `[${Array(5000).fill('"y"').join()}]`)).length < 10, 'beyond what it may cost everything passes');
});

test('a format is no name of something else', () => {
  for (const format of ['constructor', 'toString', '__proto__', 7, {}, null]) assert.deepEqual(judge({ format }, '"x"'), {});
});

test('limits keep their digits, and may be written as decimals', () => {
  const exact = (/** @type {string} */ schema, /** @type {string} */ json) => judge(parseExact(schema), json);
  assert.deepEqual(exact('{"minimum":9007199254740993}', '9007199254740992'), { '': 'must be 9007199254740993 or more' });
  assert.deepEqual(exact('{"minimum":9007199254740993}', '9007199254740993'), {});
  assert.deepEqual(exact('{"exclusiveMaximum":9007199254740993}', '9007199254740993'), { '': 'must be less than 9007199254740993' });
  assert.deepEqual(exact('{"multipleOf":9007199254740993}', '18014398509481986'), {});
  assert.deepEqual(exact('{"multipleOf":9007199254740993}', '18014398509481987'), { '': 'must be a multiple of 9007199254740993' });
  assert.deepEqual(exact('{"maxLength":1.0}', '"ab"'), { '': 'may have at most 1 character, and has 2' });
  assert.deepEqual(exact('{"minItems":2.0}', '[1]'), { '': 'needs at least 2 entries' });
  assert.deepEqual(exact('{"enum":[9007199254740993]}', '9007199254740992'), { '': 'must be one of the values listed' });
  assert.deepEqual(exact('{"const":9007199254740993}', '9007199254740993'), {});
});

test('a pattern is judged in bounded time, whatever it is', () => {
  const text = `${'a'.repeat(400)}!`;
  for (const pattern of [
    '^(a+)+$', '^(a|a)*$', '^(a?){40}a{40}$', '^((a)*)*$', '^a*a*a*a*a*a*$', '^([a-z]+-?)+$', `^${'(a|a)'.repeat(60)}[bc]$`,
    '^(((a*)*)*)*(a|aa|a?)*$', '()*$b', '^(|a|){200}b$',
  ]) assert.equal(matches(pattern, text), false, pattern);
  // Looking around, referring back, and what is too long are left to who wants it.
  const $long = `^${'a'.repeat(600)}$`;
  for (const pattern of ['(a)\\1+', '(?=a)', '(?<!a)b', '\\k<x>(?<x>a)', 'a{500}{500}', '(){999999999}{9}b{1001}', $long]) {
    assert.equal(matches(pattern, 'a'), undefined, pattern);
  }
  const steps = { left: 50 };
  assert.equal(matches('^(((a*)*)*)*$', text, steps), undefined, 'all patterns of a form share what they may cost');
});

test('a pattern means what it means to the browser', () => {
  const texts = ['', 'a', 'aab', 'abab', '2024-12', 'a@b.co', '/x.y', 'a foo b', 'food', 'xz', '\u{1F600}', '\u00e91', ']', 'bcdc', '\n', 'A_b-9'];
  for (const pattern of [
    '', '^$', '^a{2,3}b?$', 'a{2,}b', '(x|y|)z', '\\bfoo\\b', '\\Bo', '^\\u{1F600}$', '^\\uD83D\\uDE00$', '[\\]a-c]+$', '^[^\\]]$', '\\p{L}+\\d', '^.$',
    '(?<n>a)b', '^(?:a|b(c|d)*)+$', 'a??b', '^\\/x\\.y$', '^[\\w.+-]+@([\\w-]+\\.)+[a-z]{2,}$', '^(?:ab){2}$', '^\\x41\\w\\S', '^\\d{4}-\\d{2}$',
  ]) for (const text of texts) assert.equal(matches(pattern, text), RegExp(pattern, 'u').test(text), `${pattern} on ${JSON.stringify(text)}`);
  assert.equal(matches('^[^@]+@[^@]+$', 'a@b'), true);
  assert.equal(matches('^(?:ab){2}$', 'abab'), true);
  assert.equal(matches('^\\d{4}-\\d{2}$', '2024-1'), false);
  assert.equal(matches('[', 'x'), undefined);
  assert.equal(matches('a', 'x'.repeat(1000)), undefined);
});

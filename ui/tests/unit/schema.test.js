import assert from 'node:assert/strict';
import { test } from 'node:test';

import { collect, draftFromText, readText } from '../../src/model/collect.js';
import { ABSENT, NONE, changed, draftOf, filledIn, withEntry, withMember, withVariant, withoutMember } from '../../src/model/draft.js';
import { parseExact, stringifyExact } from '../../src/model/exact.js';
import { formOf, shapeOf } from '../../src/model/schema.js';

/** A form as one line: names, kinds, what is required. @param {any} shape @returns {string} */
function outline(shape, depth = 0) {
  const mark = (shape.required ? '!' : '') + (shape.nullable ? '?' : '');
  if (depth > 4) return '…';
  if (shape.kind === 'object') {
    const members = shape.members().map((/** @type {any} */ { key, shape: inner }) => `${key}:${outline(inner, depth + 1)}`);
    return `{${[...members, ...(shape.more ? [`+${outline(shape.more(), depth + 1)}`] : [])].join(' ')}}${mark}`;
  }
  if (shape.kind === 'list') return `[${outline(shape.item(), depth + 1)}]${mark}`;
  if (shape.kind === 'union') return `(${shape.variants().map((/** @type {any} */ one) => `${one.label}=${outline(one.shape, depth + 1)}`).join('|')})${mark}`;
  const options = shape.options.length > 0 ? `<${shape.options.map((/** @type {any} */ option) => option.label).join()}>` : '';
  return `${shape.integer ? 'integer' : shape.kind}${options}${mark}`;
}

/** The kind of field that each member of an object gets. @param {Record<string, any>} properties @param {any} [more] */
const form = (properties, more = {}) => outline(formOf({ type: 'object', properties, ...more })).replace(/!$/, '');

/** Fills fields in by their path and gives the JSON or the errors. @param {any} schema @param {[number[], any][]} [edits] @param {any} [value] */
function fill(schema, edits = [], value = ABSENT) {
  const shape = formOf(schema);
  let draft = draftOf(shape, value);
  for (const [path, part] of edits) draft = changed(draft, path, (before) => ({ ...before, ...part }));
  const { value: made, errors } = collect(shape, draft);
  return errors.size > 0 ? Object.fromEntries(errors) : stringifyExact(made);
}

test('plain types, and what is required', () => {
  assert.equal(
    form({ a: { type: 'string' }, b: { type: 'integer' }, c: { type: 'number' }, d: { type: 'boolean' }, e: { type: 'null' } }, { required: ['a', 'd'] }),
    '{a:text! b:integer c:number d:boolean! e:null}',
  );
});

test('types in an array: null makes it optional to fill in, others are alternatives', () => {
  assert.equal(form({ a: { type: ['string', 'null'] } }), '{a:text?}');
  assert.equal(form({ a: { type: ['string', 'integer'] } }), '{a:(text=text!|whole number=integer!)}');
  assert.equal(form({ a: { type: ['number', 'integer'] } }), '{a:number}');
});

test('choices: enum, enumNames, const, alternatives with const and title', () => {
  assert.equal(form({ a: { enum: ['x', 2, null] } }), '{a:choice<x,2,null>}');
  assert.equal(form({ a: { enum: ['x', 'y'], enumNames: ['Ex', 'Why'] } }), '{a:choice<Ex,Why>}');
  assert.equal(form({ a: { const: 'only' } }), '{a:choice<only>}');
  assert.equal(form({ a: { oneOf: [{ const: 'r', title: 'Red' }, { const: 'g', title: 'Green' }] } }), '{a:choice<Red,Green>}');
  assert.equal(form({ a: { type: 'array', items: { enum: ['x', 'y'] } } }), '{a:several<x,y>}');
  assert.equal(form({ a: { type: 'array', items: { anyOf: [{ const: 'x', title: 'Ex' }] } } }), '{a:several<Ex>}');
});

test('anyOf with null is that one; several are alternatives', () => {
  assert.equal(form({ a: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null } }), '{a:integer?}');
  assert.equal(
    form({ a: { oneOf: [{ title: 'Point', type: 'object', properties: { x: { type: 'number' } } }, { type: 'string' }] } }),
    '{a:(Point={x:number}!|text=text!)}',
  );
});

test('references within the schema, also to itself', () => {
  const schema = {
    type: 'object',
    properties: { tree: { $ref: '#/$defs/node' }, same: { $ref: '#/properties/a~1b' }, 'a/b': { type: 'integer' } },
    $defs: { node: { type: 'object', properties: { name: { type: 'string' }, next: { $ref: '#/$defs/node' } }, required: ['name'] } },
  };
  assert.equal(outline(formOf(schema)), '{tree:{name:text! next:{name:text! next:{name:text! next:{name:… next:…}}}} same:integer a/b:integer}!');
});

test('what is not understood is a field for JSON', () => {
  for (const odd of [
    true, {}, { $ref: 'https://example.org/schema' }, { $ref: '#/$defs/missing' }, { $ref: '#/properties/a' }, { type: 'array' },
    { type: 'array', prefixItems: [{}], items: { type: 'string' } }, { type: 'object', patternProperties: { '^x': {} }, additionalProperties: true }, { not: {} },
    { type: 'nonsense' }, 17, null, { $ref: '#/%' },
  ]) assert.equal(form({ a: odd }), '{a:json}', JSON.stringify(odd));
});

test('a required object that contains itself for ever ends as JSON', () => {
  const schema = { $ref: '#/$defs/n', $defs: { n: { type: 'object', properties: { n: { $ref: '#/$defs/n' } }, required: ['n'] } } };
  const text = fill(schema);
  assert.match(JSON.stringify(text), /is required/);
});

test('members that the schema allows and does not name are named by the person', () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'integer' } };
  const shape = formOf(schema);
  assert.equal(outline(shape), '{a:text +integer!}!');
  const named = (/** @type {string} */ name, /** @type {string} */ text) => {
    const draft = changed(withMember(shape, draftOf(shape)), [1], (before) => ({ ...before, text }));
    const { value, errors } = collect(shape, { ...draft, names: [name] });
    return errors.size > 0 ? Object.fromEntries(errors) : stringifyExact(value);
  };
  assert.equal(named('b', '12345678901234567890'), '{"b":12345678901234567890}');
  assert.deepEqual(named('', '1'), { '/#name 0': 'needs a name' });
  assert.deepEqual(named('a', '1'), { '/#name 0': 'is there already' });
  assert.deepEqual(named('b', 'x'), { '/b': 'must be a number, such as 12 or -0.5' });
  assert.equal(fill(schema, [], { a: 'x', c: 3, d: 4 }), '{"a":"x","c":3,"d":4}', 'values to begin with keep their names');
  assert.deepEqual(withoutMember(shape, draftOf(shape, { c: 3, d: 4 }), 0).names, ['d']);
});

test('allOf is one', () => {
  assert.equal(
    form({ a: { allOf: [{ properties: { x: { type: 'string' } }, required: ['x'] }, { properties: { y: { type: 'string' } }, required: ['y'] }], type: 'object' } }),
    '{a:{x:text! y:text!}}',
  );
});

test('a tool without arguments has an empty form, one with any has fields to name', () => {
  assert.equal(outline(formOf({ type: 'object' })), '{}!');
  assert.equal(outline(formOf(undefined)), '{}!');
  assert.equal(outline(formOf({ type: 'object', additionalProperties: true })), '{+(text=text!|number=number!|yes or no=boolean!|object=json!|list=json!)!?}!');
  assert.equal(outline(formOf({ type: 'object', patternProperties: {} })), 'json!');
});

test('defaults are filled in and sent', () => {
  const schema = {
    type: 'object',
    properties: {
      a: { type: 'string', default: 'x' }, b: { type: 'integer', default: 3 }, c: { type: 'boolean', default: true }, d: { enum: ['u', 'v'], default: 'v' },
      e: { type: 'array', items: { type: 'integer' }, default: [1, 2] }, f: { type: 'object', properties: { g: { type: 'string' } }, default: { g: 'h' } },
      i: { type: 'array', items: { enum: ['p', 'q'] }, default: ['q'] }, j: { type: 'string', default: '' },
    },
  };
  assert.equal(fill(schema), '{"a":"x","b":3,"c":true,"d":"v","e":[1,2],"f":{"g":"h"},"i":["q"],"j":""}');
});

test('what is left empty is left out, unless it is required', () => {
  const properties = { a: { type: 'string' }, b: { type: 'number' }, c: { type: 'boolean' }, d: { type: 'array', items: { type: 'string' } },
    e: { type: 'object', properties: { f: { type: 'string' } }, required: ['f'] }, g: { enum: [1] }, h: { type: ['string', 'null'] } };
  assert.equal(fill({ type: 'object', properties }), '{}');
  assert.deepEqual(fill({ type: 'object', properties, required: ['a', 'b', 'e'] }), { '/a': 'is required', '/b': 'is required', '/e/f': 'is required' });
  assert.equal(fill({ type: 'object', properties, required: ['c', 'd', 'g', 'h'] }), '{"c":false,"d":[],"g":1,"h":null}');
});

test('integers beyond 2^53 keep their digits', () => {
  const schema = { type: 'object', properties: { n: { type: 'integer', minimum: 0 } } };
  assert.equal(fill(schema, [[[0], { text: '9007199254740993' }]]), '{"n":9007199254740993}');
  assert.equal(fill(schema, [[[0], { text: ' 12 ' }]]), '{"n":12}');
  assert.deepEqual(fill(schema, [[[0], { text: '-9007199254740993' }]]), { '/n': 'must be 0 or more' });
  assert.deepEqual(fill(schema, [[[0], { text: '1.5' }]]), { '/n': 'must be a whole number' });
  assert.deepEqual(fill(schema, [[[0], { text: '0x10' }]]), { '/n': 'must be a number, such as 12 or -0.5' });
});

test('lists and nested objects say where something is wrong', () => {
  const schema = { type: 'object', properties: { rows: { type: 'array', minItems: 2, items: { type: 'object', properties: { k: { type: 'integer' } }, required: ['k'] } } } };
  assert.deepEqual(fill(schema, [], { rows: [{ k: 1 }, {}] }), { '/rows/1/k': 'is required' });
  assert.deepEqual(fill(schema, [], { rows: [{ k: 1 }] }), { '/rows': 'needs at least 2 entries' });
  assert.equal(fill(schema, [], { rows: [{ k: 1 }, { k: 2, more: [1] }] }), '{"rows":[{"k":1},{"k":2,"more":[1]}]}');
});

test('an optional object is filled in when asked for', () => {
  const shape = formOf({ type: 'object', properties: { o: { type: 'object', properties: { x: { type: 'string', default: 'd' } } } } });
  const draft = draftOf(shape);
  assert.equal(stringifyExact(collect(shape, draft).value), '{}');
  const member = shape.members()[0]?.shape;
  assert.ok(member);
  assert.equal(stringifyExact(collect(shape, changed(draft, [0], (before) => filledIn(member, before))).value), '{"o":{"x":"d"}}');
});

test('alternatives: one is chosen, then filled in', () => {
  const shape = shapeOf({ anyOf: [{ type: 'integer' }, { type: 'string', minLength: 2 }] });
  assert.equal(draftOf(shape).index, 0);
  assert.equal(draftOf(shape, 'text').index, 1);
  const draft = withVariant(shape, draftOf(shape), 1, 'a');
  assert.deepEqual([...collect(shape, draft).errors], [['', 'needs at least 2 characters']]);
  assert.deepEqual([...collect(shape, { ...draft, index: NONE }).errors], [['', 'choose one']]);
});

test('JSON that was written goes into the fields, or stays JSON', () => {
  const shape = formOf({ type: 'object', properties: { a: { type: 'string', default: 'x' }, n: { type: 'integer' } } });
  const back = (/** @type {string} */ text) => stringifyExact(collect(shape, draftFromText(shape, text)).value);
  assert.equal(back('{"n":9007199254740993}'), '{"n":9007199254740993}');
  assert.equal(back('{"other":[1.0],"a":"b"}'), '{"a":"b","other":[1.0]}');
  assert.throws(() => draftFromText(shape, '{"a":1}'), /does not fit/);
  assert.throws(() => draftFromText(shape, '[1]'), /does not fit/);
  assert.throws(() => draftFromText(shape, '{'), /double quotes/);
});

test('JSON that was written is sent as it stands, once it fits', () => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
  const text = '{ "n" : 9007199254740993 }';
  assert.equal(stringifyExact({ name: 't', arguments: readText(schema, text).value }), `{"name":"t","arguments":${text}}`);
  assert.deepEqual([...readText(schema, '{"n":"1","m":2}').errors], [['/n', 'must be a whole number'], ['/m', 'is not known here']]);
  assert.deepEqual([...readText(schema, '{}').errors], [['/n', 'is required']]);
  assert.deepEqual([...readText(schema, '[]').errors], [['', 'must be an object: { … }']]);
});

test('a stranger\'s names are only names', () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"},"toString":{"type":"integer"}}}');
  const text = fill(schema, [[[0], { text: 'a' }], [[1], { text: 'b' }]]);
  assert.equal(text, '{"__proto__":"a","constructor":"b"}');
  assert.equal(/** @type {any} */ ({}).a, undefined);
});

test('a schema that contains itself again and again makes a form of bounded size', () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  const schema = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { $ref: '#' }])), required: names };
  const size = (/** @type {any} */ draft) => draft.parts.reduce((/** @type {number} */ sum, /** @type {any} */ part) => sum + size(part), 1);
  const shape = formOf(schema);
  const draft = draftOf(shape);
  assert.ok(size(draft) > 5 && size(draft) <= 1000, String(size(draft)));
  // What is folded is still asked for, and can be filled in.
  assert.match(JSON.stringify([...collect(shape, draft).errors]), /is required/);
  const union = { anyOf: [{ type: 'object', properties: { a: { $ref: '#' }, b: { $ref: '#' }, c: { $ref: '#' } }, required: ['a', 'b', 'c'] }, { type: 'null' }, { type: 'string' }] };
  assert.ok(size(draftOf(shapeOf({ ...union, anyOf: union.anyOf.filter((one) => one.type !== 'null') }))) <= 1000);
  assert.equal(shapeOf({ anyOf: [{ $ref: '#' }] }).kind, 'json');
});

test('chains of allOf become JSON before they cost too much', () => {
  /** @type {Record<string, any>} */
  const $defs = { d0: { type: 'object', properties: { x: { type: 'string' } } } };
  for (let level = 1; level < 12; level += 1) $defs[`d${level}`] = { allOf: Array(16).fill({ $ref: `#/$defs/d${level - 1}` }) };
  assert.equal(form({ a: { $ref: '#/$defs/d2' }, b: { $ref: '#/$defs/d11' }, c: { type: 'string' } }, { $defs }), '{a:{x:text} b:json c:text}');
});

test('wide schemas cost what they are wide', () => {
  const wide = { properties: Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`p${index}`, {}])) };
  const shape = shapeOf({ allOf: Array(200).fill({ $ref: '#/$defs/wide' }), $defs: { wide } });
  assert.equal(shape.kind, 'json');
  assert.ok(shape.work.left < 0);
});

test('too many options, entries, members or alternatives are JSON', () => {
  const many = Array.from({ length: 60_000 }, (_, index) => index);
  const words = many.map(String);
  assert.equal(form({ a: { enum: many } }), '{a:json}');
  assert.equal(form({ a: { type: 'string', enum: words } }), '{a:text}');
  assert.equal(form({ a: { type: 'array', items: { enum: many }, default: many } }), '{a:json}');
  assert.equal(form({ a: { anyOf: many.map((one) => ({ const: one })) } }), '{a:json}');
  assert.equal(form({ a: { type: 'object', properties: Object.fromEntries(words.map((word) => [word, {}])) } }), '{a:json}');
  const list = { type: 'object', properties: { a: { type: 'array', items: { type: 'integer' }, default: many } } };
  const shape = formOf(list);
  const draft = draftOf(shape);
  assert.deepEqual([draft.parts[0]?.json, draft.parts[0]?.parts.length], [true, 0]);
  assert.deepEqual(collect(shape, draft).value, { a: many });
  assert.deepEqual([...collect(shape, draftOf(shape, { a: [...words.slice(0, 300)] })).errors][0], ['/a/0', 'must be a whole number']);
  assert.deepEqual(fill({ type: 'object', properties: { a: { type: 'string', enum: words } } }, [[[0], { text: 'x' }]]), { '/a': 'must be one of the values listed' });
});

test('a list of fields ends before it is too long for a form', () => {
  const shape = shapeOf({ type: 'array', items: { type: 'string' } });
  let draft = draftOf(shape);
  for (let times = 0; times < 300; times += 1) draft = withEntry(shape, draft);
  assert.equal(draft.parts.length, 200);
});

test('one long default does not come to many places', () => {
  const names = Array.from({ length: 100 }, (_, index) => `m${index}`);
  const schema = {
    type: 'object', properties: Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/long' }])),
    $defs: { long: { type: 'string', default: 'x'.repeat(50_000), description: 'y'.repeat(50_000) } },
  };
  const draft = draftOf(formOf(schema));
  assert.ok(draft.parts.reduce((sum, part) => sum + part.text.length, 0) <= 250_000);
  assert.ok(formOf(schema).members().every(({ shape }) => shape.description.length <= 2001));
});

test('defaults and choices keep every digit', () => {
  const schema = parseExact('{"type":"object","properties":{"a":{"type":"integer","default":9007199254740993},"b":{"enum":[9007199254740992,9007199254740993],'
    + '"default":9007199254740993},"c":{"const":9007199254740993}},"required":["c"]}');
  assert.equal(fill(schema), '{"a":9007199254740993,"b":9007199254740993,"c":9007199254740993}');
});

test('a pattern that is not judged here is told', () => {
  const hint = (/** @type {string} */ pattern) => shapeOf({ type: 'string', description: 'A word.', pattern }).description;
  assert.equal(hint('^a+$'), 'A word.');
  assert.equal(hint('(?=a)'), 'A word. It must match (?=a), which is not checked here.');
});

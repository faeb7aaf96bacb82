import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvelope, readList } from '../../src/model/envelope.js';
import { RawJson, at, elements, members, stringify } from '../../src/model/raw.js';

test('parts of JSON keep every byte', () => {
  const text = ' { "a" : [1, {"b":"]}\\\\\\""} , "x"],\n"big":12345678901234567890.10, "s":"a\\"b", "e":{} , "n":null}';
  assert.deepEqual([...members(text)], [
    ['a', '[1, {"b":"]}\\\\\\""} , "x"]'], ['big', '12345678901234567890.10'], ['s', '"a\\"b"'], ['e', '{}'], ['n', 'null'],
  ]);
  assert.deepEqual(elements('[1, {"b":"]}\\\\\\""} , "x",[] ]'), ['1', '{"b":"]}\\\\\\""}', '"x"', '[]']);
  assert.deepEqual(elements('["ends with a slash \\\\", "b"]'), ['"ends with a slash \\\\"', '"b"']);
  assert.deepEqual(elements('[]'), []);
  assert.deepEqual(elements('{}'), []);
  assert.equal(members('[]').size, 0);
  assert.equal(at('{"payload":{"id":1.0}}', ['payload', 'id']), '1.0');
  assert.equal(at('{"payload":{"id":1.0}}', ['payload', 'no', 'more']), undefined);
  assert.equal(members('{"caf\\u00e9":1}').get('café'), '1');
});

test('raw JSON goes out as it stands, the rest as JSON.stringify does', () => {
  const value = { id: new RawJson('1.0'), list: [new RawJson('12345678901234567890'), undefined, 'a"b'], none: undefined, nested: { a: null } };
  assert.equal(stringify(value), '{"id":1.0,"list":[12345678901234567890,null,"a\\"b"],"nested":{"a":null}}');
});

test('an envelope is read, and what is none is not', () => {
  const raw = '{"protocol":"mcp-x/v0","id":"a","ts":"2025-08-17T14:00:00.250Z","from":"bob","kind":"mcp","correlation_id":"z","payload":{"n":1.0}}';
  const read = readEnvelope(raw, { topic: 'room:t' });
  assert.equal(read?.raw, raw);
  assert.deepEqual([read?.at, read?.correlationId, read?.to, read?.heard], [1755439200250, 'z', [], undefined]);
  for (const bad of ['', 'null', '7', '{}', '{"id":1,"from":"a","kind":"mcp"}', '{"id":"a","from":"a","kind":"other"}']) {
    assert.equal(readEnvelope(bad, { topic: 'room:t' }), null, bad);
  }
  const page = `{"history": [ ${raw} , {"id":5}, ${raw}],"next":"a"}`;
  assert.deepEqual(readList(page, ['history'], 'room:t').map((each) => each.raw), [raw, raw]);
  assert.deepEqual(readList(page, ['nothing', 'there'], 'room:t'), []);
});

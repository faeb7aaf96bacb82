import assert from 'node:assert/strict';
import { test } from 'node:test';
import { choices, EVERYTHING, isEmpty, predicate } from '../../src/model/filter.js';
import { RoomModel } from '../../src/model/room.js';
import { readEnvelope } from '../../src/model/envelope.js';

let last = 0;

/** A room in which envelopes of this form have happened: `[from, to, payload, correlation]`; `id` in order: e1, e2, … */
function room(...told) {
  const model = new RoomModel({ topic: 'room:t', me: 'alice' });
  last = 0;
  for (const [from, to, payload, correlation] of told) {
    last += 1;
    const kind = from === 'system:gateway' && payload.event ? 'presence' : 'mcp';
    const body = { protocol: 'mcp-x/v0', id: `e${last}`, ts: new Date(1e12 + last * 1000).toISOString(), from, to: to ? [to] : [], kind, payload };
    if (correlation) body.correlation_id = correlation;
    const envelope = readEnvelope(JSON.stringify(body), { topic: 'room:t' });
    assert.ok(envelope);
    model.apply(envelope, { history: true });
  }
  return model;
}

const chat = (text) => ({ jsonrpc: '2.0', method: 'notifications/chat/message', params: { text } });
const call = (name, args = {}) => ({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } });
const result = (text, isError = false) => ({ jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text }], isError } });

const ROOM = () => room(
  ['system:gateway', '', { event: 'join', participant: { id: 'rover', kind: 'robot' } }],
  ['alice', '', chat('Straße ahead')],
  ['alice', 'rover', call('move', { x: 1, label: 'north "pole"' })],
  ['rover', 'alice', result('arrived'), 'e3'],
  ['bob', 'rover', call('stop')],
  ['rover', 'bob', result('stuck', true), 'e5'],
  ['rover', 'bob', { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'humming' } }],
);

/** Which rows pass, each by the envelope it begins with. */
function shown(part) {
  const passes = predicate({ ...EVERYTHING, ...part });
  const rows = ROOM().items.filter((item) => !passes || passes(item));
  return rows.filter((item) => item.type !== 'day').map((item) => {
    if (item.type === 'call') return item.call.id;
    return (item.envelope ?? item.envelopes[0]).id;
  }).join(' ');
}

test('nothing chosen lets everything pass', () => {
  assert.ok(isEmpty({ ...EVERYTHING, text: '  ' }));
  assert.equal(predicate(EVERYTHING), null);
  assert.equal(shown({}), 'e1 e2 e3 e5 e7');
});

const CASES = [
  [{ kinds: ['chat'] }, 'e2'],
  [{ kinds: ['call'] }, 'e3 e5'],
  [{ kinds: ['failed'] }, 'e5'],
  [{ kinds: ['presence', 'notice'] }, 'e1 e7'],
  [{ people: ['bob'] }, 'e5 e7'],
  [{ people: ['rover'] }, 'e1 e3 e5 e7'],
  [{ people: ['nobody'] }, ''],
  [{ people: ['alice'], kinds: ['call'] }, 'e3'],
  [{ method: 'move' }, 'e3'],
  [{ method: 'TOOLS/call' }, 'e3 e5'],
  [{ method: 'mov' }, ''],
  [{ text: 'STRASSE' }, ''],
  [{ text: 'straße' }, 'e2'],
  [{ text: 'north arrived' }, 'e3'],
  [{ text: '"pole"' }, 'e3'],
  [{ text: 'north stuck' }, ''],
  [{ text: 'humming' }, 'e7'],
  [{ text: 'chat/message' }, ''],
  [{ text: 'notifications/message' }, 'e7'],
  [{ text: 'label' }, 'e3'],
];
for (const [part, wanted] of CASES) {
  test(`filter ${JSON.stringify(part)}`, () => assert.equal(shown(part), wanted));
}

test('an answer that comes later is searched as well', () => {
  const model = room(['alice', 'rover', call('move')]);
  const passes = predicate({ ...EVERYTHING, text: 'arrived' });
  const find = () => model.items.filter((item) => item.type === 'call' && passes(item)).length;
  assert.equal(find(), 0);
  const body = { protocol: 'mcp-x/v0', id: 'late', ts: new Date(1e12).toISOString(), from: 'rover', to: ['alice'], kind: 'mcp',
    correlation_id: 'e1', payload: result('arrived') };
  model.apply(readEnvelope(JSON.stringify(body), { topic: 'room:t' }), { history: false });
  assert.equal(find(), 1);
});

test('there is to choose from who and what occurred, the most frequent first', () => {
  const { people, methods } = choices(ROOM());
  assert.deepEqual(people.filter((id) => id !== 'system:gateway'), ['alice', 'bob', 'rover']);
  assert.equal(methods[0], 'tools/call');
  assert.ok(methods.includes('move') && methods.includes('stop') && methods.includes('notifications/chat/message'));
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvelope } from '../../src/model/envelope.js';
import { RoomModel } from '../../src/model/room.js';
import { handshakeText, presenceText } from '../../src/model/folded.js';

let number = 0;

/** An envelope from a short note: from, to, payload, what it is about. */
function envelope(from, to, payload, about, id = `e${(number += 1)}`, ts = '2025-08-17T14:00:00Z') {
  const kind = payload.event ? (payload.event === 'error' ? 'system' : 'presence') : 'mcp';
  const body = { protocol: 'mcp-x/v0', id, ts, from, to: to ? [to] : [], kind, payload };
  if (about) body.correlation_id = about;
  const read = readEnvelope(JSON.stringify(body), { topic: 'room:t', heard: Date.parse(ts) });
  assert.ok(read);
  return read;
}

const chat = (from, text, about, id, ts) => envelope(from, '', { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text } }, about, id, ts);
const request = (from, to, method, params, about, id) => envelope(from, to, { jsonrpc: '2.0', id: 1, method, params }, about, id);
const result = (from, to, value, about) => envelope(from, to, { jsonrpc: '2.0', id: 1, result: value }, about);
const notify = (from, to, method, params, about) => envelope(from, to, { jsonrpc: '2.0', method, params }, about);
const presence = (event, id, ts) => envelope('system:gateway', '', { event, participant: { id, kind: 'agent' } }, undefined, undefined, ts);
const refusal = (code, about) => envelope('system:gateway', 'alice', { event: 'error', code, message: code }, about);

function room(...envelopes) {
  const model = new RoomModel({ topic: 'room:t', me: 'alice' });
  model.welcome({ participant: { id: 'alice', name: 'Alice' }, participants: [{ id: 'bob', kind: 'agent' }] });
  for (const each of envelopes) model.apply(each);
  return model;
}

/** The rows in words. */
function rows(model) {
  return model.items.map((item) => {
    switch (item.type) {
      case 'chat': return `${item.envelope.from}: ${item.envelope.payload.params.text}${item.thread ? ` (thread ${item.thread})` : ''}`;
      case 'call': return `${item.call.caller} → ${item.call.callee} ${item.call.tool ?? item.call.method} ${item.call.state}`;
      case 'presence': return presenceText(item.envelopes, (id) => id);
      case 'handshake': return handshakeText(item, (id) => id);
      case 'notice': return `notice of ${item.envelope.from}`;
      default: return item.type;
    }
  });
}

test('a call and its answer are one row', () => {
  const asked = request('alice', 'bob', 'tools/call', { name: 'move', arguments: { x: 1 } });
  const model = room(asked);
  const [, item] = model.items;
  assert.equal(item.type === 'call' && item.call.state, 'running');
  const before = item.rev;
  model.apply(notify('bob', 'alice', 'notifications/progress', { progressToken: 'x', progress: 1, total: 2, message: 'half' }, asked.id));
  assert.deepEqual(item.call.progress, { done: 1, total: 2, message: 'half' });
  model.apply(result('bob', 'alice', { content: [] }, asked.id));
  assert.deepEqual(rows(model), ['day', 'alice → bob move done']);
  assert.ok(item.rev > before, 'the row says that it has changed');
  assert.equal(model.itemOf(item.call.answer.id), item, 'the answer is found in the row of its call');
});

test('a result that is an error is a failure, and only whom was asked can answer', () => {
  const asked = request('alice', 'bob', 'tools/call', { name: 'move' });
  const model = room(asked, result('mallory', 'alice', { content: [] }, asked.id));
  assert.deepEqual(rows(model), ['day', 'alice → bob move running', 'notice of mallory']);
  model.apply(result('bob', 'alice', { content: [], isError: true }, asked.id));
  assert.equal(model.calls.get(asked.id)?.state, 'failed');
});

test('progress and cancelling without correlation are matched by their tokens', () => {
  const asked = envelope('alice', 'bob', { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'dig', _meta: { progressToken: 't' } } });
  const model = room(asked);
  model.apply(notify('bob', 'alice', 'notifications/progress', { progressToken: 't', progress: 3 }));
  assert.equal(model.calls.get(asked.id)?.progress?.done, 3);
  model.apply(notify('bob', 'alice', 'notifications/cancelled', { requestId: 7 }));
  model.apply(notify('bob', 'alice', 'notifications/cancelled', { requestId: 7 }, asked.id));
  assert.equal(model.calls.get(asked.id)?.state, 'running', 'only the caller can cancel');
  model.apply(notify('alice', 'bob', 'notifications/cancelled', { requestId: 7 }));
  assert.equal(model.calls.get(asked.id)?.state, 'cancelled');
});

test('whoever leaves with a call open has failed it, until an answer comes after all', () => {
  const asked = request('alice', 'bob', 'tools/call', { name: 'move' });
  const model = room(asked, presence('leave', 'bob'));
  assert.equal(model.calls.get(asked.id)?.state, 'failed');
  model.apply(result('bob', 'alice', { content: [] }, asked.id));
  assert.equal(model.calls.get(asked.id)?.state, 'done');
});

test('a refusal ends its call, also after folding anew', () => {
  const asked = request('alice', 'bob', 'tools/call', { name: 'move' });
  const model = room(asked);
  model.apply(refusal('recipient_not_found', asked.id));
  assert.equal(model.calls.get(asked.id)?.error.code, 'recipient_not_found');
  model.prepend([chat('bob', 'older')], true);
  assert.equal(model.calls.get(asked.id)?.state, 'failed');
});

test('joins and handshakes are folded, even when they alternate, and end with what is worth reading', () => {
  const hello = request('carol', 'bob', 'initialize', {});
  const model = room(
    presence('join', 'carol'), hello, result('bob', 'carol', {}, hello.id), notify('carol', 'bob', 'notifications/initialized'),
    request('carol', 'bob', 'tools/list', {}), presence('join', 'dave'), presence('leave', 'carol'), chat('bob', 'hello'), presence('join', 'carol'),
  );
  assert.deepEqual(rows(model), [
    'day', 'dave joined, carol came and went', 'carol and bob: handshake and list of tools', 'bob: hello', 'carol joined',
  ]);
});

test('older envelopes come before, pair with their answers and keep the order', () => {
  const asked = request('alice', 'bob', 'tools/call', { name: 'move' }, undefined, 'old-1');
  const model = room(result('bob', 'alice', { content: [] }, 'old-1'), chat('bob', 'new'));
  assert.deepEqual(rows(model), ['day', 'notice of bob', 'bob: new']);
  model.prepend([chat('bob', 'oldest'), asked], false);
  assert.deepEqual(rows(model), ['day', 'bob: oldest', 'alice → bob move done', 'bob: new']);
  assert.equal(model.complete, false);
  assert.equal(model.folds, 1);
});

test('the same envelope again changes nothing', () => {
  const once = chat('bob', 'once');
  const model = room(once, once);
  model.prepend([once], true);
  assert.deepEqual(rows(model), ['day', 'bob: once']);
});

test('replies belong to the thread of what they reply to', () => {
  const model = room(chat('bob', 'a', undefined, 'a'), chat('alice', 'b', 'a', 'b'), chat('bob', 'c', 'b'), chat('bob', 'd', 'elsewhere'));
  assert.deepEqual(rows(model), ['day', 'bob: a', 'alice: b (thread a)', 'bob: c (thread a)', 'bob: d (thread elsewhere)']);
});

test('a call made because of a call knows its parent', () => {
  const outer = request('alice', 'bob', 'tools/call', { name: 'plan' });
  const inner = request('bob', 'carol', 'tools/call', { name: 'move' }, outer.id);
  assert.equal(room(outer, inner).calls.get(inner.id)?.parent, outer.id);
});

test('what comes while nobody looks is unread, from the first on', () => {
  const model = room(chat('bob', 'seen'));
  assert.equal(model.unread, 0);
  model.attend(false);
  const first = chat('bob', 'hello @alice');
  for (const each of [presence('join', 'carol'), chat('alice', 'my own'), first, chat('bob', 'more')]) model.apply(each);
  assert.deepEqual([model.unread, model.mentions, model.unreadFrom], [2, 1, first.id]);
  model.attend(true);
  assert.deepEqual([model.unread, model.mentions, model.unreadFrom], [0, 0, first.id], 'the marker stays while one reads on');
  model.attend(false);
  assert.equal(model.unreadFrom, null);
});

test('days and gaps stand between rows', () => {
  const model = room(chat('bob', 'one', undefined, undefined, '2025-08-17T12:00:00Z'));
  model.apply(chat('bob', 'two', undefined, undefined, '2025-08-19T12:00:00Z'));
  model.gap();
  model.apply(chat('bob', 'three', undefined, undefined, '2025-08-19T12:00:00Z'));
  const expected = ['day', 'bob: one', 'day', 'bob: two', 'gap', 'bob: three'];
  assert.deepEqual(rows(model), expected);
  model.prepend([], true);
  assert.deepEqual(rows(model), expected);
  assert.equal(new Set(model.items.map((item) => item.id)).size, model.items.length, 'ids are unique');
});

test('presence follows the welcome and what happens now, not the past', () => {
  const model = room();
  model.apply(presence('leave', 'bob'), { history: true });
  assert.equal(model.people.get('bob')?.present, true);
  model.apply(presence('leave', 'bob'));
  assert.equal(model.people.get('bob')?.present, false);
  model.apply(presence('join', 'bob'));
  assert.deepEqual([model.people.get('bob')?.present, model.people.get('bob')?.joins], [true, 2]);
  model.welcome({ participants: [{ id: 'alice' }] });
  assert.equal(model.people.get('bob')?.present, false);
  assert.equal(model.people.get('system:gateway')?.present, true);
});

test('the oldest are let go when there are too many', () => {
  const model = room();
  for (let n = 0; n <= 22_000; n += 1) model.apply(chat('bob', 'x', undefined, `m${n}`));
  assert.ok(model.envelopes.size <= 22_000);
  assert.equal(model.complete, false);
  assert.equal(model.oldest(), `m${22_001 - model.envelopes.size}`);
  assert.equal(model.items.length, model.envelopes.size + 1);
});

test('nothing that anybody may send stops the room', () => {
  const odd = [undefined, null, 7, 'x', true, [], [null], {}, { id: 7 }, { name: {}, arguments: 5, _meta: 3, uri: [] }];
  const model = room();
  for (const value of odd) {
    const asked = request('bob', 'alice', 'tools/call', value);
    model.apply(asked);
    for (const method of ['notifications/chat/message', 'notifications/progress', 'notifications/cancelled', 'notifications/message', 'x/list', 'odd']) {
      model.apply(notify('bob', 'alice', method, value));
      model.apply(notify('bob', 'alice', method, value, asked.id));
    }
    model.apply(envelope('system:gateway', '', { event: 'join', participant: value }));
    model.apply(envelope('system:gateway', '', { event: 'leave', participant: value }));
    model.apply(result('alice', 'bob', value, asked.id));
    model.apply(envelope('alice', 'bob', { jsonrpc: '2.0', id: 1, error: value ?? null }, request('bob', 'alice', 'a/b', value).id));
    model.welcome(value);
    model.welcome({ participants: value, history: value, limits: value });
  }
  model.prepend([], true);
  assert.ok(rows(model).length > odd.length);
});

test('the one who is welcomed is in the room', () => {
  const model = room();
  assert.ok(model.people.get('alice').present && model.people.get('bob').present);
  assert.equal(model.people.get('alice').name, 'Alice');
});

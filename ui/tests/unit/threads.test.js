import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ends } from '../support/ends.js';
import { readEnvelope } from '../../src/model/envelope.js';
import { RoomModel } from '../../src/model/room.js';
import { countReplies, gist, oneLine, threadsOf } from '../../src/model/threads.js';

/** An envelope of chat, or of another payload. */
function envelope(id, from, said, about, to = []) {
  const payload = typeof said === 'string' ? { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text: said } } : said;
  const body = { protocol: 'mcp-x/v0', id, ts: '2025-08-17T14:00:00Z', from, to, kind: 'mcp', payload };
  if (about) body.correlation_id = about;
  const read = readEnvelope(JSON.stringify(body), { topic: 'room:t' });
  assert.ok(read);
  return read;
}

function room(...envelopes) {
  const model = new RoomModel({ topic: 'room:t', me: 'alice' });
  for (const each of envelopes) model.apply(each, { history: true });
  return model;
}

test('replies are found, and replies to replies', () => {
  const model = room(
    envelope('a', 'alice', 'Shall we?'),
    envelope('b', 'bob', 'Yes', 'a'),
    envelope('c', 'carol', 'No', 'a'),
    envelope('d', 'alice', 'Why not?', 'c'),
    envelope('e', 'alice', 'Elsewhere'),
  );
  const threads = threadsOf(model);
  assert.deepEqual(threads.replies.get('a')?.map((item) => item.envelope.id), ['b', 'c']);
  assert.equal(countReplies(threads, 'a'), 3);
  assert.equal(countReplies(threads, 'c'), 1);
  assert.equal(countReplies(threads, 'e'), 0);
  assert.equal(threadsOf(model), threads, 'worked out once for a revision');
  model.apply(envelope('f', 'bob', 'Because', 'd'), { history: false });
  assert.equal(countReplies(threadsOf(model), 'a'), 4);
});

test('replies in a circle are counted once', () => {
  const model = room(envelope('a', 'alice', 'one', 'b'), envelope('b', 'bob', 'two', 'a'));
  assert.equal(countReplies(threadsOf(model), 'a'), 1);
});

test('calls made because of a call are found', () => {
  const ask = (name, id) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name } });
  const model = room(
    envelope('a', 'alice', ask('tour', 1), undefined, ['rover']),
    envelope('b', 'rover', { jsonrpc: '2.0', id: 2, method: 'elicitation/create', params: { message: 'Go on?' } }, 'a', ['alice']),
    envelope('c', 'rover', ask('sum', 3), 'a', ['calc']),
  );
  assert.deepEqual(threadsOf(model).calls.get('a')?.map((call) => call.id), ['b', 'c']);
});

test('an envelope in a few words', () => {
  assert.equal(gist(envelope('a', 'alice', 'two\n  lines')), 'two lines');
  assert.equal(gist(envelope('a', 'alice', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'move' } })), 'move');
  assert.equal(gist(envelope('a', 'alice', { jsonrpc: '2.0', id: 1, method: 'ping' })), 'ping');
  assert.equal(gist(envelope('a', 'alice', { jsonrpc: '2.0', id: 1, result: {} })), 'answer');
  assert.equal(gist(envelope('a', 'alice', { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'no' } })), 'error: no');
  assert.equal(oneLine('x'.repeat(200), 10), `${'x'.repeat(10)}…`);
});

test('replies are counted once for all rows, in long chains and in circles', () => {
  const chain = Array.from({ length: 4 }, (_, at) => envelope(`e${at}`, 'bob', 'and', at > 0 ? `e${at - 1}` : undefined));
  // A circle of three, with one reply beside it, and somebody who replies to itself.
  const circle = [envelope('x', 'bob', '1', 'z'), envelope('y', 'bob', '2', 'x'), envelope('z', 'bob', '3', 'y'), envelope('w', 'bob', '4', 'y'),
    envelope('s', 'bob', '5', 's'), envelope('t', 'bob', '6', 's')];
  const threads = threadsOf(room(...chain, ...circle));
  const counts = ['e0', 'e1', 'e3', 'x', 'y', 'z', 'w', 's'].map((id) => countReplies(threads, id));
  assert.deepEqual(counts, [3, 2, 0, 3, 3, 3, 0, 1]);
});

test('many replies in a row are counted soon', async () => {
  const counted = await ends('model/threads.js', ({ countReplies: count, threadsOf: of }) => {
    const item = (at) => ({ type: 'chat', id: `e${at}`, envelope: { id: `e${at}`, payload: {}, correlationId: at > 0 ? `e${at - 1}` : undefined } });
    const items = Array.from({ length: 60_000 }, (_, at) => item(at));
    const threads = of({ items, pairing: { list: [] }, folds: 1, revision: 1 });
    return items.reduce((sum, { envelope: { id } }) => sum + count(threads, id), 0);
  });
  assert.equal(counted, (60_000 * 59_999) / 2);
});

test('threads that grow with the room are those of the whole room', () => {
  const ids = Array.from({ length: 60 }, (_, at) => `m${at}`);
  // A reply to something earlier, to something that is yet to come, or to itself; the same numbers each time.
  let seed = 7;
  const random = (most) => (seed = (seed * 48_271) % 2_147_483_647) % most;
  for (let times = 0; times < 30; times += 1) {
    const all = ids.map((id) => envelope(id, 'bob', id, random(3) === 0 ? undefined : ids[random(random(10) === 0 ? 60 : Number(id.slice(1)) + 1)]));
    const growing = room();
    for (const each of all) {
      growing.apply(each);
      threadsOf(growing);
    }
    const { counts, replies } = threadsOf(room(...all));
    const grown = threadsOf(growing);
    assert.deepEqual([...grown.replies].map(([id, list]) => [id, list.map((item) => item.id)]), [...replies].map(([id, list]) => [id, list.map((item) => item.id)]));
    assert.deepEqual(new Map([...grown.counts].sort()), new Map([...counts].sort()));
  }
});

test('Markdown in a few words has no marks, and keeps what is code', () => {
  const text = '### Roof\n\n> **Open** it with `open_roof`, _now_:\n```js\nif (degrees > 28) open_roof();\n```\n| a | b |\n|---|--:|\n| 1 | 2 |';
  const markdown = { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text, format: 'markdown' } };
  assert.equal(gist(envelope('a', 'alice', markdown)), 'Roof Open it with open_roof, now: if (degrees > 28) open_roof(); a b 1 2');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chatText, isOwn, readEnvelope } from '../../src/model/envelope.js';
import { filesOf, linkTo, sizeText } from '../../src/model/files.js';
import { predicate, EVERYTHING } from '../../src/model/filter.js';
import { RoomModel } from '../../src/model/room.js';

/** @param {string} id @param {string} from @param {string} method @param {any} params @param {string} [about] */
function envelope(id, from, method, params, about) {
  const body = { protocol: 'mcp-x/v0', id, ts: '2025-08-17T14:00:00Z', from, to: [], kind: 'mcp', correlation_id: about, payload: { jsonrpc: '2.0', method: `notifications/${method}`, params } };
  return /** @type {any} */ (readEnvelope(JSON.stringify(body), { topic: 'room:t' }));
}
const say = (id, from, text) => envelope(id, from, 'chat/message', { text });
const edit = (id, from, about, text) => envelope(id, from, 'chat/edit', { text }, about);

function room(...envelopes) {
  const model = new RoomModel({ topic: 'room:t', me: 'alice' });
  for (const each of envelopes) model.apply(each);
  return model;
}
const texts = (model) => model.items.flatMap((item) => (item.type === 'chat' ? [chatText(item.envelope)] : item.type === 'notice' ? ['notice'] : []));

test('the newest edit of its author counts, and a message that was taken back says nothing any more', () => {
  const model = room(say('m1', 'bob', 'frist'), edit('e1', 'bob', 'm1', 'first'), edit('e2', 'mallory', 'm1', 'evil'));
  assert.deepEqual(texts(model), ['first', 'notice']);
  assert.equal(model.itemOf('e1')?.id, 'm1', 'a link to the edit leads to the message');
  assert.equal(predicate({ ...EVERYTHING, text: 'frist' })?.(/** @type {any} */ (model.itemOf('m1'))), false, 'what was replaced is not found any more');
  model.apply(envelope('r1', 'bob', 'chat/retract', {}, 'm1'));
  assert.deepEqual(texts(model), ['(taken back)', 'notice']);
});

test('an edit of a message that is loaded later counts as well', () => {
  const model = room(edit('e1', 'bob', 'm1', 'first'));
  assert.deepEqual(texts(model), ['notice']);
  model.prepend([say('m1', 'bob', 'frist')], true);
  assert.deepEqual(texts(model), ['first']);
});

test('a redaction replaces what is here, and nothing of the text is kept', () => {
  const model = room(say('m1', 'bob', 'the password is 1234'));
  const tombstone = JSON.stringify({
    protocol: 'mcp-x/v0', id: 'm1', ts: '2025-08-17T14:00:00Z', from: 'bob', kind: 'mcp', redacted: { by: 'alice', at: '2025-08-17T14:01:00Z', digest: 'sha256:0', reason: 'leaked' },
    payload: { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text: '(redacted)' } },
  });
  const notice = (from) => envelope(`n-${from}`, from, 'message/redacted', { id: 'm1', by: 'alice', messages: [{ id: 'm1', from: 'bob', tombstone }] });
  model.apply(notice('mallory'));
  assert.deepEqual(texts(model)[0], 'the password is 1234', 'only the gateway says so');
  model.apply(notice('system:gateway'));
  assert.deepEqual(texts(model)[0], '(redacted)');
  assert.equal([...model.envelopes.values()].some(({ raw }) => raw.includes('1234')), false);
  const item = /** @type {any} */ (model.itemOf('m1'));
  assert.deepEqual([item.envelope.redacted.reason, isOwn(item.envelope, 'bob')], ['leaked', false]);
});

test('the files that a message links to', () => {
  const block = linkTo({ uri: 'salon-file://0a-1', name: 'a.png', mime_type: 'image/png', size: 5 });
  const content = [block, { ...block, mimeType: 'image/svg+xml', uri: 'salon-file://2' }, { ...block, uri: 'https://x.example/' }, { ...block, uri: 'salon-file://../x' }, { type: 'text', text: 'x' }, null];
  const files = filesOf(envelope('m1', 'bob', 'chat/message', { text: '', content }));
  assert.deepEqual(files.map(({ id, isPicture }) => [id, isPicture]), [['0a-1', true], ['2', false]]);
  assert.deepEqual(filesOf(say('m2', 'bob', 'x')), []);
  assert.deepEqual([999, 1500, 12_345, 2_500_000, 3e9].map(sizeText), ['999 bytes', '1.5 kB', '12 kB', '2.5 MB', '3.0 GB']);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { grouped } from '../../src/model/groups.js';

const call = (id, tool = 'explain', state = 'done', more = {}) => ({
  type: 'call', id, rev: 0, call: { id, caller: 'ada', callee: 'lab', method: 'tools/call', tool, params: { name: tool }, state, ...more },
});
const chat = (id) => ({ type: 'chat', id, rev: 0, envelope: {} });
const told = (items, how = {}) => grouped(/** @type {any} */ (items), { isOpen: () => false, unreadFrom: null, ...how }).rows
  .map((row) => (row.type === 'group' ? `${row.open ? 'open ' : ''}${row.calls.length}×${row.calls[0].call.tool}` : row.id)).join(' ');

test('the same tool called four times without trouble is one row', () => {
  assert.equal(told([call('1'), call('2'), call('3')]), '1 2 3', 'three are few');
  assert.equal(told([call('1'), call('2'), call('3'), call('4'), chat('m'), call('5')]), '4×explain m 5');
  assert.equal(told(['1', '2', '3', '4'].map((id) => call(id)).concat(['5', '6', '7', '8'].map((id) => call(id, 'sum')))), '4×explain 4×sum');
});

test('what was called for another without trouble stands in its card', () => {
  const items = [call('a'), call('b', 'read', 'done', { parent: 'a' }), call('c', 'read', 'done', { parent: 'b' }), call('d', 'read', 'failed', { parent: 'a' }),
    call('e', 'ask_human', 'done', { parent: 'a' }), call('f', 'read', 'done', { parent: 'gone' }), call('g', 'read', 'done', { parent: 'g' })];
  assert.equal(told(items), 'a d e f g');
  assert.equal(told(items, { unreadFrom: 'c' }), 'a c d e f g', 'the marker of what is new has its row');
  assert.deepEqual([...grouped(/** @type {any} */ (items), { isOpen: () => false, unreadFrom: null }).cardOf], [['b', 'a'], ['c', 'b']]);
});

test('what failed, runs, asks or was made for another is not folded away', () => {
  const four = ['1', '2', '3', '4'].map((id) => call(id));
  for (const odd of [call('x', 'explain', 'failed'), call('x', 'explain', 'running'), call('x', 'ask_human'), call('x', 'explain', 'done', { parent: 'elsewhere' })]) {
    assert.equal(told([...four, odd, call('9')]), '4×explain x 9');
  }
});

test('a group is unfolded below its head, and does not reach over the marker of what is new', () => {
  const items = ['1', '2', '3', '4'].map((id) => call(id));
  assert.equal(told(items, { isOpen: (id) => id === 'group:1' }), 'open 4×explain 1 2 3 4');
  assert.equal(told(items, { unreadFrom: '3' }), '1 2 3 4');
  const { groupOf } = grouped(/** @type {any} */ (items), { isOpen: () => false, unreadFrom: null });
  assert.equal(groupOf.get('3')?.id, 'group:1');
});

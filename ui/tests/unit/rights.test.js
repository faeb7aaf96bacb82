import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Rights, allows, globMatches, warningsOf } from '../../src/model/rights.js';

function store() {
  /** @type {Map<string, string>} */
  const kept = new Map();
  return {
    kept, getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ text) => void kept.set(key, text),
    removeItem: (/** @type {string} */ key) => void kept.delete(key),
  };
}

const robot = { participant: 'robot', tool: 'move' };
const ask = { ...robot, args: '{}' };

test('patterns', () => {
  for (const [pattern, text] of [['*', ''], ['*', 'abc'], ['a*', 'a'], ['*c', 'abc'], ['a*c', 'ac'], ['a*b*c', 'a-b-b-c'], ['a', 'a'], ['**', 'x'], ['a.c', 'a.c']]) {
    assert.equal(globMatches(pattern ?? '', text ?? ''), true, `${pattern} ${text}`);
  }
  for (const [pattern, text] of [['a', 'ab'], ['a*', 'ba'], ['ab*ba', 'aba'], ['a*b*c', 'a-c-b'], ['', 'a'], ['a.c', 'abc'], ['A', 'a']]) {
    assert.equal(globMatches(pattern ?? '', text ?? ''), false, `${pattern} ${text}`);
  }
  assert.equal(allows('robot/move', robot), true);
  assert.equal(allows('*/mov*', robot), true);
  assert.equal(allows('robot/*', { participant: 'robot', tool: 'a/b' }), true);
  for (const nothing of ['*', 'robot', '/move', 'robot/', 'bot/*', 'robot/stop']) assert.equal(allows(nothing, robot), false, nothing);
});

test('a call waits for the yes, and for each anew', async () => {
  const rights = new Rights({ topic: 't', me: 'me', store: store() });
  for (const answer of [true, false]) {
    const asked = rights.confirm({ ...ask, args: '{"n":1}' });
    assert.deepEqual(rights.pending.map(({ participant, tool, args }) => [participant, tool, args]), [['robot', 'move', '{"n":1}']]);
    rights.pending[0]?.settle(answer);
    assert.equal(await asked, answer);
    assert.equal(rights.pending.length, 0);
  }
});

test('what was allowed is kept for that person and room alone, and can be revoked', async () => {
  const shared = store();
  const rights = new Rights({ topic: 't', me: 'me', store: shared });
  rights.allow(robot);
  rights.allow(robot);
  assert.equal(await rights.confirm(ask), true);
  assert.equal(rights.allowedBy({ participant: 'robot', tool: 'stop' }), undefined);
  assert.deepEqual(new Rights({ topic: 't', me: 'me', store: shared }).allowed, [robot]);
  assert.deepEqual(new Rights({ topic: 'u', me: 'me', store: shared }).allowed, []);
  assert.deepEqual(new Rights({ topic: 't', me: 'you', store: shared }).allowed, []);
  rights.revoke(robot);
  assert.equal(rights.allowedBy(robot), undefined);
  assert.equal(shared.kept.size, 0);
});

test('a configured pattern allows; what is no list of texts does not', async () => {
  const rights = new Rights({ topic: 't', me: 'me', patterns: ['robot/mo*', 7], store: store() });
  assert.equal(await rights.confirm(ask), true);
  assert.equal(rights.allowedBy(robot), 'configuration');
  for (const patterns of [undefined, '*/*', { 0: '*/*' }]) {
    assert.equal(new Rights({ topic: 't', me: 'me', patterns, store: store() }).allowedBy(robot), undefined);
  }
});

test('no annotation takes the question away; some add a warning', () => {
  const rights = new Rights({ topic: 't', me: 'me', store: store() });
  for (const annotations of [{ readOnlyHint: true, destructiveHint: false }, { title: 'safe' }, null, 'trust me']) {
    void rights.confirm({ ...ask, annotations });
  }
  void rights.confirm({ ...ask, annotations: { destructiveHint: true, readOnlyHint: true } });
  assert.deepEqual(rights.pending.map(({ warnings }) => warnings.length), [0, 0, 0, 0, 1]);
  assert.equal(warningsOf({ openWorldHint: true }).length, 1);
});

test('storage that is broken or full allows nothing by itself', () => {
  const broken = { ...store(), getItem: () => '{"not":"a list"}' };
  assert.deepEqual(new Rights({ topic: 't', me: 'me', store: broken }).allowed, []);
  const odd = { ...store(), getItem: () => '[{"participant":"robot"},{"participant":"robot","tool":"move","more":1},3]' };
  assert.deepEqual(new Rights({ topic: 't', me: 'me', store: odd }).allowed, [robot]);
  const full = { ...store(), setItem: () => { throw new Error('full'); } };
  const rights = new Rights({ topic: 't', me: 'me', store: full });
  rights.allow(robot);
  assert.equal(rights.allowedBy(robot), 'person');
});

test('leaving the room sends nothing that waited', async () => {
  const rights = new Rights({ topic: 't', me: 'me', store: store() });
  const asked = [rights.confirm(ask), rights.confirm(ask)];
  rights.close();
  assert.deepEqual(await Promise.all(asked), [false, false]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { stringifyExact } from '../../src/model/exact.js';
import { RawJson } from '../../src/model/raw.js';
import { Catalogue } from '../../src/net/catalogue.js';
import { Hall, until } from '../support/hall.js';

/** @param {Record<string, any>} handlers what the robot serves beside the handshake */
async function scene(handlers, capabilities = { tools: {}, resources: {} }) {
  const hall = new Hall();
  const me = await hall.join('me');
  const catalogue = new Catalogue(me);
  const robot = await hall.join('robot');
  robot.peer.serve({ initialize: () => ({ protocolVersion: '2025-06-18', capabilities, serverInfo: { name: 'robot', version: '1' } }), ...handlers });
  await until(me.room, () => me.room.people.get('robot')?.present);
  await catalogue.meet('robot');
  return { hall, me, catalogue, robot };
}

/** @param {Catalogue} catalogue @param {import('../../src/net/catalogue.js').Kind} kind */
const names = (catalogue, kind) => catalogue.of('robot').lists[kind].items.map((item) => item.name);

test('lists are read page by page, and only what is offered', async () => {
  const pages = /** @type {Record<string, any>} */ ({
    '': { tools: [{ name: 'a' }, 'nonsense', { title: 'no name' }], nextCursor: '2' }, 2: { tools: [{ name: 'b' }], nextCursor: '3' }, 3: { tools: [{ name: 'c' }] },
  });
  const { catalogue } = await scene({ 'tools/list': (/** @type {any} */ { cursor = '' }) => pages[cursor] });
  assert.equal(catalogue.offersKind('robot', 'tools'), true);
  assert.equal(catalogue.offersKind('robot', 'templates'), true);
  assert.equal(catalogue.offersKind('robot', 'prompts'), false);
  await catalogue.read('robot', 'tools');
  assert.deepEqual(names(catalogue, 'tools'), ['a', 'b', 'c']);
  assert.equal(catalogue.of('robot').lists.tools.state, 'read');
});

test('a list that has changed is read again, others are not', async () => {
  let times = 0;
  const { me, catalogue, robot } = await scene({ 'tools/list': () => ({ tools: [{ name: `t${(times += 1)}` }] }) });
  await catalogue.read('robot', 'tools');
  await catalogue.read('robot', 'tools');
  assert.deepEqual(names(catalogue, 'tools'), ['t1']);
  await robot.peer.notify(null, 'notifications/prompts/list_changed');
  await robot.peer.notify(null, 'notifications/tools/list_changed');
  await until(catalogue, () => catalogue.of('robot').lists.tools.stale);
  assert.equal(catalogue.of('robot').lists.prompts.stale, false);
  await catalogue.read('robot', 'tools');
  assert.deepEqual(names(catalogue, 'tools'), ['t2']);
  assert.equal(me.room.people.get('robot')?.present, true);
});

test('who joins anew is met anew', async () => {
  const { hall, me, catalogue } = await scene({ 'tools/list': () => ({ tools: [{ name: 'a' }] }) });
  await catalogue.read('robot', 'tools');
  hall.presence('leave', 'robot');
  hall.presence('join', 'robot');
  assert.ok(me.room.people.get('robot')?.present);
  assert.deepEqual([catalogue.of('robot').state, catalogue.of('robot').lists.tools.state], ['unmet', 'unread']);
});

test('a list without end is cut, a wrong answer is said', async () => {
  let pages = 0;
  const { catalogue } = await scene({
    'tools/list': () => ({ tools: [{ name: `t${(pages += 1)}` }], nextCursor: 'more' }), 'resources/list': () => ({ resources: 'none' }),
  });
  await catalogue.read('robot', 'tools');
  assert.equal(catalogue.of('robot').lists.tools.items.length, 64);
  assert.equal(catalogue.of('robot').lists.tools.cut, true);
  await catalogue.read('robot', 'resources');
  assert.deepEqual([catalogue.of('robot').lists.resources.state, catalogue.of('robot').lists.resources.error], ['failed', 'the answer has no list of resources']);
});

test('who cannot be met says why, and can be tried again', async () => {
  let good = false;
  const hall = new Hall();
  const me = await hall.join('me');
  const catalogue = new Catalogue(me);
  const robot = await hall.join('robot');
  robot.peer.serve({ initialize: () => { if (!good) throw new Error('out of order'); return { capabilities: {} }; } });
  await catalogue.meet('robot');
  assert.deepEqual([catalogue.of('robot').state, catalogue.of('robot').error], ['failed', 'out of order']);
  good = true;
  await catalogue.meet('robot');
  assert.equal(catalogue.of('robot').state, 'failed');
  await catalogue.meet('robot', true);
  assert.equal(catalogue.of('robot').state, 'met');
});

test('schemas keep every digit', async () => {
  const inputSchema = new RawJson('{"type":"object","properties":{"n":{"enum":[9007199254740993]}}}');
  const { catalogue } = await scene({ 'tools/list': () => ({ tools: [{ name: 'a', inputSchema }] }) });
  await catalogue.read('robot', 'tools');
  assert.equal(stringifyExact(catalogue.of('robot').lists.tools.items[0].inputSchema), inputSchema.text);
});

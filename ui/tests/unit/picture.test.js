import assert from 'node:assert/strict';
import { test } from 'node:test';
import { timelinePicture } from '../../src/model/picture.js';
import { hashOf, routeOf } from '../../src/model/route.js';

const call = (id, callee, began, ended, state = 'done') => ({
  id, caller: 'ada', callee, method: 'tools/call', tool: id, params: { name: id }, request: {}, notices: [], state, began, ended,
});

test('a picture of the timeline has every lane and call, and nothing that could run', () => {
  const calls = [call('read', 'lab', 0, 500), call('<script>', 'lab', 600, 900, 'failed'), call('late', 'x"y', 100_000, 100_400)];
  const { svg, width, height } = timelinePicture({ topic: 'room:<b>', calls: /** @type {any} */ (calls), name: (id) => id, now: 0, about: '3 calls' });
  assert.equal(width, 1600);
  assert.ok(height > 100 && height < 400);
  assert.equal(svg.match(/<script|<b>|x"y/g), null);
  for (const text of ['room:&#60;b&#62;', 'x&#34;y', '>read<', '>lab<', '>ada<']) assert.ok(svg.includes(text), text);
  assert.equal(svg.match(/stroke="#b3261e"/g)?.length, 1, 'one failed');
});

test('a stretch of time is part of an address, if it is one', () => {
  const route = { view: /** @type {const} */ ('timeline'), topic: 'room:a', from: 1_700_000_000_000, to: 1_700_000_060_000 };
  assert.equal(hashOf(route), '#/room/room:a/timeline?from=2023-11-14T22%3A13%3A20.000Z&to=2023-11-14T22%3A14%3A20.000Z');
  assert.deepEqual(routeOf(hashOf(route)), route);
  assert.deepEqual(routeOf('#/room/room:a?from=x&to=y'), { view: 'room', topic: 'room:a' });
  assert.deepEqual(routeOf(hashOf({ ...route, to: 0 })), { view: 'timeline', topic: 'room:a' });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completed, mentionAt, offered } from '../../src/model/mention.js';
import { hashOf, isTopic, linkOf, opens, routeOf } from '../../src/model/route.js';
import { HUES, ago, clip, count, duration, hueOf, initials, listed, mentions } from '../../src/model/text.js';
import { Extent } from '../../src/model/extent.js';

const rows = (...ids) => ids.map((id) => ({ id }));

test('rows are where their measured or likely heights put them', () => {
  const extent = new Extent(() => 10);
  extent.set(rows('a', 'b', 'c', 'd'));
  assert.equal(extent.total, 40);
  assert.equal(extent.measure('b', 30), true);
  assert.equal(extent.measure('b', 30.2), false, 'as good as the same');
  assert.equal(extent.measure('gone', 5), false);
  assert.deepEqual([0, 1, 2, 3, 4].map((at) => extent.top(at)), [0, 10, 40, 50, 60]);
  assert.deepEqual([-5, 0, 9, 10, 39, 40, 59, 999].map((y) => extent.at(y)), [0, 0, 0, 1, 1, 2, 3, 3]);
});

test('rows that are added, before or after, keep the heights of the others', () => {
  const extent = new Extent(() => 10);
  extent.set(rows('b'));
  extent.measure('b', 30);
  extent.set(rows('b', 'c'));
  assert.equal(extent.total, 40);
  extent.set(rows('a', 'b', 'c'));
  assert.deepEqual([extent.index.get('b'), extent.top(1), extent.total], [1, 10, 50]);
  extent.set(rows('a', 'c'));
  assert.deepEqual([extent.index.get('b'), extent.total], [undefined, 20]);
  extent.set([]);
  assert.deepEqual([extent.total, extent.at(5)], [0, 0]);
});

test('a mention is found before the cursor and completed', () => {
  assert.deepEqual(mentionAt('hello @ro', 9), { start: 6, typed: 'ro' });
  assert.deepEqual(mentionAt('@', 1), { start: 0, typed: '' });
  assert.equal(mentionAt('mail@ro', 7), null);
  assert.equal(mentionAt('@ro ', 4), null);
  assert.deepEqual(mentionAt('hi @auth0|5f7c#1!$+=', 20), { start: 3, typed: 'auth0|5f7c#1!$+=' });
  assert.deepEqual(completed('hello @ro there', 9, 'rover'), { text: 'hello @rover there', cursor: 13 });
  const people = [{ id: 'rover', present: true, joins: 1 }, { id: 'me', present: true, joins: 1 }, { id: 'gone-ro', present: false, joins: 1 },
    { id: 'euro', present: true, joins: 1 }, { id: 'x', name: 'Rob', present: true, joins: 1 }];
  assert.deepEqual(offered(people, 'RO', 'me').map((person) => person.id), ['rover', 'x', 'euro']);
});

test('addresses lead to rooms and back', () => {
  assert.deepEqual(routeOf(''), { view: 'lobby' });
  assert.deepEqual(routeOf('#/room/room:demo'), { view: 'room', topic: 'room:demo' });
  assert.deepEqual(routeOf('#/room/room:demo/timeline'), { view: 'timeline', topic: 'room:demo' });
  assert.deepEqual(routeOf('#/room/%E0%A4%A'), { view: 'lobby' });
  for (const topic of ['room:demo', 'a@b~c', 'odd/name %', '#general', 'Team Room']) assert.deepEqual(routeOf(hashOf({ view: 'room', topic })), { view: 'room', topic });
  assert.deepEqual(linkOf('#code=abc-_1&room=room:demo'), { code: 'abc-_1', topic: 'room:demo' });
  assert.deepEqual(linkOf('#code=abc'), { code: 'abc' });
  assert.equal(linkOf('#/room/x'), null);
  for (const name of ['room:a', 'a b', '#general', '!room:server', '@user:server', 'auth0|1', "[{(^&+,;=$')}]", '...', 'x'.repeat(128)]) assert.ok(isTopic(name), name);
  for (const name of ['', ' a', 'a ', '.', '..', 'a/b', 'a\\b', 'a*', 'a?', 'a%', 'a"', 'a`', 'a<', 'a>', 'a\n', 'caf\u00e9', 'x'.repeat(129)]) {
    assert.ok(!isTopic(name), name);
  }
  assert.deepEqual([opens(['room:*'], 'room:a'), opens(['room:a'], 'room:ab'), opens(['*'], 'x')], [true, false, true]);
});

test('words for people', () => {
  assert.deepEqual([0, 12, 999, 3400, 12_000, 125_000, 7_500_000].map(duration), ['0 ms', '12 ms', '999 ms', '3.4 s', '12 s', '2 min 5 s', '2 h 5 min']);
  assert.deepEqual([count(1, 'call'), count(2, 'call'), count(2, 'reply', 'replies')], ['1 call', '2 calls', '2 replies']);
  assert.deepEqual([listed([]), listed(['a']), listed(['a', 'b']), listed(['a', 'b', 'c', 'd'])], ['', 'a', 'a and b', 'a, b and 2 others']);
  assert.deepEqual([mentions('Hi @Bob!', 'bob'), mentions('Hi Bob!', 'bob'), mentions('@bobby', 'bob'), mentions('x@bob', 'bob'), mentions('', '')], [true, false, false, false, false]);
  assert.deepEqual([initials('Ada Lovelace'), initials('rover-7'), initials('émile'), initials('…')], ['AL', 'R7', 'É', '?']);
  assert.equal(clip('ab😀c', 3), 'ab…');
  assert.ok(hueOf('bob') >= 0 && hueOf('bob') < HUES);
  const many = Array.from({ length: 1000 }, (_, at) => hueOf(`agent-${at}`));
  assert.equal(new Set(many).size, HUES, 'every hue is used');
  assert.deepEqual(many, Array.from({ length: 1000 }, (_, at) => hueOf(`agent-${999 - at}`)).reverse(), 'whoever is met first');
  assert.deepEqual([ago(0, 30_000), ago(0, 300_000), ago(0, 7_200_000)], ['just now', '5 min ago', '2 h ago']);
});

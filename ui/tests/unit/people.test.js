import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clean, likeness } from '../../src/model/names.js';
import { fullName, introduced, isDoubtful, nameOf, presentPeople, statusText, welcomed } from '../../src/model/people.js';
import { RoomModel } from '../../src/model/room.js';

/** Those whom a room knows: `{id: name}`. */
function people(known) {
  const map = new Map();
  introduced(map, { id: 'system:gateway', name: 'gateway' });
  for (const [id, name] of Object.entries(known)) introduced(map, name === null ? { id } : { id, name });
  return map;
}

test('a name is enough where nobody else could be meant', () => {
  const room = people({ alice: 'Alice', bob: null, 'agent-7': 'Rover', carol: 'carol' });
  assert.deepEqual(['alice', 'bob', 'agent-7', 'carol', 'nobody', 'system:gateway'].map((id) => nameOf(room, id)),
    ['Alice', 'bob', 'Rover', 'carol', 'nobody', 'gateway']);
  assert.deepEqual(['alice', 'bob', 'carol', 'system:gateway'].map((id) => fullName(room, id)), ['Alice (alice)', 'bob', 'carol', 'gateway']);
});

test('whoever takes the name of another is told apart, and so is the other', () => {
  for (const taken of ['Alice', 'ALICE', ' alice ', 'Ａｌｉｃｅ', 'Alicе', 'Al1ce', 'Alíce', 'A\u200blice', 'al-ice']) {
    const room = people({ alice: 'Alice', mallory: taken });
    assert.equal(nameOf(room, 'mallory').endsWith(' (mallory)'), true, JSON.stringify(taken));
    assert.equal(nameOf(room, 'alice'), 'Alice (alice)', JSON.stringify(taken));
  }
});

test('the id of another is no name to be had, nor are those that mean nobody', () => {
  const room = people({ bob: null, mallory: 'Bob', eve: 'Gateway', trudy: 'sаlon', peggy: 'You' });
  assert.deepEqual(['bob', 'mallory', 'eve', 'trudy', 'peggy'].map((id) => nameOf(room, id)),
    ['bob', 'Bob (mallory)', 'Gateway (eve)', 'sаlon (trudy)', 'You (peggy)']);
});

test('somebody who has left is remembered, and a name that was given up is free', () => {
  const model = new RoomModel({ topic: 'room:t', me: 'me' });
  model.welcome({ participants: [{ id: 'alice', name: 'Alice' }] });
  model.welcome({ participants: [{ id: 'mallory', name: 'Alice' }] });
  assert.equal(nameOf(model.people, 'mallory'), 'Alice (mallory)');
  model.welcome({ participants: [{ id: 'mallory', name: 'Mallory' }] });
  assert.deepEqual(['mallory', 'alice'].map((id) => isDoubtful(model.people, id)), [false, false]);
  introduced(model.people, { id: 'bob' });
  introduced(model.people, { id: 'mallory', name: 'bob' });
  introduced(model.people, { id: 'mallory', name: 'mallory' });
  introduced(model.people, { id: 'eve', name: 'Mallory' });
  assert.equal(nameOf(model.people, 'eve'), 'Mallory (eve)', 'an id stays its bearer’s after renaming');
});

test('what cannot be seen is no part of a name', () => {
  assert.equal(clean('gateway\u202etxet'), 'gatewaytxet');
  assert.equal(clean('\u2066a\u2069\u200b b\u0000\n c\ufeff\u3164'), 'a b c');
  assert.equal(clean(`e${'\u0301'.repeat(50)}`), 'e\u0301\u0301');
  assert.equal(clean('x'.repeat(5000)).length, 100);
  assert.equal(clean('\ud800a'), 'a');
  const room = people({ mallory: '\u202e\u200b ', eve: '\u202eecilA' });
  assert.equal(nameOf(room, 'mallory'), 'mallory', 'nothing is left of it');
  assert.equal(nameOf(room, 'eve'), 'ecilA');
  assert.equal(nameOf(people({ noa: 'נועה' }), 'noa'), '\u2068נועה\u2069', 'and turns nothing else around');
});

test('whoever has such an id may be called by it', () => {
  assert.equal(nameOf(people({ you: 'You' }), 'you'), 'You');
});

test('likeness is by looks', () => {
  for (const [a, b] of [['Modern', 'Modem'], ['paypal', 'раураl'], ['rover-1', 'Rover 1'], ['O0', 'oo']]) assert.equal(likeness(a), likeness(b), a);
  for (const [a, b] of [['alice', 'bob'], ['rover-1', 'rover-3'], ['李', '王']]) assert.notEqual(likeness(a), likeness(b), a);
});

test('many people cost no more than their number', () => {
  const map = new Map();
  const list = Array.from({ length: 20_000 }, (_, at) => ({ id: `p${at}`, name: 'Alice' }));
  welcomed(map, list);
  assert.equal(presentPeople(map).length, 20_000);
  assert.ok(list.every(({ id }) => isDoubtful(map, id)));
});

test('a status is shown while it lasts and its participant is here', () => {
  const model = new RoomModel({ topic: 'room:t', me: 'me' });
  const shown = () => statusText(/** @type {any} */ (model.people.get('alice')));
  const presence = (/** @type {object} */ payload, from = 'system:gateway') =>
    model.apply(/** @type {any} */ ({ id: String(Math.random()), kind: 'presence', from, to: [], raw: '', at: 0, payload }));
  const says = (/** @type {unknown} */ status, from = 'system:gateway') => presence({ event: 'status', participant: { id: 'alice', status } }, from);
  model.welcome({ participants: [{ id: 'alice', status: { status: 'away', text: 'lunch' } }, { id: 'irc:bob', via: 'irc' }] });
  assert.equal(shown(), 'away: lunch');
  assert.equal(model.people.get('irc:bob')?.via, 'irc');
  says({ status: 'working', text: 'wiring\u202e' });
  assert.equal(shown(), 'working: wiring');
  says({ status: 'idle' }, 'mallory');
  assert.equal(shown(), 'working: wiring', 'only the gateway says so');
  // A second join says nothing of it.
  presence({ event: 'join', participant: { id: 'alice' } });
  assert.equal(shown(), 'working: wiring');
  says(undefined);
  assert.equal(shown(), '');
  says({ status: 'idle' });
  presence({ event: 'leave', participant: { id: 'alice' } });
  assert.equal(shown(), '');
  const rows = model.items.flatMap((item) => (item.type === 'presence' ? item.envelopes : []));
  assert.deepEqual(rows.map(({ payload }) => payload.event), ['join', 'leave'], 'a status has no row');
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeText } from '../../src/model/changes.js';
import { allowsAct, mayDecide, mayDo } from '../../src/model/control.js';
import { readEnvelope } from '../../src/model/envelope.js';
import { mergePatch } from '../../src/model/patch.js';
import { RoomModel } from '../../src/model/room.js';
import { ruleOf, ruleText } from '../../src/model/rules.js';

let number = 0;

/** @param {string} from @param {string[]} to @param {any} payload @param {any} [more] */
function envelope(from, to, payload, more = {}) {
  const kind = payload.event ? 'presence' : 'mcp';
  const body = { protocol: 'mcp-x/v0', id: `e${(number += 1)}`, ts: '2025-08-17T14:00:00Z', from, to, kind, payload, ...more };
  return /** @type {any} */ (readEnvelope(JSON.stringify(body), { topic: 'room:t' }));
}

const notice = (method, params) => envelope('system:gateway', [], { jsonrpc: '2.0', method: `notifications/${method}`, params });
const held = (id, more = {}) => notice('approval/requested', {
  id, request: JSON.stringify({ id, from: 'agent', payload: { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'move', arguments: { x: 1 } } } }),
  digest: 'sha256:1', caller: 'agent', callee: 'robot', tool: 'move', approvers: ['role:owner'], needs: 1, expires: '2025-08-17T14:05:00Z', ...more,
});
const decided = (id, decision, by, digest = 'sha256:1') => notice('approval/decided', { id, digest, decision, by });

function room(...envelopes) {
  const model = new RoomModel({ topic: 'room:t', me: 'alice' });
  for (const each of envelopes) model.apply(each);
  return model;
}
const states = (model) => [...model.control.approvals.values()].map(({ state }) => state);

test('a held call is one row, from the request to its outcome', () => {
  const model = room(held('c1'));
  assert.deepEqual(states(model), ['waiting']);
  model.apply(decided('c1', 'approved', 'alice', 'sha256:2'));
  assert.deepEqual(states(model), ['waiting'], 'a decision about another text counts for nothing');
  model.apply(decided('c1', 'approved', 'alice'));
  assert.deepEqual(states(model), ['approved']);
  assert.deepEqual(model.items.filter(({ type }) => type === 'approval').length, 1);
  model.apply(decided('c1', 'denied', 'bob'));
  assert.deepEqual(states(model), ['approved'], 'the first outcome counts');
});

test('two approvals, a denial, an expiry, a cancellation, a leave and a pause end a hold', () => {
  const settings = (more) => notice('topic/settings', { settings: { version: 1, members: { alice: 'owner' }, ...more }, by: 'alice' });
  const ends = {
    approved: [decided('c1', 'approved', 'alice'), decided('c1', 'approved', 'bob')],
    waiting: [decided('c1', 'approved', 'alice')],
    denied: [decided('c1', 'denied', 'bob')],
    expired: [decided('c1', 'expired')],
  };
  for (const [state, list] of Object.entries(ends)) assert.deepEqual(states(room(held('c1', { needs: 2 }), ...list)), [state], state);
  const withdrawn = [
    envelope('agent', ['robot'], { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }),
    envelope('system:gateway', [], { event: 'leave', participant: { id: 'agent' } }),
    settings({ paused: ['agent'] }), settings({ stopped: true }), settings({ removed: ['agent'] }), decided('c1', 'dropped'),
  ];
  for (const each of withdrawn) assert.deepEqual(states(room(held('c1'), each)), ['ended'], each.raw);
  assert.deepEqual(states(room(held('c1'), envelope('mallory', ['robot'], { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }))), ['waiting'], 'others cannot');
  assert.deepEqual(states(room(envelope('mallory', [], held('c1').payload))), [], 'a notice of anybody else is none');
});

test('what is stored after an approval is a call of its own, and older pages change nothing', () => {
  const call = envelope('agent', ['robot'], { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'move' } }, { id: 'c1' });
  const model = room(held('c1'), call);
  assert.deepEqual([states(model), model.calls.get('c1')?.state], [['approved'], 'running']);
  model.prepend([envelope('bob', [], { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text: 'before' } })], true);
  assert.deepEqual([states(model), model.items.filter(({ type }) => type === 'approval').length], [['approved'], 1]);
});

test('calls of the gateway\'s tools for control are folded away', () => {
  const model = room(envelope('alice', ['system:gateway'], { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'approval.decide', arguments: {} } }),
    envelope('alice', ['system:gateway'], { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'context.get', arguments: {} } }));
  assert.deepEqual(model.items.map(({ type }) => type), ['day', 'handshake', 'call']);
});

test('the newest settings count, whether they were read or heard', () => {
  const change = (version, title) => notice('topic/settings', { settings: { version, title, members: { alice: 'owner' } }, by: 'alice' });
  const model = room(change(3, 'three'));
  model.control.learn({ version: 2, title: 'two' });
  assert.equal(model.control.settings?.title, 'three');
  model.control.learn({ version: 4, title: 'four' });
  model.prepend([change(2, 'two')], true);
  assert.equal(model.control.settings?.title, 'four');
  const empty = room();
  empty.prepend([], true);
  assert.deepEqual(empty.control.settings, { version: 0 });
});

test('capabilities: patterns, and deny overrides allow', () => {
  const told = [
    [['*'], 'moderate', true], [['read', 'say'], 'say', true], [['read'], 'say', false], [['*', '!say'], 'say', false],
    [['approve:robot-*/move*'], 'approve:robot-1/move_to', true], [['approve:robot-*/move*'], 'approve:other/move', false],
    [['call:*/*'], 'approve:robot/move', false], [['*', '!approve:robot/*'], 'approve:robot/move', false], [[], 'read', false],
  ];
  for (const [capabilities, act, allowed] of told) assert.equal(allowsAct(capabilities, act), allowed, `${capabilities} ${act}`);
});

test('who may do what: role, token, operator, and a topic without settings', () => {
  const settings = { version: 2, members: { alice: 'owner', eve: 'observer' }, removed: ['mallory'], roles: { pilot: ['approve:robot/*'] } };
  assert.equal(mayDo(settings, 'alice', {}, 'moderate'), true);
  assert.equal(mayDo(settings, 'bob', {}, 'moderate'), false);
  assert.equal(mayDo(settings, 'bob', {}, 'say'), true, 'everybody else is a member');
  assert.equal(mayDo({ ...settings, access: 'members' }, 'bob', {}, 'read'), false);
  assert.equal(mayDo(settings, 'eve', {}, 'say'), false);
  assert.equal(mayDo(settings, 'mallory', {}, 'read'), false);
  assert.equal(mayDo(settings, 'bob', { permissions: ['operator'] }, 'manage'), true);
  assert.equal(mayDo(settings, 'alice', { capabilities: ['read'] }, 'manage'), false, 'a token can be limited');
  assert.equal(mayDo({ version: 0 }, 'bob', { creates_topics: true }, 'manage'), true);
  assert.equal(mayDo({ version: 0 }, 'bob', {}, 'manage'), false);
  assert.equal(mayDo(null, 'alice', {}, 'say'), false, 'what is not known is not offered');
});

test('who decides about a held call', () => {
  const approval = (more) => room(held('c1', more)).control.approvals.get('c1');
  const settings = { version: 1, members: { alice: 'owner', bob: 'member' } };
  const decides = (who, more, token = {}) => mayDecide(/** @type {any} */ (approval(more)), settings, who, token);
  assert.equal(decides('alice'), true);
  assert.equal(decides('bob'), false);
  assert.equal(decides('bob', { approvers: ['bob'] }), true);
  assert.equal(decides('agent', { approvers: ['agent'] }), false, 'not about its own');
  assert.equal(decides('agent', { approvers: ['agent'], self_approval: true }), true);
  assert.equal(decides('bob', { approvers: [] }), false);
  assert.equal(decides('alice', { approvers: [] }), true);
  assert.equal(decides('bob', {}, { permissions: ['operator'] }), true);
  assert.equal(decides('alice', {}, { capabilities: ['read', 'say'] }), false);
});

test('a change of settings in words', () => {
  const before = { version: 1, members: { alice: 'owner' } };
  const told = (now) => changeText(before, { ...before, version: 2, ...now }, (id) => id);
  assert.equal(told({ stopped: true }), 'stopped the room: everyone who is neither a person nor a moderator is paused');
  assert.equal(told({ paused: ['bob'] }), 'paused bob');
  assert.equal(told({ members: { alice: 'owner', bob: 'observer' }, title: 'Lab' }), 'made bob an observer and called the room “Lab”');
  assert.equal(told({ access: 'members', rules: [{ deny: 'call:*/*' }] }), 'let only members enter and changed the rules');
  assert.equal(changeText({ ...before, removed: ['bob'] }, before, (id) => id), 'readmitted bob');
  assert.equal(changeText(null, { version: 7 }, (id) => id), 'changed the settings of this room (version 7)');
});

test('a merge patch has what differs, and null for what is gone', () => {
  const patch = (a, b) => JSON.stringify(mergePatch(a, b));
  assert.equal(patch({ a: 1, b: { c: 1, d: 2 } }, { a: 1, b: { c: 1, e: 3 } }), '{"b":{"d":null,"e":3}}');
  assert.equal(patch({ title: 'x', rules: [1] }, { rules: [1, 2] }), '{"title":null,"rules":[1,2]}');
  assert.equal(patch({ a: [1] }, { a: [1] }), '{}');
});

test('a rule from its form, and in words', () => {
  const rule = ruleOf({ effect: 'hold', participant: 'robot-*', tool: 'move*', approvers: 'role:owner, bob', needs: '2', minutes: '10', callers: '' });
  assert.deepEqual(rule, { hold: 'call:robot-*/move*', approvers: ['role:owner', 'bob'], needs: 2, expires_ms: 600_000 });
  assert.deepEqual(ruleText(rule), { effect: 'Hold for approval', calls: 'robot-*/move*', details: '2 approvals of role:owner, bob, expires after 10 min 0 s' });
  assert.deepEqual(ruleOf({ effect: 'deny', participant: '', tool: '', approvers: 'x', needs: '1', minutes: '5', callers: 'eve' }), { deny: 'call:*/*', callers: ['eve'] });
});

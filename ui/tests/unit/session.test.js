import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gateway } from '../../src/net/session.js';

const session = (id) => ({ participant: { id }, topics: ['*'], expires: '2100-01-01T00:00:00Z' });

/** A gateway that says who asks for what, with what was asked for early. */
function visiting(arrival, topic = 'room:a') {
  const asked = [];
  const remembered = [];
  const answers = { 'GET v0/session': session('by-session'), 'POST v0/tickets': { ticket: 'later', expires_in: 30 } };
  const get = async (path, { method }) => {
    asked.push(`${method} ${path}`);
    return new Response(JSON.stringify(answers[`${method} ${path}`]));
  };
  const early = { topic, answer: Promise.resolve(arrival), remember: (is) => remembered.push(is) };
  return { gateway: new Gateway(/** @type {any} */ (get), early), asked, remembered };
}

test('a visit needs no request for what was asked for early, and that counts once', async () => {
  const { gateway, asked, remembered } = visiting({ ticket: 'early', expires_in: 30, session: session('alice') });
  assert.equal((await gateway.session())?.participant.id, 'alice');
  assert.equal(await gateway.ticket('room:a'), 'early');
  assert.deepEqual([asked, remembered], [[], [true]]);
  assert.equal(await gateway.ticket('room:a'), 'later', 'a ticket works once');
  assert.equal((await gateway.session())?.participant.id, 'by-session', 'somebody else may have signed in since');
  assert.deepEqual(asked, ['POST v0/tickets', 'GET v0/session']);
});

test('an early ticket is for its room, for a short time', async () => {
  const old = visiting({ ticket: 'early', expires_in: 0, session: session('alice') });
  await old.gateway.session();
  assert.equal(await old.gateway.ticket('room:a'), 'later');
  const other = visiting({ ticket: 'early', expires_in: 30, session: session('alice') });
  await other.gateway.session();
  assert.deepEqual([await other.gateway.ticket('room:b'), await other.gateway.ticket('room:a')], ['later', 'early']);
});

test('where nothing was asked for early, or it was refused, the session is', async () => {
  const refused = visiting(null);
  assert.equal((await refused.gateway.session())?.participant.id, 'by-session');
  const lobby = visiting(null, null);
  assert.equal((await lobby.gateway.session())?.participant.id, 'by-session');
  assert.deepEqual([refused.asked, lobby.asked], [['GET v0/session'], ['GET v0/session']]);
});

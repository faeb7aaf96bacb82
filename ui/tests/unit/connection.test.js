import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RoomModel } from '../../src/model/room.js';
import { Connection } from '../../src/net/connection.js';
import { HttpProblem } from '../../src/net/session.js';
import { Peer } from '../../src/net/peer.js';
import { RpcError } from '../../src/net/rpc.js';

/** The other end of the connection, and its clock. */
class World {
  now = 0;
  timers = new Map();
  sockets = [];
  tickets = 0;
  /** What the gateway says of tickets and of envelopes to resume after. */
  denial = null;
  lostIds = new Set();

  platform = {
    socket: (path) => {
      const socket = { path, sent: [], closed: false, send: (text) => socket.sent.push(JSON.parse(text)), close: () => { socket.closed = true; } };
      this.sockets.push(socket);
      return socket;
    },
    now: () => this.now,
    random: () => 1,
    later: (fn, ms) => {
      const key = {};
      this.timers.set(key, { fn, at: this.now + ms });
      return key;
    },
    never: (key) => this.timers.delete(key),
  };

  gateway = {
    ticket: async () => {
      this.tickets += 1;
      if (this.denial) throw this.denial;
      return `t${this.tickets}`;
    },
    history: async (topic, { after }) => {
      if (this.lostIds.has(after)) throw new HttpProblem(404, 'not_found', 'gone');
      return { envelopes: [], complete: true };
    },
  };

  get socket() {
    return this.sockets[this.sockets.length - 1];
  }

  get query() {
    return new URL(this.socket.path, 'http://h').searchParams;
  }

  say(body) {
    this.socket.onmessage({ data: JSON.stringify({ protocol: 'mcp-x/v0', ts: new Date(this.now).toISOString(), to: [], kind: 'mcp', ...body }) });
  }

  welcome(recent = [], participants = [{ id: 'alice' }, { id: 'bob' }], more = { heartbeat_ms: 30_000 }) {
    this.say({ id: 'w', from: 'system:gateway', kind: 'system', payload: { event: 'welcome', participants, history: { enabled: true, recent }, ...more } });
  }

  /** The same bytes back, as the gateway does. */
  echo(envelope) {
    this.socket.onmessage({ data: JSON.stringify(envelope) });
  }

  async drop(code = 1006) {
    this.socket.onclose({ code });
    await settled();
  }

  /** Lets the next timer ring. */
  async ring() {
    const [[key, timer]] = [...this.timers].sort((a, b) => a[1].at - b[1].at);
    this.timers.delete(key);
    this.now = Math.max(this.now, timer.at);
    timer.fn();
    await settled();
  }
}

async function settled() {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

async function entered() {
  const world = new World();
  const room = new RoomModel({ topic: 'room:t', me: 'alice' });
  const connection = new Connection({ room, gateway: world.gateway, platform: world.platform });
  connection.open();
  await settled();
  world.welcome([chat('old')]);
  return { world, room, connection };
}

const chat = (id, from = 'bob') => ({
  protocol: 'mcp-x/v0', id, ts: '2025-08-17T14:00:00Z', from, to: [], kind: 'mcp',
  payload: { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text: id } },
});

test('the first connection brings the newest page, the next resumes after the last stored envelope', async () => {
  const { world, room, connection } = await entered();
  assert.equal(connection.state.name, 'live');
  assert.equal(world.query.get('history'), '100');
  assert.equal(world.query.get('share'), 'true');
  world.say(chat('m1'));
  world.say({ id: 'h', from: 'system:gateway', kind: 'presence', payload: { event: 'heartbeat' } });
  await world.drop();
  assert.equal(connection.state.name, 'waiting');
  await world.ring();
  assert.equal(world.query.get('after'), 'm1');
  assert.equal(world.query.get('history'), null);
  assert.equal(world.query.get('ticket'), 't2', 'a ticket for every attempt');
  world.welcome();
  world.say(chat('m2'));
  assert.deepEqual([...room.envelopes.keys()], ['old', 'm1', 'm2']);
});

const outage = {
  id: 'o', from: 'system:gateway', to: ['alice'], kind: 'system',
  payload: { event: 'error', type: 'error', code: 'closing', message: 'not now', details: { passing: true } },
};
const ready = { id: 'r', from: 'system:gateway', to: ['alice'], kind: 'system', payload: { event: 'ready', type: 'ready', message: 'now' } };

test('a gateway that can store nothing is waited for, on the same connection, and nothing fails by it', async () => {
  const { world, room, connection } = await entered();
  const note = { payload: { jsonrpc: '2.0', method: 'notifications/x' } };
  const before = connection.send({ id: 'before', ...note });
  world.say(outage);
  assert.equal(connection.state.name, 'stalled');
  assert.match(connection.state.why, /cannot store anything at the moment; it will go on by itself/);
  assert.equal(connection.stands, true);
  connection.tryNow();
  await settled();
  assert.equal(world.sockets.length, 1, 'there is nothing to connect to');
  assert.deepEqual([...room.envelopes.keys()], ['old'], 'it is no envelope of the room');
  assert.equal(room.refusals.size, 0);
  const during = connection.send({ id: 'during', ...note });
  // What was under way is refused now, and kept all the same.
  world.say({ ...outage, id: 'o2', correlation_id: 'before', payload: { event: 'error', code: 'closing', message: 'not now' } });
  assert.deepEqual(world.socket.sent.map(({ id }) => id), ['before'], 'nothing is said to whom it cannot help');
  assert.equal(connection.waiting, 2);
  world.say(chat('m1'));
  assert.equal(connection.state.name, 'stalled', 'what was stored before may still come');
  world.say(ready);
  assert.equal(connection.state.name, 'live');
  assert.deepEqual(world.socket.sent.map(({ id }) => id), ['before', 'before', 'during']);
  for (const envelope of world.socket.sent.slice(1)) world.echo(envelope);
  assert.deepEqual([(await before).id, (await during).id], ['before', 'during']);
  assert.equal(world.socket.closed, false);
  world.say(ready);
  assert.equal(world.socket.sent.length, 3, 'said again it means nothing');
  // A connection that is lost meanwhile is made good like any other.
  world.say(outage);
  await world.drop();
  assert.equal(connection.state.name, 'waiting');
  await world.ring();
  world.welcome();
  assert.equal(connection.state.name, 'live');
});

test('what could not be stored for a moment is sent again after it', async () => {
  const { world, connection } = await entered();
  const sent = connection.send({ id: 'm', payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  world.say({ ...outage, correlation_id: 'm', payload: { event: 'error', code: 'closing', message: 'not now' } });
  assert.equal(connection.state.name, 'live');
  await world.ring();
  assert.deepEqual(world.socket.sent.map(({ id }) => id), ['m', 'm']);
  world.echo(world.socket.sent[1]);
  assert.equal((await sent).id, 'm');
});

test('nothing overtakes what is held back', async () => {
  const { world, connection } = await entered();
  const note = { payload: { jsonrpc: '2.0', method: 'notifications/x' } };
  const refuse = (id) => world.say({ ...outage, correlation_id: id, payload: { event: 'error', code: 'closing', message: 'not now' } });
  const ids = () => world.socket.sent.splice(0).map(({ id }) => id);
  const all = [connection.send({ id: '1', ...note })];
  refuse('1');
  assert.equal(connection.state.name, 'live', 'no outage is told of');
  all.push(connection.send({ id: '2', ...note }));
  assert.deepEqual(ids(), ['1']);
  await world.ring();
  assert.deepEqual(ids(), ['1', '2']);
  // An outage that is over sooner than the wait ends it, and nothing is held back any more.
  refuse('1');
  world.say(outage);
  world.say(ready);
  assert.deepEqual(ids(), ['1', '2']);
  all.push(connection.send({ id: '3', ...note }));
  const sent = ['1', '2', '3'];
  assert.deepEqual(ids(), ['3']);
  for (const id of sent) world.say({ id, from: 'alice', ...note });
  assert.deepEqual((await Promise.all(all)).map(({ id }) => id), sent);
  assert.equal(connection.waiting, 0);
});

test('what somebody sends on hearing that it goes on comes behind what waits', async () => {
  const { world, connection } = await entered();
  const ids = () => world.socket.sent.splice(0).map(({ id }) => id);
  const note = { payload: { jsonrpc: '2.0', method: 'notifications/x' } };
  let next = '';
  connection.subscribe(() => {
    if (connection.state.name !== 'live' || next === '') return;
    const id = next;
    next = '';
    void connection.send({ id, ...note });
  });
  world.say(outage);
  void connection.send({ id: '1', ...note });
  next = '2';
  world.say(ready);
  assert.deepEqual(ids(), ['1', '2']);
  await world.drop();
  next = '3';
  await world.ring();
  world.welcome();
  assert.deepEqual(ids(), ['1', '2', '3']);
});

test('waiting grows, says when it ends, and can be cut short', async () => {
  const { world, connection } = await entered();
  const waits = [];
  for (let n = 0; n < 9; n += 1) {
    await world.drop();
    waits.push(connection.state.retryAt - world.now);
    await world.ring();
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  world.welcome();
  world.now += 10_000;
  await world.drop();
  assert.equal(connection.state.retryAt - world.now, 500, 'after a good connection it begins anew');
  const before = world.sockets.length;
  connection.tryNow();
  await settled();
  assert.equal(world.sockets.length, before + 1);
});

test('what has no echo is sent again with the same bytes, and settles once', async () => {
  const { world, connection } = await entered();
  const sent = connection.send({ payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  const [first] = world.socket.sent;
  assert.equal(connection.waiting, 1);
  await world.drop();
  const offline = connection.send({ payload: { jsonrpc: '2.0', method: 'notifications/y' } });
  await world.ring();
  world.welcome();
  assert.deepEqual(world.socket.sent.map((each) => each.payload.method), ['notifications/x', 'notifications/y']);
  assert.deepEqual(world.socket.sent[0], first);
  for (const each of world.socket.sent) world.echo(each);
  world.echo(first);
  assert.equal((await sent).id, first.id);
  assert.equal((await offline).payload.method, 'notifications/y');
  assert.equal(connection.waiting, 0);
});

test('a refusal rejects what it is about', async () => {
  const { world, connection } = await entered();
  const sent = connection.send({ payload: {} });
  const [{ id }] = world.socket.sent;
  world.say({ id: 'r', from: 'system:gateway', kind: 'system', correlation_id: id, payload: { event: 'error', code: 'invalid_envelope', message: 'no' } });
  await assert.rejects(sent, { code: 'invalid_envelope', message: 'no' });
});

test('being signed out is said, and signing in resumes with nothing missing', async () => {
  const { world, connection } = await entered();
  const sent = connection.send({ payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  world.denial = new HttpProblem(401, 'unauthorized', 'no');
  await world.drop(4401);
  await world.ring();
  assert.equal(connection.state.name, 'signed-out');
  assert.equal(world.timers.size, 0, 'nothing is tried meanwhile');
  world.denial = null;
  connection.open();
  await settled();
  assert.equal(world.query.get('after'), 'old');
  world.welcome();
  world.echo(world.socket.sent[0]);
  assert.equal((await sent).payload.method, 'notifications/x');
});

test('a seat that is somebody else\'s is left at once', async () => {
  const { world, connection } = await entered();
  const sent = connection.send({ payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  const refused = assert.rejects(sent, /somebody else/);
  await world.drop();
  await world.ring();
  world.say({ id: 'w', from: 'system:gateway', kind: 'system', payload: { event: 'welcome', participant: { id: 'owner' }, participants: [{ id: 'owner' }] } });
  assert.deepEqual([connection.state.name, world.socket.closed, world.timers.size], ['another', true, 0]);
  assert.equal(world.socket.sent.length, 0, 'nothing is said in the other\'s name');
  await refused;
});

test('a room that is not open ends it; a taken seat is not taken back by itself', async () => {
  const { world, connection } = await entered();
  await world.drop(4409);
  assert.equal(connection.state.name, 'replaced');
  assert.equal(world.timers.size, 0);
  world.denial = new HttpProblem(403, 'forbidden', 'not yours');
  connection.tryNow();
  await settled();
  assert.deepEqual([connection.state.name, connection.state.why], ['closed', 'You may not enter this room: not yours']);
});

test('when the envelope to resume after is gone, the page begins anew and shows a gap', async () => {
  const { world, room, connection } = await entered();
  const peer = new Peer({ connection, room });
  world.say({ id: 'hi', from: 'bob', payload: { jsonrpc: '2.0', method: 'notifications/other' } });
  const asked = peer.ask('bob', 'tools/list', {}, {});
  world.echo(world.socket.sent[0]);
  world.lostIds.add(world.socket.sent[0].id);
  await world.drop();
  await world.ring();
  await world.drop();
  await assert.rejects(asked, { code: 'recipient_not_found' });
  await world.ring();
  assert.equal(world.query.get('after'), null);
  world.welcome([chat('later')]);
  assert.deepEqual(room.items.slice(-3).map((item) => item.type), ['gap', 'day', 'chat']);
});

test('a silent gateway is given up', async () => {
  const { world, connection } = await entered();
  const { socket } = world;
  await world.ring();
  assert.equal(world.now, 75_000);
  assert.equal(connection.state.name, 'waiting');
  assert.equal(socket.closed, true);
});

test('a gateway that does not welcome is given up, whatever else it says', async () => {
  const world = new World();
  const connection = new Connection({ room: new RoomModel({ topic: 'room:t', me: 'alice' }), gateway: world.gateway, platform: world.platform });
  connection.open();
  await settled();
  world.say(chat('early'));
  await world.ring();
  assert.equal(world.now, 15_000);
  assert.equal(connection.state.name, 'waiting');
  await world.ring();
  world.welcome([], undefined, { heartbeat_ms: 0 });
  await world.drop();
  await world.ring();
  const began = world.now;
  world.say(chat('early again'));
  await world.ring();
  assert.equal(world.now, began + 15_000, 'also where the last connection could be silent for ever');
});

test('how long a gateway may be silent, its heartbeat says', async () => {
  const { world, connection } = await entered();
  const when = () => [...world.timers.values()].map((timer) => timer.at - world.now);
  world.welcome([], undefined, { heartbeat_ms: 600_000 });
  assert.deepEqual(when(), [1_500_000]);
  world.now += 1_000_000;
  world.say({ id: 'b', from: 'system:gateway', kind: 'presence', payload: { event: 'heartbeat', participant: { id: 'alice' } } });
  assert.deepEqual(when(), [1_500_000], 'counted anew from whatever comes');
  world.welcome([], undefined, { heartbeat_ms: 2 ** 40 });
  assert.deepEqual(when(), [2 ** 31 - 1], 'a longer timer would ring at once');
  world.welcome([], undefined, {});
  assert.deepEqual(when(), [75_000], 'an older gateway sends heartbeats and does not say so');
  world.welcome([], undefined, { heartbeat_ms: 0 });
  world.say(chat('quiet'));
  assert.deepEqual(when(), [], 'one that sends no heartbeats may be silent for ever');
  assert.equal(connection.state.name, 'live');
});

async function met() {
  const all = await entered();
  const peer = new Peer({ connection: all.connection, room: all.room, capabilities: { sampling: {} } });
  const { world } = all;
  /** Echoes what was sent and hands back the newest. */
  const heard = async () => {
    await settled();
    const envelope = world.socket.sent[world.socket.sent.length - 1];
    world.echo(envelope);
    await settled();
    return envelope;
  };
  const answer = (request, body, from = 'bob') => world.say({
    id: `${from}-re-${request.id}`, from, to: ['alice'], correlation_id: request.id, payload: { jsonrpc: '2.0', id: request.payload.id, ...body },
  });
  return { ...all, peer, heard, answer };
}

test('a request shakes hands first, once for each joining, and resolves with the result', async () => {
  const { world, peer, heard, answer } = await met();
  const told = [];
  const listed = peer.request('bob', 'tools/call', { name: 'dig' }, { onProgress: (progress) => told.push(progress.done), onEnvelope: (each) => told.push(each.id) });
  const hello = await heard();
  assert.equal(hello.payload.method, 'initialize');
  assert.deepEqual(hello.payload.params.capabilities, { sampling: {} });
  answer(hello, { result: { protocolVersion: '2025-06-18' } });
  assert.equal((await heard()).payload.method, 'notifications/initialized');
  const request = await heard();
  assert.equal(request.payload.params._meta.progressToken, request.payload.id);
  world.say({ id: 'p', from: 'bob', correlation_id: request.id, payload: { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: request.payload.id, progress: 4 } } });
  answer(request, { result: 'forged' }, 'mallory');
  answer(request, { result: { ok: true } });
  assert.deepEqual(await listed, { ok: true });
  assert.deepEqual(told, [request.id, 4]);

  const again = peer.request('bob', 'ping');
  const ping = await heard();
  assert.equal(ping.payload.method, 'ping', 'no second handshake');
  answer(ping, { error: { code: -32601, message: 'no' } });
  await assert.rejects(again, (error) => error instanceof RpcError && error.code === -32601);

  world.say({ id: 'j', from: 'system:gateway', kind: 'presence', payload: { event: 'join', participant: { id: 'bob' } } });
  const third = peer.request('bob', 'ping');
  const anew = await heard();
  assert.equal(anew.payload.method, 'initialize', 'it has joined anew');
  answer(anew, { error: { code: -1, message: 'go away' } });
  await assert.rejects(third, /go away/);
});

test('a peer without handshake is asked at once, and gets the input it wants', async () => {
  const { world, peer, heard, answer } = await met();
  world.say({ id: 'j', from: 'system:gateway', kind: 'presence', payload: { event: 'join', participant: { id: 'mo', mcp: { version: '2026-07-28', versions: ['2026-07-28'] } } } });
  peer.serve({ 'elicitation/create': (params) => ({ action: 'accept', content: { asked: params.message } }) });
  const done = peer.request('mo', 'tools/call', { name: 'dig' });
  const first = await heard();
  assert.equal(first.payload.method, 'tools/call');
  assert.equal(first.payload.params._meta['io.modelcontextprotocol/protocolVersion'], '2026-07-28');
  answer(first, { result: { resultType: 'input_required', requestState: 's', inputRequests: { k: { method: 'elicitation/create', params: { message: 'where?' } } } } }, 'mo');
  const second = await heard();
  assert.deepEqual(second.payload.params.inputResponses, { k: { action: 'accept', content: { asked: 'where?' } } });
  assert.equal(second.payload.params.requestState, 's');
  answer(second, { result: { resultType: 'complete', content: [] } }, 'mo');
  assert.deepEqual((await done).content, []);
});

test('aborting says so to the other', async () => {
  const { peer, heard } = await met();
  const abort = new AbortController();
  const asked = peer.ask('bob', 'tools/call', { name: 'dig' }, { signal: abort.signal });
  const request = await heard();
  abort.abort(new Error('enough'));
  await assert.rejects(asked, /enough/);
  const cancel = await heard();
  assert.deepEqual([cancel.payload.method, cancel.payload.params.requestId, cancel.correlation_id], ['notifications/cancelled', request.payload.id, request.id]);
  assert.equal(peer.cancel(request.id), false);
});

test('a call that is given up before it was sent never is, and its callee hears nothing of it', async () => {
  const { world, peer, connection } = await met();
  const methods = () => world.socket.sent.splice(0).map(({ payload }) => payload.method);
  const give = async (/** @type {string} */ name) => {
    const abort = new AbortController();
    const asked = peer.ask('bob', 'tools/call', { name }, { signal: abort.signal });
    await settled();
    abort.abort(new Error('enough'));
    await assert.rejects(asked, /enough/);
  };
  world.say(outage);
  await give('while nothing can be stored');
  assert.equal(connection.waiting, 0);
  world.say(ready);
  assert.deepEqual(methods(), []);
  const note = connection.send({ id: 'm', payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  world.say({ ...outage, correlation_id: 'm', payload: { event: 'error', code: 'closing', message: 'not now' } });
  await give('behind what is held back');
  await world.ring();
  assert.deepEqual(methods(), ['notifications/x', 'notifications/x']);
  world.say({ id: 'm', from: 'alice', payload: { jsonrpc: '2.0', method: 'notifications/x' } });
  await note;
  await world.drop();
  await give('without a connection');
  const kept = peer.ask('bob', 'tools/call', { name: 'wanted' }, {});
  await world.ring();
  world.welcome();
  const [request] = world.socket.sent;
  assert.equal(request.payload.params.name, 'wanted');
  assert.deepEqual(methods(), ['tools/call']);
  world.echo(request);
  world.say({ id: 're', from: 'bob', to: ['alice'], correlation_id: request.id, payload: { jsonrpc: '2.0', id: request.payload.id, result: {} } });
  await kept;
});

test('a call that is given up after it was sent is not sent again, but taken back', async () => {
  const { world, peer, connection } = await met();
  const sent = () => world.socket.sent.splice(0);
  const methods = () => sent().map(({ payload }) => payload.method);
  const ask = async () => {
    const asked = peer.ask('bob', 'tools/call', { name: 'dig' }, {});
    await settled();
    const [{ id }] = sent();
    return { id, give: () => { assert.equal(peer.cancel(id), true); return assert.rejects(asked, /cancelled/); } };
  };
  const refuse = (id) => world.say({ ...outage, correlation_id: id, payload: { event: 'error', code: 'closing', message: 'not now' } });
  const call = await ask();
  world.say(outage);
  await call.give();
  assert.equal(connection.waiting, 2, 'it may have arrived');
  world.say(ready);
  const [cancellation] = sent();
  assert.deepEqual([cancellation.payload.method, cancellation.correlation_id], ['notifications/cancelled', call.id]);
  refuse(call.id);
  assert.equal(connection.waiting, 1);
  world.echo(cancellation);
  // Refused before it is given up.
  const second = await ask();
  refuse(second.id);
  await second.give();
  await world.ring();
  assert.deepEqual(methods(), ['notifications/cancelled']);
  assert.equal(connection.waiting, 1);
  // And over a reconnect, given up before it or meanwhile.
  const third = await ask();
  await third.give();
  sent();
  const fourth = await ask();
  await world.drop();
  await fourth.give();
  await world.ring();
  world.welcome();
  assert.deepEqual(methods(), ['notifications/cancelled', 'notifications/cancelled', 'notifications/cancelled']);
  assert.equal(connection.waiting, 3);
});

test('a passing refusal of what was sent again fails nothing that is stored', async () => {
  const { world, room, peer, heard, answer } = await met();
  const asked = peer.ask('bob', 'tools/call', { name: 'dig' }, {});
  world.say(outage);
  world.say(ready);
  assert.equal(world.socket.sent.length, 2, 'the same twice');
  const request = await heard();
  for (const code of ['closing', 'rate_limited']) {
    world.say({ ...outage, correlation_id: request.id, payload: { event: 'error', code, message: 'not now' } });
  }
  assert.equal(room.calls.get(request.id)?.state, 'running');
  answer(request, { result: { ok: true } });
  assert.deepEqual((await asked).payload.result, { ok: true });
  // A no for good is one, also to what is stored.
  const gone = peer.ask('bob', 'tools/call', { name: 'dig' }, {});
  const { id } = await heard();
  world.say({ ...outage, correlation_id: id, payload: { event: 'error', code: 'recipient_not_found', message: 'bob has left' } });
  await assert.rejects(gone, { code: 'recipient_not_found' });
});

test('requests to the person are answered with the very id they came with', async () => {
  const { world, peer, heard } = await met();
  peer.serve({ ask: (params, { from }) => ({ said: `${from} ${params.q}` }), fail: () => { throw new RpcError(-5, 'no', { a: 1 }); } });
  const ask = (id, method, rpc) => world.socket.onmessage({
    data: `{"protocol":"mcp-x/v0","id":"${id}","ts":"2025-08-17T14:00:00Z","from":"bob","to":["alice"],"kind":"mcp","payload":{"jsonrpc":"2.0","id":${rpc},"method":"${method}","params":{"q":"?"}}}`,
  });
  /** @type {string[]} */
  const texts = [];
  const { send } = world.socket;
  world.socket.send = (text) => { texts.push(text); send(text); };
  ask('q1', 'ask', '12345678901234567890');
  await heard();
  ask('q2', 'fail', '1.0');
  await heard();
  ask('q3', 'unknown', '"x"');
  await heard();
  assert.match(texts[0], /"correlation_id":"q1","payload":\{"jsonrpc":"2.0","id":12345678901234567890,"result":\{"said":"bob \?"\}\}/);
  assert.match(texts[1], /"id":1\.0,"error":\{"code":-5,"message":"no","data":\{"a":1\}\}/);
  assert.match(texts[2], /"id":"x","error":\{"code":-32601/);
});

test('a question that is cancelled, or answered in another tab, is withdrawn', async () => {
  const { world, peer } = await met();
  /** @type {AbortSignal[]} */
  const signals = [];
  peer.serve({ ask: (_, { signal }) => new Promise((__, reject) => { signals.push(signal); signal.addEventListener('abort', () => reject(signal.reason)); }) });
  const ask = (id) => world.say({ id, from: 'bob', to: ['alice'], payload: { jsonrpc: '2.0', id, method: 'ask' } });
  ask('q1');
  ask('q2');
  ask('q3');
  world.say({ id: 'c', from: 'bob', to: ['alice'], payload: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'q1' } } });
  world.say({ id: 'r', from: 'alice', to: ['bob'], correlation_id: 'q2', payload: { jsonrpc: '2.0', id: 'q2', result: {} } });
  await settled();
  assert.deepEqual(signals.map((signal) => signal.aborted), [true, true, false]);
  assert.deepEqual(world.socket.sent, [], 'nothing is answered');
});

test('a refusal that is no text, and input that is not named, end the call', async () => {
  const { peer, heard, answer } = await met();
  const asked = peer.ask('bob', 'tools/call', { name: 'dig' }, {});
  answer(await heard(), { error: { code: -1, message: { toString: 1 } } });
  await assert.rejects(asked, /an error without a message/);
  const again = peer.request('bob', 'tools/call', { name: 'dig' });
  answer(await heard(), { result: {} });
  await heard();
  answer(await heard(), { result: { resultType: 'input_required', requestState: 's' } });
  await assert.rejects(again, /does not say which/);
});

test('if one input fails the others are not asked any more', async () => {
  const { peer, heard, answer } = await met();
  /** @type {AbortSignal[]} */
  const signals = [];
  peer.serve({
    'elicitation/create': (_, { signal }) => new Promise(() => signals.push(signal)), 'sampling/createMessage': () => { throw new RpcError(-1, 'no'); }, other: () => ({}),
  });
  const asked = peer.request('bob', 'tools/call', { name: 'dig' });
  answer(await heard(), { result: {} });
  await heard();
  answer(await heard(), { result: { resultType: 'input_required', inputRequests: { a: { method: 'elicitation/create' }, b: { method: 'sampling/createMessage' } } } });
  await assert.rejects(asked, /no/);
  assert.deepEqual(signals.map((signal) => signal.aborted), [true]);
  const odd = peer.request('bob', 'tools/call', { name: 'dig' });
  answer(await heard(), { result: { resultType: 'input_required', inputRequests: { a: { method: 'other' } } } });
  await assert.rejects(odd, /does not know/);
});

test('open requests of the past are heard on arrival, but not those before a gap or of somebody gone', async () => {
  const world = new World();
  const room = new RoomModel({ topic: 'room:t', me: 'alice' });
  const connection = new Connection({ room, gateway: world.gateway, platform: world.platform });
  const peer = new Peer({ connection, room });
  /** @type {string[]} */
  const asked = [];
  peer.serve({ ask: (_, { envelope }) => new Promise(() => asked.push(envelope.id)) });
  connection.open();
  await settled();
  const ask = (id, from = 'bob', to = 'alice') => ({
    protocol: 'mcp-x/v0', id, ts: '2025-08-17T14:00:00Z', from, to: [to], kind: 'mcp', payload: { jsonrpc: '2.0', id, method: 'ask' },
  });
  world.welcome([ask('q1'), ask('q2', 'gone'), ask('q3', 'bob', 'carol'), ask('q4', 'alice', 'bob')]);
  await settled();
  assert.deepEqual(asked, ['q1']);
  world.say({ id: 'j', from: 'system:gateway', kind: 'presence', payload: { event: 'join', participant: { id: 'gone' } } });
  await settled();
  assert.deepEqual(asked, ['q1', 'q2'], 'who asked is back');
  await world.drop();
  await world.ring();
  world.welcome([], [{ id: 'alice' }, { id: 'bob' }, { id: 'gone' }]);
  await settled();
  assert.deepEqual(asked, ['q1', 'q2'], 'none is asked twice');
  world.lostIds.add('j');
  await world.drop();
  await world.ring();
  await world.drop();
  await world.ring();
  world.welcome([ask('q5')]);
  await settled();
  assert.deepEqual(asked, ['q1', 'q2', 'q5']);
});

// A room in memory for unit tests: a WebSocket for each who joins, and every envelope to all of them in one order, as the gateway does.
// Connections, peers and models are the page's own.

import { RoomModel } from '../../src/model/room.js';
import { Connection } from '../../src/net/connection.js';
import { Peer } from '../../src/net/peer.js';

export class Hall {
  constructor() {
    /** @type {Set<any>} */
    this.sockets = new Set();
    /** @type {string[]} every envelope, as it was written */
    this.log = [];
    this.said = 0;
    /** Whether who joins is told what was said before. */
    this.history = false;
  }

  /**
   * @param {string} id @param {object} [capabilities] @param {(with_: {room: RoomModel, peer: Peer}) => void} [before] what is done before it is in
   * @returns {Promise<{room: RoomModel, connection: Connection, peer: Peer}>} once it is in
   */
  async join(id, capabilities = {}, before = () => {}) {
    const room = new RoomModel({ topic: 'room:hall', me: id });
    const connection = new Connection({
      room, gateway: /** @type {any} */ ({ ticket: async () => 'ticket' }),
      platform: { socket: () => this.socket(id), now: () => 1_700_000_000_000, random: () => 0, later: () => 0, never: () => {} },
    });
    const peer = new Peer({ connection, room, capabilities });
    const live = new Promise((resolve) => {
      connection.subscribe(() => connection.state.name === 'live' && resolve(undefined));
    });
    before({ room, peer });
    connection.open();
    await live;
    return { room, connection, peer };
  }

  /** @param {string} id @returns {any} */
  socket(id) {
    const socket = { id, send: (/** @type {string} */ text) => this.publish(text), close: () => this.sockets.delete(socket) };
    queueMicrotask(() => {
      this.tell(socket, 'system', { event: 'welcome', participants: [...this.sockets].map((one) => ({ id: one.id })).concat({ id }), history: { recent: this.history ? this.log.map((text) => JSON.parse(text)) : [] } });
      if (![...this.sockets].some((one) => one.id === id)) this.presence('join', id);
      this.sockets.add(socket);
    });
    return socket;
  }

  /** @param {'join'|'leave'} event @param {string} id */
  presence(event, id) {
    for (const socket of this.sockets) this.tell(socket, 'presence', { event, participant: { id } });
  }

  /** @param {any} socket @param {string} kind @param {any} payload */
  tell(socket, kind, payload) {
    const envelope = { protocol: 'mcp-x/v0', id: `g${(this.said += 1)}`, ts: '2023-11-14T22:13:20Z', from: 'system:gateway', to: [], kind, payload };
    socket.onmessage({ data: JSON.stringify(envelope) });
  }

  /** @param {string} text */
  publish(text) {
    this.log.push(text);
    queueMicrotask(() => this.sockets.forEach((socket) => socket.onmessage({ data: text })));
  }
}

/**
 * Waits until something holds of what changes.
 * @param {{subscribe(fn: () => void): () => void}} changing @param {() => any} holds
 */
export async function until(changing, holds) {
  if (holds()) return;
  await new Promise((resolve) => {
    const end = changing.subscribe(() => {
      if (!holds()) return;
      end();
      resolve(undefined);
    });
  });
}

// JSON-RPC with the others in the room: asks them, and answers what they ask the person.

import { CHAT, CHAT_EDIT, CHAT_RETRACT, messageType } from '../model/envelope.js';
import { exactPayload } from '../model/exact.js';
import { Refused, newId, refusal } from './outbox.js';
import { RpcError, wordsOf } from './rpc.js';
import { Served, ignore } from './served.js';

/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').Handler} Handler */
/** @typedef {import('../model/types.js').Progress} Progress */
/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */

/**
 * @typedef {object} How
 * @property {(progress: Progress) => void} [onProgress]
 * @property {(id: string) => void} [onSend] told the id of the request before it is stored
 * @property {(request: Envelope) => void} [onEnvelope] told the request as soon as it is stored: its id is the call's
 * @property {AbortSignal} [signal] aborting sends `notifications/cancelled`
 * @property {string} [correlationId] what the request is made because of
 * @property {boolean} [exact] whether numbers in the result that JavaScript would round are `Exact`
 */
/**
 * @typedef {object} Asked
 * @property {string} to
 * @property {string} rpc
 * @property {(answer: Envelope) => void} resolve
 * @property {(reason: any) => void} reject
 * @property {How} how
 */

/** The revision that everybody takes, and those that begin with a handshake. */
const REVISION = '2025-06-18';
const WITH_HANDSHAKE = ['2025-06-18', '2025-11-25', '2025-03-26', '2024-11-05'];
const WITHOUT_HANDSHAKE = '2026-07-28';
/** How long somebody may take for the handshake. */
const HANDSHAKE_TIME = 15_000;
/** How often one call may come back for more input. */
const MAX_ROUNDS = 10;
const CLIENT = { name: 'salon-web', title: 'Salon in a browser', version: '1' };

export class Peer {
  /** @param {{connection: Connection, room: RoomModel, capabilities?: object}} with_ `capabilities`: what the person can be asked */
  constructor({ connection, room, capabilities = {} }) {
    this.connection = connection;
    this.room = room;
    this.capabilities = capabilities;
    /** @type {Map<string, Asked>} by the request envelope's id */
    this.open = new Map();
    /** @type {Map<string, {joins: number, done: Promise<any>}>} */
    this.met = new Map();
    /** What others ask the person. */
    this.served = new Served({ connection, room, notify: (...told) => this.notify(...told) });
    const ends = [
      connection.hear((envelope) => this.hear(envelope)), connection.lose(() => this.lost()),
    ];
    this.close = () => {
      ends.forEach((end) => end());
      this.served.close();
    };
  }

  /** Told of an answer that did not arrive. @param {((request: Envelope, body: any, why: string) => void)|null} fn */
  set unheard(fn) {
    this.served.unheard = fn;
  }

  /** Answers requests to the person, and hears notifications to them or to all; adds to what is served. @param {Record<string, Handler>} handlers */
  serve(handlers) {
    this.served.add(handlers);
  }

  /**
   * Sends a request, after the MCP handshake where there was none since the participant joined.
   * Rejects with `RpcError`, `Refused`, or the signal's reason.
   * @param {string} to @param {string} method @param {any} [params] @param {How} [how]
   * @returns {Promise<any>} the result
   */
  async request(to, method, params, how = {}) {
    const stateless = this.revisionOf(to) === WITHOUT_HANDSHAKE;
    if (!stateless) await this.meet(to);
    how.signal?.throwIfAborted();
    let given = params;
    for (let round = 0; ; round += 1) {
      const answer = await this.ask(to, method, stateless ? { ...given, _meta: this.introduction(given?._meta) } : given, how);
      const { result } = exactPayload(answer);
      if (result?.resultType !== 'input_required') return how.exact ? result : answer.payload.result;
      if (round >= MAX_ROUNDS) throw new RpcError(-32000, `${to} asks for input again and again`);
      given = { ...params, inputResponses: await this.served.inputs(answer, how) };
      if (result.requestState !== undefined) given.requestState = result.requestState;
    }
  }

  /**
   * @param {string|null} to null: everybody
   * @param {string} method @param {any} [params] @param {{correlationId?: string}} [how]
   * @returns {Promise<Envelope>}
   */
  notify(to, method, params, { correlationId } = {}) {
    return this.connection.send({ to: to === null ? [] : [to], correlationId, payload: { jsonrpc: '2.0', method, params } });
  }

  /**
   * Says something in the room.
   * @param {string} text @param {{format?: 'plain'|'markdown', to?: string[], correlationId?: string, content?: any[]}} [how] content: links to files
   * @returns {Promise<Envelope>}
   */
  say(text, { format = 'markdown', to = [], correlationId, content = [] } = {}) {
    const params = { text, format, ...(content.length > 0 ? { content } : {}) };
    return this.connection.send({ to, correlationId, payload: { jsonrpc: '2.0', method: CHAT, params } });
  }

  /**
   * Says something else in place of a message of the person's own.
   * @param {string} id @param {string} text @param {{format?: 'plain'|'markdown', to?: string[]}} [how] to: whom the message was addressed to
   */
  edit(id, text, { format = 'markdown', to = [] } = {}) {
    return this.connection.send({ to, correlationId: id, payload: { jsonrpc: '2.0', method: CHAT_EDIT, params: { text, format } } });
  }

  /** Takes a message of the person's own back. @param {string} id @param {string[]} [to] */
  retract(id, to = []) {
    return this.connection.send({ to, correlationId: id, payload: { jsonrpc: '2.0', method: CHAT_RETRACT, params: {} } });
  }

  /** Performs the MCP handshake, once for each time the other joined. @param {string} to @returns {Promise<any>} its `initialize` result */
  meet(to) {
    const joins = this.room.people.get(to)?.joins ?? 0;
    const known = this.met.get(to);
    if (known?.joins === joins) return known.done;
    const done = this.handshake(to);
    this.met.set(to, { joins, done });
    // A failed handshake is tried again the next time.
    done.catch(() => this.met.get(to)?.done === done && this.met.delete(to));
    return done;
  }

  /** Cancels a running call of ours. @param {string} id the request envelope's id @param {string} [reason] @returns {boolean} whether it was ours and open */
  cancel(id, reason = 'cancelled by the person') {
    const asked = this.open.get(id);
    if (!asked) return false;
    this.give(id, asked, new DOMException(reason, 'AbortError'));
    return true;
  }

  /** @param {string} to */
  async handshake(to) {
    const params = { protocolVersion: this.revisionOf(to), capabilities: this.capabilities, clientInfo: CLIENT };
    const slow = new AbortController();
    const timer = setTimeout(() => slow.abort(new RpcError(-32000, `${to} does not answer the handshake`)), HANDSHAKE_TIME);
    try {
      const answer = await this.ask(to, 'initialize', params, { signal: slow.signal });
      await this.notify(to, 'notifications/initialized');
      return answer.payload.result;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} to @param {string} method @param {any} params @param {How} how @returns {Promise<Envelope>} the answer */
  ask(to, method, params, how) {
    const id = newId();
    // Unique among the tabs of one person, and a string, so that no reader of JSON changes it.
    const rpc = `w-${id.slice(0, 12)}`;
    const meta = method === 'initialize' ? params?._meta : { ...params?._meta, progressToken: rpc };
    const payload = { jsonrpc: '2.0', id: rpc, method, params: meta ? { ...params, _meta: meta } : params };
    return new Promise((resolve, reject) => {
      /** @type {Asked} */
      const asked = { to, rpc, resolve, reject, how };
      this.open.set(id, asked);
      how.onSend?.(id);
      how.signal?.addEventListener('abort', () => {
        if (this.open.get(id) === asked) this.give(id, asked, how.signal?.reason);
      }, { once: true });
      this.connection.send({ id, to: [to], correlationId: how.correlationId, payload }).then(how.onEnvelope, (reason) => {
        this.open.delete(id);
        reject(reason);
      });
    });
  }

  /** Gives a call up, and says so to whom it may have reached. @param {string} id @param {Asked} asked @param {any} reason */
  give(id, asked, reason) {
    this.open.delete(id);
    asked.reject(reason);
    if (!this.connection.withdraw(id)) return;
    const params = { requestId: asked.rpc, reason: String(reason?.message ?? reason ?? 'cancelled') };
    this.notify(asked.to, 'notifications/cancelled', params, { correlationId: id }).catch(ignore);
  }

  /** @param {Envelope} envelope */
  hear(envelope) {
    if (envelope.kind === 'presence' && envelope.payload?.event === 'join') this.served.lookAgain();
    if (envelope.kind === 'system') {
      if (envelope.payload?.event === 'error') this.end(envelope.correlationId, (asked) => asked.reject(refusal(envelope)));
      return;
    }
    switch (messageType(envelope)) {
      case 'request':
        if (envelope.to.includes(this.room.me)) void this.served.answer(envelope);
        break;
      case 'response':
        this.answered(envelope);
        break;
      case 'notification':
        this.notified(envelope);
        break;
      default:
    }
  }

  /** @param {Envelope} envelope */
  answered(envelope) {
    // Another tab of the same person was faster.
    if (envelope.from === this.room.me) this.served.stop(envelope.correlationId, 'answered elsewhere');
    if (this.open.get(envelope.correlationId ?? '')?.to !== envelope.from) return;
    const { error } = envelope.payload;
    this.end(envelope.correlationId, ({ resolve, reject }) => {
      if (error === undefined) resolve(envelope);
      else reject(new RpcError(error?.code ?? -32603, wordsOf(error?.message) ?? 'an error without a message', error?.data));
    });
  }

  /** @param {Envelope} envelope */
  notified(envelope) {
    const { method, params } = envelope.payload;
    if (method === 'notifications/progress') {
      const asked = this.open.get(envelope.correlationId ?? '')
        ?? [...this.open.values()].find(({ rpc }) => rpc === params?.progressToken);
      if (asked?.to !== envelope.from || typeof params?.progress !== 'number') return;
      asked.how.onProgress?.({ done: params.progress, total: params.total, message: params.message });
    } else if (method === 'notifications/cancelled') {
      this.served.cancelled(envelope);
    } else {
      this.served.notified(envelope);
    }
  }

  /** Answers that were missed for good will not come any more. */
  lost() {
    this.met.clear();
    for (const id of [...this.open.keys()]) {
      if (this.connection.outbox.has(id)) continue;
      this.end(id, ({ reject }) => reject(new Refused('recipient_not_found', 'The answer was missed while the connection was away.')));
    }
    this.served.stopAll('the connection was lost');
  }

  /** @param {string|undefined} id @param {(asked: Asked) => void} how */
  end(id, how) {
    const asked = this.open.get(id ?? '');
    if (!asked) return;
    this.open.delete(id ?? '');
    how(asked);
  }

  /** The revision to speak with somebody. @param {string} id */
  revisionOf(id) {
    const mcp = this.room.people.get(id)?.mcp;
    const known = [mcp?.version, ...(Array.isArray(mcp?.versions) ? mcp.versions : [])];
    const spoken = known.find((version) => version !== undefined && WITH_HANDSHAKE.includes(version));
    return spoken ?? (known.includes(WITHOUT_HANDSHAKE) ? WITHOUT_HANDSHAKE : REVISION);
  }

  /** What every request says where there is no handshake. @param {any} meta */
  introduction(meta) {
    const prefix = 'io.modelcontextprotocol/';
    return {
      ...meta, [`${prefix}protocolVersion`]: WITHOUT_HANDSHAKE, [`${prefix}clientInfo`]: CLIENT,
      [`${prefix}clientCapabilities`]: this.capabilities,
    };
  }
}

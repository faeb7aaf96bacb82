// JSON-RPC with the others in the room: asks them, and answers what they ask the person.

import { CHAT, messageType } from '../model/envelope.js';
import { exactPayload } from '../model/exact.js';
import { RawJson, at as rawAt } from '../model/raw.js';
import { Refused, newId, refusal } from './connection.js';

/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').Handler} Handler */
/** @typedef {import('../model/types.js').Progress} Progress */
/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */

/**
 * @typedef {object} How
 * @property {(progress: Progress) => void} [onProgress]
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
/** @typedef {{from: string, rpc: string, abort: AbortController}} Serving */

/** The revision that everybody takes, and those that begin with a handshake. */
const REVISION = '2025-06-18';
const WITH_HANDSHAKE = ['2025-06-18', '2025-11-25', '2025-03-26', '2024-11-05'];
const WITHOUT_HANDSHAKE = '2026-07-28';
/** How long somebody may take for the handshake. */
const HANDSHAKE_TIME = 15_000;
/** How often one call may come back for more input. */
const MAX_ROUNDS = 10;
/** How many requests to the person may be open. */
const MAX_SERVED = 100;
/** How much a call may want to know at once, and what it may ask for. */
const MAX_INPUTS = 16;
const INPUTS = ['elicitation/create', 'sampling/createMessage', 'roots/list'];
const CLIENT = { name: 'salon-web', title: 'Salon in a browser', version: '1' };

/** A JSON-RPC error: rejects `request` when the other answers with one; thrown by a handler, it is the answer. */
export class RpcError extends Error {
  /** @param {number|string} code @param {string} message @param {any} [data] */
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export class Peer {
  /** @param {{connection: Connection, room: RoomModel, capabilities?: object}} with_ `capabilities`: what the person can be asked */
  constructor({ connection, room, capabilities = {} }) {
    this.connection = connection;
    this.room = room;
    this.capabilities = capabilities;
    /** @type {Map<string, Asked>} by the request envelope's id */
    this.open = new Map();
    /** @type {Map<string, Serving>} by the request envelope's id */
    this.serving = new Map();
    /** @type {Map<string, {joins: number, done: Promise<any>}>} */
    this.met = new Map();
    /** @type {Set<string>} requests whose answer is on its way */
    this.replying = new Set();
    /** @type {Map<string, Handler>} by method: what is answered */
    this.requests = new Map();
    /** @type {Map<string, Handler>} by method: what is only heard */
    this.notifications = new Map();
    /** @type {((request: Envelope, body: any, why: string) => void) | null} told of an answer that did not arrive */
    this.unheard = null;
    /** Which folding of the room was looked through for open requests. */
    this.caughtUp = -1;
    const ends = [
      connection.hear((envelope) => this.hear(envelope)), connection.lose(() => this.lost()),
      connection.subscribe(() => this.connected()), room.subscribe(() => this.roomChanged()),
    ];
    this.close = () => {
      ends.forEach((end) => end());
      for (const id of [...this.serving.keys()]) this.stop(id, 'the room was left');
    };
  }

  /** Answers requests to the person, and hears notifications to them or to all; adds to what is served. @param {Record<string, Handler>} handlers */
  serve(handlers) {
    for (const [method, handler] of Object.entries(handlers)) (isNotification(method) ? this.notifications : this.requests).set(method, handler);
  }

  roomChanged() {
    // Nobody waits for an answer any more: it was given, the question was taken back, or it was told that the person had left.
    for (const id of [...this.serving.keys()]) {
      if ((this.room.calls.get(id)?.state ?? 'running') !== 'running') this.stop(id, 'nobody waits for the answer');
    }
    this.catchUp();
  }

  /** Called with every change of the connection. */
  connected() {
    if (!this.connection.stands) this.caughtUp = -1;
    else this.catchUp();
  }

  /**
   * Requests to the person that were made before this page was opened and wait for an answer are heard now. Another tab may have them
   * too: the first answer counts. Looked for on arrival, when older envelopes were loaded, and when somebody who may have asked comes back.
   */
  catchUp() {
    const { room } = this;
    if (!this.connection.stands || this.caughtUp === room.folds) return;
    this.caughtUp = room.folds;
    const open = [...room.pairing.open.values()].filter(({ callee, caller }) => callee === room.me && room.people.get(caller)?.present);
    if (open.length === 0 || room.gapPending) return;
    const before = beforeLastGap(room);
    for (const { request } of open) if (!before.has(request.id)) void this.answer(request);
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
      given = { ...params, inputResponses: await this.inputs(answer, how) };
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
   * @param {string} text @param {{format?: 'plain'|'markdown', to?: string[], correlationId?: string}} [how]
   * @returns {Promise<Envelope>}
   */
  say(text, { format = 'markdown', to = [], correlationId } = {}) {
    return this.connection.send({ to, correlationId, payload: { jsonrpc: '2.0', method: CHAT, params: { text, format } } });
  }

  /** Shakes hands, once for each time the other joined. @param {string} to @returns {Promise<any>} its `initialize` result */
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
    if (envelope.kind === 'presence' && envelope.payload?.event === 'join') {
      this.caughtUp = -1;
      this.catchUp();
    }
    if (envelope.kind === 'system') {
      if (envelope.payload?.event === 'error') this.end(envelope.correlationId, (asked) => asked.reject(refusal(envelope)));
      return;
    }
    switch (messageType(envelope)) {
      case 'request':
        if (envelope.to.includes(this.room.me)) void this.answer(envelope);
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
    if (envelope.from === this.room.me) this.stop(envelope.correlationId, 'answered elsewhere');
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
      const rpc = rawAt(envelope.raw, ['payload', 'params', 'requestId']);
      for (const [id, served] of this.serving) {
        if (served.from !== envelope.from) continue;
        if (id === envelope.correlationId || served.rpc === rpc) this.stop(id, wordsOf(params?.reason) ?? 'cancelled');
      }
    } else if (envelope.from !== this.room.me && (envelope.to.length === 0 || envelope.to.includes(this.room.me))) {
      const context = { from: envelope.from, envelope, signal: new AbortController().signal, progress: ignore };
      const handler = this.notifications.get(method);
      if (handler) Promise.resolve().then(() => handler(params ?? {}, context)).catch(ignore);
    }
  }

  /** Answers a request to the person. @param {Envelope} envelope */
  async answer(envelope) {
    const { id, from, raw } = envelope;
    if (this.serving.has(id) || this.replying.has(id)) return;
    const rpc = rawAt(raw, ['payload', 'id']) ?? 'null';
    const { method, params } = exactPayload(envelope);
    const reply = (/** @type {object} */ body) => {
      this.replying.add(id);
      return this.connection.send({ to: [from], correlationId: id, payload: { jsonrpc: '2.0', id: new RawJson(rpc), ...body } })
        .catch((reason) => {
          // Another tab was faster, which is as good.
          if (reason instanceof Refused && reason.code !== 'correlation_mismatch') this.unheard?.(envelope, body, reason.message);
        }).finally(() => this.replying.delete(id));
    };
    const handler = this.requests.get(method);
    if (!handler) {
      await reply({ error: { code: -32601, message: `a person in a browser does not know ${method}` } });
      return;
    }
    if (this.serving.size >= MAX_SERVED) {
      await reply({ error: { code: -32000, message: 'too many questions are open' } });
      return;
    }
    const abort = new AbortController();
    this.serving.set(id, { from, rpc, abort });
    const token = rawAt(raw, ['payload', 'params', '_meta', 'progressToken']);
    const progress = (/** @type {number} */ done, /** @type {number|undefined} */ total, /** @type {string|undefined} */ message) => {
      if (token === undefined || abort.signal.aborted) return;
      const told = { progressToken: new RawJson(token), progress: done, total, message };
      this.notify(from, 'notifications/progress', told, { correlationId: id }).catch(ignore);
    };
    let body;
    try {
      body = { result: await handler(params ?? {}, { from, envelope, signal: abort.signal, progress }) ?? {} };
    } catch (error) {
      body = { error: asError(error) };
    }
    this.serving.delete(id);
    if (!abort.signal.aborted) await reply(body);
  }

  /** @param {string|undefined} id @param {string} why */
  stop(id, why) {
    const served = this.serving.get(id ?? '');
    if (!served) return;
    this.serving.delete(id ?? '');
    served.abort.abort(new DOMException(why, 'AbortError'));
  }

  /** Answers that were missed for good will not come any more. */
  lost() {
    this.met.clear();
    for (const id of [...this.open.keys()]) {
      if (this.connection.outbox.has(id)) continue;
      this.end(id, ({ reject }) => reject(new Refused('recipient_not_found', 'The answer was missed while the connection was away.')));
    }
    for (const id of [...this.serving.keys()]) this.stop(id, 'the connection was lost');
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

  /** Puts to the person what a call wants to know before it goes on. @param {Envelope} answer @param {How} how */
  async inputs(answer, how) {
    const { from } = answer;
    const wanted = Object.entries(exactPayload(answer).result?.inputRequests ?? {});
    // Without this it could have a call that was confirmed once made again and again.
    if (wanted.length === 0) throw new RpcError(-32000, `${from} asks for input and does not say which`);
    if (wanted.length > MAX_INPUTS) throw new RpcError(-32000, `${from} asks for too much at once`);
    // If one fails the others are not asked any more.
    const abort = new AbortController();
    const given = () => abort.abort(how.signal?.reason);
    how.signal?.addEventListener('abort', given);
    try {
      return Object.fromEntries(await Promise.all(wanted.map(async ([key, each]) => {
        const handler = INPUTS.includes(each?.method) ? this.requests.get(each.method) : undefined;
        if (!handler) throw new RpcError(-32601, `${from} asks for something that a person in a browser does not know`);
        return [key, await handler(each.params ?? {}, { from, envelope: answer, signal: abort.signal, progress: ignore })];
      })));
    } catch (error) {
      abort.abort(error);
      throw error;
    } finally {
      how.signal?.removeEventListener('abort', given);
    }
  }
}

/** Whether what stands before a gap was answered in it, nobody knows. @param {RoomModel} room @returns {Set<string>} */
function beforeLastGap({ gaps, envelopes }) {
  if (gaps.size === 0) return new Set();
  const ids = [...envelopes.keys()];
  const last = ids.findLastIndex((id) => gaps.has(id));
  return new Set(ids.slice(0, Math.max(0, last)));
}

/** @param {string} method */
const isNotification = (method) => method.startsWith('notifications/');

/** What a stranger says, if it is words: anything else could do what it likes when made into some. @param {unknown} value */
const wordsOf = (value) => (typeof value === 'string' ? value : undefined);

/** @param {unknown} error */
function asError(error) {
  if (!(error instanceof RpcError)) return { code: -32603, message: error instanceof Error ? error.message : String(error) };
  const { code, message, data } = error;
  return data === undefined ? { code, message } : { code, message, data };
}

function ignore() {}

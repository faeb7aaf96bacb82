// What others ask the person, or tell them: requests are answered by handlers, once, whichever tab of the person is faster.

import { exactPayload } from '../model/exact.js';
import { RawJson, at as rawAt } from '../model/raw.js';
import { Refused } from './outbox.js';
import { RpcError, asError, wordsOf } from './rpc.js';

/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').Handler} Handler */
/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./peer.js').Peer} Peer */
/** @typedef {import('./peer.js').How} How */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */
/** @typedef {{from: string, rpc: string, abort: AbortController}} Serving */

/** How many requests to the person may be open. */
const MAX_SERVED = 100;
/** How much a call may want to know at once, and what it may ask for. */
const MAX_INPUTS = 16;
const INPUTS = ['elicitation/create', 'sampling/createMessage', 'roots/list'];

export class Served {
  /** @param {{connection: Connection, room: RoomModel, notify: Peer['notify']}} with_ */
  constructor({ connection, room, notify }) {
    this.connection = connection;
    this.room = room;
    this.notify = notify;
    /** @type {Map<string, Serving>} by the request envelope's id */
    this.serving = new Map();
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
    this.ends = [connection.subscribe(() => this.connected()), room.subscribe(() => this.roomChanged())];
  }

  close() {
    this.ends.forEach((end) => end());
    this.stopAll('the room was left');
  }

  /** @param {string} why */
  stopAll(why) {
    for (const id of [...this.serving.keys()]) this.stop(id, why);
  }

  /** Answers requests to the person, and hears notifications to them or to all; adds to what is served. @param {Record<string, Handler>} handlers */
  add(handlers) {
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

  /** Somebody who may have asked something before is here again. */
  lookAgain() {
    this.caughtUp = -1;
    this.catchUp();
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

  /** Somebody takes a request back. @param {Envelope} envelope */
  cancelled(envelope) {
    const { params } = envelope.payload;
    const rpc = rawAt(envelope.raw, ['payload', 'params', 'requestId']);
    for (const [id, served] of this.serving) {
      if (served.from !== envelope.from) continue;
      if (id === envelope.correlationId || served.rpc === rpc) this.stop(id, wordsOf(params?.reason) ?? 'cancelled');
    }
  }

  /** Somebody tells the person, or everybody, something. @param {Envelope} envelope */
  notified(envelope) {
    const { method, params } = envelope.payload;
    if (envelope.from === this.room.me || (envelope.to.length > 0 && !envelope.to.includes(this.room.me))) return;
    const context = { from: envelope.from, envelope, signal: new AbortController().signal, progress: ignore };
    const handler = this.notifications.get(method);
    if (handler) Promise.resolve().then(() => handler(params ?? {}, context)).catch(ignore);
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

export function ignore() {}

// What was handed to the gateway and has no echo yet, in its order. It outlasts a connection: the same bytes are sent again.

import { CHAT } from '../model/envelope.js';
import { stringify } from '../model/raw.js';

/** @typedef {import('../model/types.js').Draft} Draft */
/** @typedef {import('../model/types.js').Envelope} Envelope */

/** How many may wait for their echo. */
const MAX_WAITING = 200;

/** The gateway's refusal of something that was sent. `code` is from the table in docs/protocols/mcpx.md. */
export class Refused extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * @typedef {object} Waiting
 * @property {string} text
 * @property {boolean} isSent it may have arrived
 * @property {boolean} isUnderWay this connection will tell what has become of it
 * @property {boolean} isWithdrawn it is under way, and must not be sent again
 * @property {boolean} isHeld it waits for somebody's approval: sent again, it is held once
 * @property {(envelope: Envelope) => void} resolve
 * @property {(reason: Error) => void} reject
 */

export class Outbox {
  constructor() {
    /** @type {Map<string, Waiting>} by the envelope's id, in order */
    this.all = new Map();
  }

  /** @param {string} id */
  has(id) {
    return this.all.has(id);
  }

  /** @param {string|undefined} id */
  get(id) {
    return id === undefined ? undefined : this.all.get(id);
  }

  /** Why nothing more can be taken, or not this. @param {string} id @returns {Refused|null} */
  problemWith(id) {
    if (this.all.has(id)) return new Refused('id_conflict', 'This is being sent already.');
    return this.all.size >= MAX_WAITING ? new Refused('rate_limited', 'Too much waits to be sent.') : null;
  }

  /** Settled by the echo. @param {string} id @param {string} text @returns {{waiting: Waiting, echo: Promise<Envelope>}} */
  add(id, text) {
    /** @type {Waiting} */
    const waiting = { text, isSent: false, isUnderWay: false, isWithdrawn: false, isHeld: false, resolve: () => {}, reject: () => {} };
    const echo = /** @type {Promise<Envelope>} */ (new Promise((resolve, reject) => { Object.assign(waiting, { resolve, reject }); }));
    this.all.set(id, waiting);
    return { waiting, echo };
  }

  /** How many have no echo yet, and are not held for approval. */
  get count() {
    return [...this.all.values()].filter(({ isHeld }) => !isHeld).length;
  }

  /** The chat among them, oldest first. @returns {{id: string, text: string, isSent: boolean}[]} */
  chat() {
    const chat = [...this.all].map(([id, { text, isSent }]) => ({ id, isSent, payload: JSON.parse(text).payload }));
    return chat.filter(({ payload }) => payload?.method === CHAT).map(({ id, isSent, payload }) => ({ id, isSent, text: String(payload.params?.text ?? '') }));
  }

  /** What is to be sent, or sent again. @returns {Waiting[]} */
  toSend() {
    return [...this.all.values()].filter(({ isWithdrawn }) => !isWithdrawn);
  }

  /** @param {string} id of what has its echo, or was refused */
  settled(id) {
    this.all.delete(id);
  }

  /** @param {string} id @returns {boolean} whether it may have arrived */
  withdraw(id) {
    const waiting = this.all.get(id);
    if (!waiting) return true;
    waiting.isWithdrawn = true;
    if (!waiting.isUnderWay) this.forget(id, waiting);
    return waiting.isSent;
  }

  /** The connection is gone: nothing tells what becomes of what is under way. */
  interrupted() {
    for (const [id, waiting] of this.all) {
      waiting.isUnderWay = false;
      if (waiting.isWithdrawn) this.forget(id, waiting);
    }
  }

  /** Keeps no more what was withdrawn. If it has arrived after all, it comes like anything else. @param {string} id @param {Waiting} waiting */
  forget(id, waiting) {
    this.all.delete(id);
    waiting.reject(new DOMException('withdrawn', 'AbortError'));
  }

  /** @param {Refused} reason why none of it will be sent */
  rejectAll(reason) {
    const waiting = [...this.all.values()];
    this.all.clear();
    for (const each of waiting) each.reject(reason);
  }
}

/** @param {Envelope} envelope */
export function refusal(envelope) {
  return new Refused(String(envelope.payload.code), String(envelope.payload.message));
}

/** 128 random bits. Not `randomUUID`, which pages served over plain HTTP do not have. */
export function newId() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return [...random].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {string} id @param {string} from @param {number} now @param {Draft} draft */
export function written(id, from, now, { to, correlationId, payload, payloadText }) {
  const head = stringify({
    protocol: 'mcp-x/v0', id, ts: new Date(now).toISOString(), from, to: to ?? [], kind: 'mcp', correlation_id: correlationId,
  });
  return `${head.slice(0, -1)},"payload":${payloadText ?? stringify(payload)}}`;
}

/** @param {string} text */
export function bytes(text) {
  return new TextEncoder().encode(text).length;
}

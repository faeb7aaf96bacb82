// A seat in the room: a WebSocket that resumes where it was, and comes back by itself.

import { CHAT, isStored, readEnvelope, readList } from '../model/envelope.js';
import { stringify } from '../model/raw.js';
import { HttpProblem } from './session.js';
import { Watched } from '../model/watched.js';

/** @typedef {import('../model/types.js').Draft} Draft */
/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').ConnectionState} ConnectionState */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */
/** @typedef {import('./session.js').Gateway} Gateway */

/**
 * What the connection needs of its surroundings, so that tests can be those.
 * @typedef {object} Platform
 * @property {(url: string) => WebSocket} socket
 * @property {() => number} now
 * @property {() => number} random from 0 to 1
 * @property {(fn: () => void, ms: number) => any} later
 * @property {(timer: any) => void} never
 */

/** How many envelopes the first welcome brings. */
const FIRST_PAGE = 100;
/** How many may wait for their echo. */
const MAX_WAITING = 200;
/** How many heartbeats may fail to come before the gateway is gone. */
const MISSED = 2.5;
/** How often they come from a gateway that does not say. */
const USUAL_BEAT = 30_000;
/** The longest that a timer takes. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** How long connecting may take. */
const PATIENCE = 15_000;
const FIRST_WAIT = 500;
/** How long to hold back what the gateway cannot store at the moment, unless it says before that it can again. */
const WAIT_OUT = 1000;
const LONGEST_WAIT = 30_000;
/** A connection that lasted this long was a good one: the delay starts over. */
const GOOD = 5000;

/** What close codes mean to a person. Whether one is signed out for good, the next ticket tells. */
const WHY = new Map([[1001, 'The gateway is restarting.'], [4401, 'The sign-in has ended.']]);

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
 * @property {(envelope: Envelope) => void} resolve
 * @property {(reason: Error) => void} reject
 */

/** Statuses of a ticket's refusal that do not pass. */
const FINAL = new Set([400, 403, 404, 422]);

/** The refusals that are no no for good. */
const PASSING = ['closing', 'rate_limited'];

export class Connection extends Watched {
  /** @param {{room: RoomModel, gateway: Gateway, platform?: Platform}} with_ */
  constructor({ room, gateway, platform = browser() }) {
    super();
    this.room = room;
    this.gateway = gateway;
    this.platform = platform;
    /** @type {ConnectionState} */
    this.state = { name: 'connecting', since: platform.now() };
    /** How many attempts failed since the last good connection. */
    this.failures = 0;
    /** @type {string|null} the last stored envelope, after which to resume */
    this.last = null;
    /** @type {Map<string, Waiting>} what has no echo yet, in order */
    this.outbox = new Map();
    /** @type {WebSocket|null} */
    this.socket = null;
    /** @type {any} */
    this.timer = null;
    /** @type {any} when to send again what the gateway could not store */
    this.again = null;
    /** Told apart from attempts that were given up. */
    this.attempt = 0;
    /** @type {number|null} how long the gateway may say nothing; null where it need not say anything */
    this.silence = null;
    /** @type {Set<(envelope: Envelope) => void>} */
    this.hearers = new Set();
    /** @type {Set<() => void>} */
    this.losers = new Set();
  }

  /** Every envelope that comes now, after the room has it. @param {(envelope: Envelope) => void} fn @returns {() => void} */
  hear(fn) {
    this.hearers.add(fn);
    return () => this.hearers.delete(fn);
  }

  /** Called when something was missed for good, or the connection has ended for good. @param {() => void} fn @returns {() => void} */
  lose(fn) {
    this.losers.add(fn);
    return () => this.losers.delete(fn);
  }

  /** Whether there is a connection, whatever the gateway can do at the moment. */
  get stands() {
    return this.state.name === 'live' || this.state.name === 'stalled';
  }

  /** How many envelopes have no echo yet. */
  get waiting() {
    return this.outbox.size;
  }

  /** The chat that has no echo yet, oldest first. @returns {{id: string, text: string, isSent: boolean}[]} */
  unsent() {
    const chat = [...this.outbox].map(([id, { text, isSent }]) => ({ id, isSent, payload: JSON.parse(text).payload }));
    return chat.filter(({ payload }) => payload?.method === CHAT).map(({ id, isSent, payload }) => ({ id, isSent, text: String(payload.params?.text ?? '') }));
  }

  /** Begins; also after signing in again. */
  open() {
    this.failures = 0;
    void this.connect();
  }

  /** Tries at once instead of waiting. */
  tryNow() {
    if (!this.stands && this.state.name !== 'connecting') this.open();
  }

  /** Ends it for good. */
  close() {
    // 1000 says that the person leaves. Without a code, or by a reload, the gateway keeps their seat for a moment.
    this.drop(1000);
    this.become({ name: 'closed' });
    this.lost(new Refused('closing', 'The room was left.'));
  }

  /**
   * Settled by the echo, rejected with `Refused`. Kept over a reconnect: the same bytes are sent again.
   * @param {Draft} draft
   * @returns {Promise<Envelope>}
   */
  send(draft) {
    const id = draft.id ?? newId();
    if (this.outbox.has(id)) return Promise.reject(new Refused('id_conflict', 'This is being sent already.'));
    if (this.outbox.size >= MAX_WAITING) return Promise.reject(new Refused('rate_limited', 'Too much waits to be sent.'));
    if (this.state.name === 'closed') return Promise.reject(new Refused('closing', 'The room was left.'));
    const text = written(id, this.room.me, this.platform.now(), draft);
    if (this.room.longest !== undefined && bytes(text) > this.room.longest) {
      return Promise.reject(new Refused('too_large', `This is longer than the ${this.room.longest} bytes that the gateway takes.`));
    }
    return new Promise((resolve, reject) => {
      /** @type {Waiting} */
      const waiting = { text, isSent: false, isUnderWay: false, isWithdrawn: false, resolve, reject };
      this.outbox.set(id, waiting);
      // Nothing overtakes what is held back.
      if (this.state.name === 'live' && this.again === null) this.put(waiting);
      this.changed();
    });
  }

  /**
   * Sends no more, or not again, what was handed to `send` and has no echo yet: a message that was reported as failed must not be
   * carried out later.
   * @param {string} id @returns {boolean} whether it may have arrived
   */
  withdraw(id) {
    const waiting = this.outbox.get(id);
    if (!waiting) return true;
    waiting.isWithdrawn = true;
    if (!waiting.isUnderWay) this.forget(id, waiting);
    this.changed();
    return waiting.isSent;
  }

  /** Keeps no more what was withdrawn. If it has arrived after all, it comes like anything else. @param {string} id @param {Waiting} waiting */
  forget(id, waiting) {
    this.outbox.delete(id);
    waiting.reject(new DOMException('withdrawn', 'AbortError'));
  }

  async connect() {
    this.drop();
    const attempt = this.attempt;
    this.become({ name: 'connecting' });
    let ticket;
    try {
      ticket = await this.gateway.ticket(this.room.topic);
    } catch (problem) {
      if (attempt === this.attempt) this.denied(problem);
      return;
    }
    if (attempt !== this.attempt) return;
    const query = new URLSearchParams({ topic: this.room.topic, ticket, share: 'true', grace: 'true', kind: 'human' });
    if (this.last === null) query.set('history', String(FIRST_PAGE));
    else query.set('after', this.last);
    this.listen(this.platform.socket(`v0/ws?${query}`), attempt);
  }

  /** @param {WebSocket} socket @param {number} attempt */
  listen(socket, attempt) {
    this.socket = socket;
    this.alarm(PATIENCE, 'The gateway does not answer.');
    socket.onmessage = (event) => {
      if (attempt !== this.attempt) return;
      // Whatever comes before the welcome, that is still waited for.
      if (this.stands) this.guard();
      if (typeof event.data === 'string') this.frame(event.data);
    };
    socket.onclose = (event) => {
      if (attempt === this.attempt) void this.closed(event.code);
    };
  }

  /** @param {string} text */
  frame(text) {
    const envelope = readEnvelope(text, { topic: this.room.topic, heard: this.platform.now() });
    if (!envelope) return;
    if (envelope.kind === 'system' && envelope.payload?.event === 'welcome') {
      this.welcomed(envelope);
      return;
    }
    if (envelope.kind === 'system' && envelope.correlationId === undefined && this.howItIs(envelope.payload)) return;
    if (isStored(envelope)) this.last = envelope.id;
    const known = this.room.envelopes.has(envelope.id);
    const about = envelope.kind === 'system' ? envelope.correlationId : envelope.id;
    const waiting = about === undefined ? undefined : this.outbox.get(about);
    if (envelope.kind === 'system' && about !== undefined && PASSING.includes(envelope.payload?.code)) {
      // It was sent twice, and the other one is stored: its echo was heard.
      if (!waiting) return;
      if (envelope.payload.code === 'closing' && !waiting.isWithdrawn) {
        waiting.isUnderWay = false;
        this.holdBack();
        return;
      }
    }
    if (waiting && about !== undefined) this.outbox.delete(about);
    this.room.apply(envelope);
    if (waiting && envelope.kind === 'system') waiting.reject(refusal(envelope));
    else waiting?.resolve(envelope);
    if (!known) for (const fn of this.hearers) fn(envelope);
    if (waiting) this.changed();
  }

  /** What the gateway says of itself; false where it is about something else. @param {any} payload */
  howItIs(payload) {
    if (payload.event === 'error' && payload.code === 'closing' && payload.details?.passing === true) {
      this.become({ name: 'stalled', why: 'The gateway cannot store anything at the moment; it will go on by itself.' });
      return true;
    }
    if (payload.event !== 'ready') return false;
    if (this.state.name === 'stalled') this.goOn();
    return true;
  }

  /** Something was not stored because nothing can be. It is kept, and sent again when something can, or by the next connection. */
  holdBack() {
    this.again ??= this.platform.later(() => {
      this.again = null;
      if (this.state.name === 'live') this.sendAgain();
    }, WAIT_OUT);
  }

  /** What was sent before may have arrived; the same bytes again are taken for the same. */
  sendAgain() {
    this.platform.never(this.again);
    this.again = null;
    for (const waiting of this.outbox.values()) if (!waiting.isWithdrawn) this.put(waiting);
  }

  /** @param {Waiting} waiting */
  put(waiting) {
    waiting.isSent = true;
    waiting.isUnderWay = true;
    this.socket?.send(waiting.text);
  }

  /** Something can be stored now. A listener may send something, which comes after what waits. */
  goOn() {
    this.set({ name: 'live' });
    this.sendAgain();
    this.changed();
  }

  /** @param {Envelope} envelope */
  welcomed(envelope) {
    const { room } = this;
    const you = envelope.payload.participant?.id;
    if (you !== undefined && you !== room.me) {
      // The cookie is one for all tabs, and in another one somebody else has signed in.
      this.drop();
      this.become({ name: 'another', why: 'This browser is signed in as somebody else now.' });
      this.lost(new Refused('unauthorized', 'This browser is signed in as somebody else now.'));
      return;
    }
    const beat = envelope.payload.heartbeat_ms ?? USUAL_BEAT;
    this.silence = beat > 0 ? Math.min(beat * MISSED, LONGEST_TIMER) : null;
    this.guard();
    const recent = readList(envelope.raw, ['payload', 'history', 'recent'], room.topic);
    room.welcome(envelope.payload);
    for (const each of recent) {
      room.apply(each, { history: true });
      this.last = each.id;
    }
    if (room.envelopes.size === 0) room.prepend([], true);
    this.goOn();
  }

  /** @param {number} code */
  async closed(code) {
    const { state } = this;
    this.drop();
    if (code === 4409) {
      this.become({ name: 'replaced', why: 'Another connection of yours has taken this seat.' });
      return;
    }
    if (state.name === 'live' || state.name === 'stalled') {
      if (this.platform.now() - state.since >= GOOD) this.failures = 0;
      this.wait(WHY.get(code) ?? 'The connection was lost.');
      return;
    }
    // A browser is not told why it was turned away. Perhaps the envelope to resume after is gone.
    const turned = this.attempt;
    if (this.last !== null && !(await this.isKept(this.last)) && turned === this.attempt) {
      this.last = null;
      this.room.gap();
      this.lost(null);
    }
    if (turned === this.attempt) this.wait('The gateway does not let this page in at the moment.');
  }

  /** Whether the topic's log still has an envelope; true where that cannot be found out. @param {string} id */
  async isKept(id) {
    try {
      await this.gateway.history(this.room.topic, { after: id, limit: 1 });
      return true;
    } catch (problem) {
      return !(problem instanceof HttpProblem && problem.status === 404);
    }
  }

  /** @param {unknown} problem */
  denied(problem) {
    if (!(problem instanceof HttpProblem)) {
      this.wait('Something went wrong.');
    } else if (problem.status === 401) {
      this.become({ name: 'signed-out', why: 'You are signed out.' });
    } else if (FINAL.has(problem.status)) {
      // Trying again would change nothing: the room may not be entered, or there can be none of that name.
      this.become({ name: 'closed', why: problem.message });
      this.lost(new Refused(problem.code, problem.message));
    } else {
      this.wait(problem.message, (problem.retryAfter ?? 0) * 1000);
    }
  }

  /** @param {string} why @param {number} [least] */
  wait(why, least = 0) {
    this.drop();
    const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(this.failures, 10));
    // A thousand pages return at once after a restart: not all at the same time.
    const ms = Math.max(least, longest * (0.5 + this.platform.random() / 2));
    this.failures += 1;
    this.become({ name: 'waiting', why, retryAt: this.platform.now() + ms });
    this.timer = this.platform.later(() => void this.connect(), ms);
  }

  /** @param {number} ms @param {string} why */
  alarm(ms, why) {
    this.platform.never(this.timer);
    this.timer = this.platform.later(() => this.wait(why), ms);
  }

  /** Something came: from here on the gateway may be silent for a while, or for ever where it sends no heartbeats. */
  guard() {
    if (this.silence === null) this.platform.never(this.timer);
    else this.alarm(this.silence, 'The gateway has gone silent.');
  }

  /** Gives the present attempt up. @param {number} [code] */
  drop(code) {
    this.attempt += 1;
    this.platform.never(this.timer);
    this.platform.never(this.again);
    this.again = null;
    const { socket } = this;
    this.socket = null;
    if (socket) socket.close(code);
    for (const [id, waiting] of this.outbox) {
      waiting.isUnderWay = false;
      if (waiting.isWithdrawn) this.forget(id, waiting);
    }
  }

  /** @param {Refused|null} reason also for what waits to be sent; null: that will still be sent */
  lost(reason) {
    for (const fn of this.losers) fn();
    if (!reason) return;
    const waiting = [...this.outbox.values()];
    this.outbox.clear();
    for (const each of waiting) each.reject(reason);
  }

  /** @param {Omit<ConnectionState, 'since'>} state */
  become(state) {
    this.set(state);
    this.changed();
  }

  /** @param {Omit<ConnectionState, 'since'>} state */
  set(state) {
    this.state = { ...state, since: this.platform.now() };
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
function written(id, from, now, { to, correlationId, payload, payloadText }) {
  const head = stringify({
    protocol: 'mcp-x/v0', id, ts: new Date(now).toISOString(), from, to: to ?? [], kind: 'mcp', correlation_id: correlationId,
  });
  return `${head.slice(0, -1)},"payload":${payloadText ?? stringify(payload)}}`;
}

/** @param {string} text */
function bytes(text) {
  return new TextEncoder().encode(text).length;
}

/** @returns {Platform} */
function browser() {
  return {
    socket: (path) => new WebSocket(new URL(path, document.baseURI.replace(/^http/, 'ws'))),
    now: () => Date.now(),
    random: () => Math.random(),
    later: (fn, ms) => setTimeout(fn, ms),
    never: (timer) => clearTimeout(timer),
  };
}

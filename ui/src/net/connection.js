// A seat in the room: a WebSocket that resumes where it was, and comes back by itself.

import { isStored, readEnvelope, readList } from '../model/envelope.js';
import { Watched } from '../model/watched.js';
import { Outbox, Refused, bytes, newId, refusal, written } from './outbox.js';
import { browser } from './platform.js';
import { HttpProblem } from './session.js';

/** @typedef {import('../model/types.js').Draft} Draft */
/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {import('../model/types.js').ConnectionState} ConnectionState */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */
/** @typedef {import('./outbox.js').Waiting} Waiting */
/** @typedef {import('./platform.js').Platform} Platform */
/** @typedef {import('./session.js').Gateway} Gateway */

/** How many envelopes the first welcome brings. */
const FIRST_PAGE = 100;
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
    this.outbox = new Outbox();
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

  /** How many envelopes have no echo yet, and are not held for approval. */
  get waiting() {
    return this.outbox.count;
  }

  /** The chat that has no echo yet, oldest first. */
  unsent() {
    return this.outbox.chat();
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
    const problem = this.outbox.problemWith(id);
    if (problem) return Promise.reject(problem);
    if (this.state.name === 'closed') return Promise.reject(new Refused('closing', 'The room was left.'));
    const text = written(id, this.room.me, this.platform.now(), draft);
    if (this.room.longest !== undefined && bytes(text) > this.room.longest) {
      return Promise.reject(new Refused('too_large', `This is longer than the ${this.room.longest} bytes that the gateway takes.`));
    }
    const { waiting, echo } = this.outbox.add(id, text);
    // Nothing overtakes what is held back.
    if (this.state.name === 'live' && this.again === null) this.put(waiting);
    this.changed();
    return echo;
  }

  /**
   * Sends no more, or not again, what was handed to `send` and has no echo yet: a message that was reported as failed must not be
   * carried out later.
   * @param {string} id @returns {boolean} whether it may have arrived
   */
  withdraw(id) {
    const isSent = this.outbox.withdraw(id);
    this.changed();
    return isSent;
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
    if (envelope.kind === 'system' && envelope.correlationId !== undefined && envelope.payload?.event !== 'error') {
      this.told(envelope.correlationId, envelope.payload?.event);
      return;
    }
    if (isStored(envelope)) this.last = envelope.id;
    const known = this.room.envelopes.has(envelope.id);
    const about = envelope.kind === 'system' ? envelope.correlationId : envelope.id;
    const waiting = this.outbox.get(about);
    if (envelope.kind === 'system' && about !== undefined && PASSING.includes(envelope.payload?.code)) {
      // It was sent twice, and the other one is stored: its echo was heard.
      if (!waiting) return;
      if (envelope.payload.code === 'closing' && !waiting.isWithdrawn) {
        waiting.isUnderWay = false;
        this.holdBack();
        return;
      }
    }
    if (waiting && about !== undefined) this.outbox.settled(about);
    this.room.apply(envelope);
    if (waiting && envelope.kind === 'system') waiting.reject(refusal(envelope));
    else waiting?.resolve(envelope);
    if (!known) for (const fn of this.hearers) fn(envelope);
    if (waiting) this.changed();
  }

  /** What the gateway says of something that was sent, and is no refusal of it. @param {string} id @param {unknown} event */
  told(id, event) {
    const waiting = this.outbox.get(id);
    if (!waiting || event !== 'held') return;
    waiting.isHeld = true;
    this.changed();
  }

  /** Whether something that was sent waits for approval. @param {string} id */
  isHeld(id) {
    return this.outbox.get(id)?.isHeld === true;
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
    for (const waiting of this.outbox.toSend()) this.put(waiting);
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
    if (code === 4403) {
      this.denied(new HttpProblem(403, 'forbidden', 'somebody removed you, or it admits members only now.'));
      return;
    }
    if (code === 4404) {
      // To come back would make the topic again.
      this.denied(new HttpProblem(404, 'not_found', 'This room was deleted.'));
      return;
    }
    if (state.name === 'live' || state.name === 'stalled') {
      if (this.platform.now() - state.since >= GOOD) this.failures = 0;
      this.wait(WHY.get(code) ?? 'The connection was lost.');
      return;
    }
    // A browser is not told why it was turned away. Perhaps the person may not enter any more, or the envelope to resume after is gone.
    const turned = this.attempt;
    const problem = await this.problemOf();
    if (turned !== this.attempt) return;
    if (problem?.status === 403) {
      this.denied(problem);
      return;
    }
    if (this.last !== null && problem?.status === 404) {
      this.last = null;
      this.room.gap();
      this.lost(null);
    }
    this.wait('The gateway does not let this page in at the moment.');
  }

  /** Why the log cannot be read on from where the page is: 404 where that is not kept any more. @returns {Promise<HttpProblem|undefined>} */
  async problemOf() {
    try {
      await this.gateway.history(this.room.topic, { ...(this.last === null ? {} : { after: this.last }), limit: 1 });
      return undefined;
    } catch (problem) {
      return problem instanceof HttpProblem ? problem : undefined;
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
      this.become({ name: 'closed', why: problem.status === 403 ? `You may not enter this room: ${problem.message}` : problem.message });
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
    this.outbox.interrupted();
  }

  /** @param {Refused|null} reason also for what waits to be sent; null: that will still be sent */
  lost(reason) {
    for (const fn of this.losers) fn();
    if (reason) this.outbox.rejectAll(reason);
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

// The rows of a room: envelopes folded into what a person reads, oldest first. Pure: no DOM, no network, no clock.

import { Calls, isPreparation } from './calls.js';
import { Control, endsCallsOf, isCancelled, isControlTool } from './control.js';
import { CHAT, CHAT_EDIT, CHAT_RETRACT, GATEWAY, chatText, messageType, repliesTo } from './envelope.js';
import { introduced } from './people.js';
import { dayKey } from './text.js';
import { Watched } from './watched.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./types.js').Person} Person */

/** How many envelopes one folded row takes. */
const MAX_FOLDED = 500;

export class RoomRows extends Watched {
  constructor() {
    super();
    /** @type {Item[]} */
    this.items = [];
    /** @type {Map<string, Person>} */
    this.people = new Map();
    introduced(this.people, { id: GATEWAY, name: 'gateway', kind: 'gateway' });
    /** @type {Map<string, Envelope>} oldest first */
    this.envelopes = new Map();
    this.pairing = new Calls();
    this.control = new Control();
    /** @type {Map<string, Item>} the row that an envelope is in */
    this.rows = new Map();
    /** @type {Set<string>} envelopes before which something is missing */
    this.gaps = new Set();
    /** Number of full folds; between them `items` only grows at its end. */
    this.folds = 0;
    this.lastDay = '';
  }

  /** @returns {Map<string, Call>} by the request envelope's id */
  get calls() {
    return this.pairing.all;
  }

  /** The row that shows an envelope. @param {string} envelopeId @returns {Item|undefined} */
  itemOf(envelopeId) {
    return this.rows.get(envelopeId);
  }

  /** Puts older envelopes, oldest first, before all others; they are folded next time. @param {Envelope[]} older */
  putBefore(older) {
    this.envelopes = new Map([...older.map((each) => /** @type {const} */ ([each.id, each])), ...this.envelopes]);
  }

  /** Folds everything again. */
  foldAll() {
    this.folds += 1;
    this.items = [];
    this.rows = new Map();
    this.pairing = new Calls();
    this.control.restart();
    this.lastDay = '';
    for (const envelope of this.envelopes.values()) this.fold(envelope);
  }

  /** Puts an envelope into a row. @param {Envelope} envelope @returns {Item|null} the row, where it is a row of its own */
  fold(envelope) {
    if (this.gaps.has(envelope.id)) this.push({ type: 'gap', id: `gap:${envelope.id}`, rev: 0 });
    if (envelope.kind === 'presence') return this.foldPresence(envelope);
    introduced(this.people, { id: envelope.from });
    switch (messageType(envelope)) {
      case 'request':
        return this.foldRequest(envelope);
      case 'response':
        return this.foldAbout(envelope, this.pairing.answer(envelope));
      case 'notification':
        return this.foldNotification(envelope);
      default:
        return this.place(envelope, { type: 'notice', id: envelope.id, rev: 0, envelope });
    }
  }

  /** @param {Envelope} envelope @returns {Item|null} */
  foldPresence(envelope) {
    const { event, participant } = envelope.payload;
    if (event !== 'join' && event !== 'leave') return null;
    introduced(this.people, participant);
    if (event === 'leave') {
      for (const call of this.pairing.left(participant?.id, envelope)) this.touch(call);
      this.endHolds(({ caller }) => caller === participant?.id);
    }
    const item = this.quiet('presence', envelope);
    if (item?.type !== 'presence') {
      return this.place(envelope, { type: 'presence', id: envelope.id, rev: 0, envelopes: [envelope] });
    }
    item.envelopes.push(envelope);
    return this.into(item, envelope);
  }

  /** @param {Envelope} envelope @returns {Item} */
  foldRequest(envelope) {
    const call = this.pairing.ask(envelope);
    this.endHolds(({ id }) => id === call.id, 'approved');
    const isQuiet = isPreparation(call.method) || (call.callee === GATEWAY && isControlTool(call.tool ?? ''));
    if (!isQuiet) return this.place(envelope, { type: 'call', id: call.id, rev: 0, call });
    const item = this.foldHandshake(envelope);
    if (item.type === 'handshake') item.calls.push(call);
    return item;
  }

  /** @param {Envelope} envelope @returns {Item} */
  foldHandshake(envelope) {
    const item = this.quiet('handshake', envelope);
    if (item?.type !== 'handshake') {
      return this.place(envelope, { type: 'handshake', id: envelope.id, rev: 0, calls: [], envelopes: [envelope] });
    }
    item.envelopes.push(envelope);
    return this.into(item, envelope);
  }

  /** @param {Envelope} envelope @returns {Item|null} */
  foldNotification(envelope) {
    const { method } = envelope.payload;
    if (method === CHAT && chatText(envelope) !== null) {
      const thread = this.threadOf(repliesTo(envelope));
      return this.place(envelope, { type: 'chat', id: envelope.id, rev: 0, envelope, ...(thread === undefined ? {} : { thread }) });
    }
    if (method === CHAT_EDIT || method === CHAT_RETRACT) return this.foldRevision(envelope);
    if (isPreparation(method)) return this.foldHandshake(envelope);
    const told = this.control.notice(envelope);
    if (told) return this.foldControl(envelope, told);
    return this.foldAbout(envelope, this.pairing.notice(envelope));
  }

  /** What its author makes of a message goes into the message's row. @param {Envelope} envelope @returns {Item|null} */
  foldRevision(envelope) {
    const original = this.envelopes.get(envelope.correlationId ?? '');
    const row = original && this.rows.get(original.id);
    if (!row || original.from !== envelope.from) return this.place(envelope, { type: 'notice', id: envelope.id, rev: 0, envelope });
    if (envelope.payload.method === CHAT_RETRACT) original.retracted = envelope;
    else if (typeof envelope.payload.params?.text === 'string') original.edited = envelope;
    this.into(row, envelope);
    return null;
  }

  /** @param {Envelope} envelope @param {NonNullable<ReturnType<Control['notice']>>} told @returns {Item|null} */
  foldControl(envelope, told) {
    if ('settings' in told) {
      this.endHolds(({ caller }) => endsCallsOf(told.settings, told.before, caller));
      return this.place(envelope, { type: 'control', id: envelope.id, rev: 0, envelope, before: told.before });
    }
    const { approval } = told;
    const row = approval.notice === envelope.id ? undefined : this.rows.get(approval.notice);
    if (!row) return this.place(envelope, { type: 'approval', id: envelope.id, rev: 0, envelope, approval });
    this.into(row, envelope);
    return null;
  }

  /** @param {(approval: import('./control.js').Approval) => boolean} concerns @param {'approved'|'ended'} [state] */
  endHolds(concerns, state = 'ended') {
    for (const { notice } of this.control.end(concerns, state)) {
      const row = this.rows.get(notice);
      if (row) row.rev += 1;
    }
  }

  /** What belongs to a call goes into its row; the rest is a row of its own. @param {Envelope} envelope @param {Call|undefined} call */
  foldAbout(envelope, call) {
    if (!call && envelope.payload.method === 'notifications/cancelled') this.endHolds((approval) => isCancelled(approval, envelope));
    const row = call && this.rows.get(call.id);
    if (!row) return this.place(envelope, { type: 'notice', id: envelope.id, rev: 0, envelope });
    if (row.type === 'handshake') row.envelopes.push(envelope);
    this.into(row, envelope);
    return null;
  }

  /** The message that a thread begins with. @param {string|undefined} about @returns {string|undefined} */
  threadOf(about) {
    if (about === undefined) return undefined;
    const row = this.rows.get(about);
    return row?.type === 'chat' ? row.thread ?? row.id : about;
  }

  /**
   * The row that folds more of its type, if nothing worth reading came since.
   * @param {'presence'|'handshake'} type @param {Envelope} envelope
   */
  quiet(type, envelope) {
    if (dayKey(envelope.at) !== this.lastDay) return undefined;
    for (let at = this.items.length - 1; at >= 0; at -= 1) {
      const item = this.items[at];
      if (item.type !== 'presence' && item.type !== 'handshake') return undefined;
      if (item.type === type) return item.envelopes.length < MAX_FOLDED ? item : undefined;
    }
    return undefined;
  }

  /** A new row at the end, under its day. @template {Item} T @param {Envelope} envelope @param {T} item @returns {T} */
  place(envelope, item) {
    const day = dayKey(envelope.at);
    if (day !== this.lastDay) this.push({ type: 'day', id: `day:${day}:${envelope.id}`, rev: 0, at: envelope.at });
    this.lastDay = day;
    this.rows.set(envelope.id, item);
    this.push(item);
    return item;
  }

  /** @param {Item} item */
  push(item) {
    this.items.push(item);
  }

  /** @param {Item} item @param {Envelope} envelope @returns {Item} */
  into(item, envelope) {
    this.rows.set(envelope.id, item);
    item.rev += 1;
    return item;
  }

  /** @param {Call|undefined} call */
  touch(call) {
    const row = call && this.rows.get(call.id);
    if (row) row.rev += 1;
  }
}

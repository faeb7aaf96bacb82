// The room as a person sees it: envelopes folded into rows. Pure: no DOM, no network, no clock.

import { Calls, isPreparation } from './calls.js';
import { CHAT, GATEWAY, chatText, isStored, messageType, repliesTo } from './envelope.js';
import { introduced, present, welcomed } from './people.js';
import { dayKey, mentions } from './text.js';
import { Watched } from './watched.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./types.js').Person} Person */

/** How many envelopes are kept while the person reads along. */
const MAX_KEPT = 20_000;
/** How many the person may have loaded by scrolling up. */
const MAX_LOADED = 50_000;
/** How many characters of envelopes are kept. */
const MAX_CHARS = 64 * 1024 * 1024;
/** How many envelopes one folded row takes. */
const MAX_FOLDED = 500;
/** How many refusals are remembered. */
const MAX_REFUSALS = 1000;

/** The room. Views read its fields and never write them. */
export class RoomModel extends Watched {
  /** @param {{topic: string, me: string}} of */
  constructor({ topic, me }) {
    super();
    this.topic = topic;
    this.me = me;
    /** @type {Item[]} */
    this.items = [];
    /** @type {Map<string, Person>} */
    this.people = new Map();
    introduced(this.people, { id: GATEWAY, name: 'gateway', kind: 'gateway' });
    /** @type {Map<string, Envelope>} oldest first */
    this.envelopes = new Map();
    /** How many rows worth reading came since the person last looked. */
    this.unread = 0;
    /** How many of them name the person. */
    this.mentions = 0;
    /** @type {string|null} the item before which the marker of new messages stands */
    this.unreadFrom = null;
    /** Whether the oldest envelope that is kept is here. */
    this.complete = false;
    /** Whether pages of the past can be had. */
    this.history = true;
    /** The longest envelope that the gateway takes, in bytes. @type {number|undefined} */
    this.longest = undefined;
    /** @type {any} the newest welcome */
    this.welcomed = null;
    /** Whether the person is looking at the newest row. */
    this.attending = true;
    this.pairing = new Calls();
    /** @type {Map<string, Item>} the row that an envelope is in */
    this.rows = new Map();
    /** @type {Map<string, Envelope>} by what was refused; not in any history, so kept for the next full fold */
    this.refusals = new Map();
    /** @type {Set<string>} envelopes before which something is missing */
    this.gaps = new Set();
    this.gapPending = false;
    this.chars = 0;
    /** Number of full folds; between them `items` only grows at its end. */
    this.folds = 0;
    this.lastDay = '';
  }

  /** @returns {Map<string, Call>} by the request envelope's id */
  get calls() {
    return this.pairing.all;
  }

  /** What the gateway says on arrival. @param {any} payload */
  welcome(payload) {
    this.welcomed = payload;
    this.history = payload?.history?.enabled !== false;
    this.longest = payload?.limits?.message;
    // The others, and the one who is welcomed.
    welcomed(this.people, [payload?.participants, payload?.participant].flat());
    this.changed();
  }

  /** The next envelope; `history` if it is from before the welcome. @param {Envelope} envelope @param {{history?: boolean}} [how] */
  apply(envelope, { history = false } = {}) {
    if (envelope.kind === 'system') {
      this.refused(envelope);
      return;
    }
    if (!isStored(envelope) || this.envelopes.has(envelope.id)) return;
    if (this.gapPending) this.gaps.add(envelope.id);
    this.gapPending = false;
    this.envelopes.set(envelope.id, envelope);
    this.chars += envelope.raw.length;
    if (!history && envelope.kind === 'presence') present(this.people, envelope);
    const item = this.fold(envelope);
    if (item && !history) this.count(item, envelope);
    this.trim();
    this.changed();
  }

  /** Puts older envelopes, oldest first, before all others. @param {Envelope[]} envelopes @param {boolean} complete whether there are none older */
  prepend(envelopes, complete) {
    const older = envelopes.filter((envelope) => isStored(envelope) && !this.envelopes.has(envelope.id));
    this.complete = complete;
    this.chars += older.reduce((sum, envelope) => sum + envelope.raw.length, 0);
    this.envelopes = new Map([...older.map((each) => /** @type {const} */ ([each.id, each])), ...this.envelopes]);
    this.refold();
    this.changed();
  }

  /** Something between the last envelope and the next is not to be had any more. */
  gap() {
    this.gapPending = this.envelopes.size > 0;
  }

  /** Whether the person looks at the newest row. What comes while it does not is unread. @param {boolean} attending */
  attend(attending) {
    if (attending === this.attending && !(attending && this.unread > 0)) return;
    // The marker stays where it is while the person reads on from there, and goes when it turns away again.
    if (!attending) this.unreadFrom = null;
    this.attending = attending;
    if (attending) {
      this.unread = 0;
      this.mentions = 0;
    }
    this.changed();
  }

  /** The person has dealt with everything: no marker any more. */
  read() {
    if (this.unreadFrom === null && this.unread === 0) return;
    this.unread = 0;
    this.mentions = 0;
    this.unreadFrom = null;
    this.changed();
  }

  /** The oldest envelope here, before which older ones are asked for. @returns {string|undefined} */
  oldest() {
    return this.envelopes.keys().next().value;
  }

  /** When the oldest envelope here was sent. */
  get since() {
    return this.envelopes.values().next().value?.at ?? Infinity;
  }

  /** The row that shows an envelope. @param {string} envelopeId @returns {Item|undefined} */
  itemOf(envelopeId) {
    return this.rows.get(envelopeId);
  }

  /** Whether no more of the past is taken. */
  get isFull() {
    return this.envelopes.size >= MAX_LOADED || this.chars >= MAX_CHARS;
  }

  /** @param {Item} item @param {Envelope} envelope */
  count(item, envelope) {
    if (this.attending || envelope.from === this.me) return;
    if (item.type !== 'chat' && item.type !== 'call' && item.type !== 'notice') return;
    if (item.id !== envelope.id) return;
    this.unread += 1;
    if (this.namesMe(envelope)) this.mentions += 1;
    this.unreadFrom ??= item.id;
  }

  /** Whether a chat message is meant for the person. @param {Envelope} envelope */
  namesMe(envelope) {
    const text = chatText(envelope);
    if (text === null || envelope.from === this.me) return false;
    const name = this.people.get(this.me)?.name;
    return envelope.to.includes(this.me) || mentions(text, this.me) || (name !== undefined && mentions(text, name));
  }

  /** @param {Envelope} envelope */
  refused(envelope) {
    if (envelope.payload?.event !== 'error') return;
    if (envelope.correlationId !== undefined && this.envelopes.has(envelope.correlationId)) {
      this.refusals.set(envelope.correlationId, envelope);
      if (this.refusals.size > MAX_REFUSALS) this.refusals.delete(this.refusals.keys().next().value ?? '');
      this.touch(this.pairing.refuse(envelope));
    } else if (envelope.payload.code === 'not_found') {
      this.gap();
    }
    this.changed();
  }

  refold() {
    this.folds += 1;
    this.items = [];
    this.rows = new Map();
    this.pairing = new Calls();
    this.lastDay = '';
    for (const envelope of this.envelopes.values()) this.fold(envelope);
    for (const refusal of this.refusals.values()) this.touch(this.pairing.refuse(refusal));
  }

  trim() {
    const most = this.attending ? MAX_KEPT : MAX_LOADED;
    // A full fold costs something, so not for every single envelope.
    if (this.envelopes.size <= most * 1.1 && this.chars <= MAX_CHARS * 1.1) return;
    for (const [id, envelope] of this.envelopes) {
      if (this.envelopes.size <= most && this.chars <= MAX_CHARS) break;
      this.envelopes.delete(id);
      this.gaps.delete(id);
      this.refusals.delete(id);
      this.chars -= envelope.raw.length;
    }
    this.complete = false;
    this.refold();
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
    if (event === 'leave') for (const call of this.pairing.left(participant?.id, envelope)) this.touch(call);
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
    if (!isPreparation(call.method)) return this.place(envelope, { type: 'call', id: call.id, rev: 0, call });
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
    if (isPreparation(method)) return this.foldHandshake(envelope);
    return this.foldAbout(envelope, this.pairing.notice(envelope));
  }

  /** What belongs to a call goes into its row; the rest is a row of its own. @param {Envelope} envelope @param {Call|undefined} call */
  foldAbout(envelope, call) {
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

// The room as a person sees it: what was said there, who is there, what is unread. Pure: no DOM, no network, no clock.

import { GATEWAY, REDACTED, chatText, isStored, readEnvelope } from './envelope.js';
import { occupied, present, welcomed } from './people.js';
import { RoomRows } from './rows.js';
import { mentions } from './text.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Item} Item */

/** How many envelopes are kept while the person reads along. */
const MAX_KEPT = 20_000;
/** How many the person may have loaded by scrolling up. */
const MAX_LOADED = 50_000;
/** How many characters of envelopes are kept. */
const MAX_CHARS = 64 * 1024 * 1024;
/** How many refusals are remembered. */
const MAX_REFUSALS = 1000;

/** The room. Views read its fields and never write them. */
export class RoomModel extends RoomRows {
  /** @param {{topic: string, me: string}} of */
  constructor({ topic, me }) {
    super();
    this.topic = topic;
    this.me = me;
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
    /** @type {Map<string, Envelope>} by what was refused; not in any history, so kept for the next full fold */
    this.refusals = new Map();
    this.gapPending = false;
    this.chars = 0;
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
    if (!history && envelope.kind === 'presence' && envelope.payload?.event === 'status') {
      occupied(this.people, envelope);
      this.changed();
    }
    if (!isStored(envelope) || this.envelopes.has(envelope.id)) return;
    if (this.gapPending) this.gaps.add(envelope.id);
    this.gapPending = false;
    this.envelopes.set(envelope.id, envelope);
    this.chars += envelope.raw.length;
    if (!history && envelope.kind === 'presence') present(this.people, envelope);
    const item = this.fold(envelope);
    if (envelope.from === GATEWAY && envelope.payload?.method === REDACTED) this.redact(envelope.payload.params?.messages);
    if (item && !history) this.count(item, envelope);
    this.trim();
    this.changed();
  }

  /** Puts older envelopes, oldest first, before all others. @param {Envelope[]} envelopes @param {boolean} complete whether there are none older */
  prepend(envelopes, complete) {
    const older = envelopes.filter((envelope) => isStored(envelope) && !this.envelopes.has(envelope.id));
    this.complete = complete;
    this.chars += older.reduce((sum, envelope) => sum + envelope.raw.length, 0);
    this.putBefore(older);
    this.refold();
    // A whole log without a notice of them has no settings: retention keeps the newest.
    if (complete && !this.control.settings) this.control.learn({ version: 0 });
    this.changed();
  }

  /** A moderator has removed the text of messages: nothing of it is kept here. @param {unknown} messages */
  redact(messages) {
    if (!Array.isArray(messages)) return;
    for (const { id, tombstone } of messages) {
      const known = this.envelopes.get(id);
      const instead = known && typeof tombstone === 'string' ? readEnvelope(tombstone, { topic: this.topic, heard: known.heard }) : null;
      if (instead && instead.id === id) this.envelopes.set(id, instead);
    }
    this.refold();
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

  /** Whether no more of the past is taken. */
  get isFull() {
    return this.envelopes.size >= MAX_LOADED || this.chars >= MAX_CHARS;
  }

  /** @param {Item} item @param {Envelope} envelope */
  count(item, envelope) {
    if (this.attending || envelope.from === this.me) return;
    if (item.type !== 'chat' && item.type !== 'call' && item.type !== 'notice' && item.type !== 'approval') return;
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
    this.foldAll();
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
}

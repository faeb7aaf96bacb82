// Reads envelopes out of the text they came in. Pure.

import { elements, members } from './raw.js';

/** @typedef {import('./types.js').Envelope} Envelope */

export const GATEWAY = 'system:gateway';
export const CHAT = 'notifications/chat/message';
/** By these the author of a chat message changes it or takes it back; `correlation_id` names it. */
export const CHAT_EDIT = 'notifications/chat/edit';
export const CHAT_RETRACT = 'notifications/chat/retract';
/** By this the gateway says that a moderator has removed the text of messages. */
export const REDACTED = 'notifications/message/redacted';

/**
 * An envelope, or null where the text is not one.
 * @param {string} raw @param {{topic: string, heard?: number}} where
 * @returns {Envelope|null}
 */
export function readEnvelope(raw, { topic, heard }) {
  let value;
  try {
    value = JSON.parse(raw);
  } catch {
    return null;
  }
  if (!value || typeof value.id !== 'string' || typeof value.from !== 'string') return null;
  if (value.kind !== 'mcp' && value.kind !== 'presence' && value.kind !== 'system') return null;
  const to = Array.isArray(value.to) ? value.to.filter((/** @type {any} */ id) => typeof id === 'string') : [];
  const ts = typeof value.ts === 'string' ? value.ts : '';
  const at = Date.parse(ts);
  /** @type {Envelope} */
  const envelope = {
    id: value.id, ts, topic, from: value.from, to, kind: value.kind, payload: value.payload ?? {}, raw,
    at: Number.isFinite(at) ? at : heard ?? 0,
  };
  if (typeof value.correlation_id === 'string') envelope.correlationId = value.correlation_id;
  if (typeof value.reply_to === 'string') envelope.replyTo = value.reply_to;
  // Only the gateway writes it.
  if (typeof value.redacted?.by === 'string') envelope.redacted = value.redacted;
  if (heard !== undefined) envelope.heard = heard;
  return envelope;
}

/**
 * The envelopes of a list within a JSON text, each with its own bytes; other items are left out.
 * @param {string} raw a JSON object @param {string[]} path the names that lead to the list @param {string} topic
 * @returns {Envelope[]}
 */
export function readList(raw, path, topic) {
  let text = raw;
  for (const name of path) {
    const next = members(text).get(name);
    if (next === undefined) return [];
    text = next;
  }
  return elements(text).flatMap((each) => readEnvelope(each, { topic }) ?? []);
}

/**
 * What a JSON-RPC payload is.
 * @param {Envelope} envelope
 * @returns {'request'|'notification'|'response'|null}
 */
export function messageType(envelope) {
  const payload = envelope.payload;
  if (envelope.kind !== 'mcp' || !payload || typeof payload !== 'object') return null;
  if (typeof payload.method === 'string') return payload.id === undefined ? 'notification' : 'request';
  return 'result' in payload || 'error' in payload ? 'response' : null;
}

/** A chat message's text as it is now, or null for another envelope. @param {Envelope} envelope @returns {string|null} */
export function chatText(envelope) {
  if (envelope.kind !== 'mcp' || envelope.payload?.method !== CHAT) return null;
  if (envelope.retracted) return '(taken back)';
  const text = (envelope.edited ?? envelope).payload.params?.text;
  return typeof text === 'string' ? text : null;
}

/** Whether a chat message is to be read as Markdown. @param {Envelope} envelope */
export function isMarkdown(envelope) {
  return (envelope.edited ?? envelope).payload?.params?.format === 'markdown';
}

/** Whether somebody may change a message: it is their own, and still says something. @param {Envelope} envelope @param {string} me */
export function isOwn(envelope, me) {
  return envelope.from === me && chatText(envelope) !== null && !envelope.retracted && !envelope.redacted;
}

/** The envelope that this one replies to. @param {Envelope} envelope */
export function repliesTo(envelope) {
  return envelope.correlationId ?? envelope.replyTo;
}

/** Whether the topic's log has it, so that one can resume after it. @param {Envelope} envelope */
export function isStored(envelope) {
  return envelope.kind === 'mcp' || (envelope.kind === 'presence' && envelope.payload?.event !== 'heartbeat' && envelope.payload?.event !== 'status');
}

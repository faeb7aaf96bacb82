// Who replied to what, and which call was made because of which. Pure.

import { CHAT, chatText, isMarkdown, repliesTo } from './envelope.js';
import { clip } from './text.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./types.js').ChatItem} ChatItem */
/** @typedef {import('./room.js').RoomModel} RoomModel */

/**
 * @typedef {object} Threads
 * @property {Map<string, ChatItem[]>} replies the chat that answers an envelope, oldest first
 * @property {Map<string, number>} counts how many replies an envelope has, and replies to replies
 * @property {Map<string, Call[]>} calls the calls made because of another, or of a message
 */

/** @typedef {{folds: number, revision: number, rows: number, calls: number, threads: Threads}} Known rows, calls: how many of the room's are in it */
/** @type {WeakMap<RoomModel, Known>} */
const known = new WeakMap();

/**
 * The threads of a room as it is now. Between two folds a room only grows at its end, and its threads grow with it.
 * @param {RoomModel} room
 * @returns {Threads}
 */
export function threadsOf(room) {
  let last = known.get(room);
  if (last?.revision === room.revision) return last.threads;
  if (!last || last.folds !== room.folds) known.set(room, last = { folds: room.folds, revision: 0, rows: 0, calls: 0, threads: { replies: new Map(), counts: new Map(), calls: new Map() } });
  const { threads, rows, calls } = last;
  for (const call of room.pairing.list.slice(calls)) {
    const about = call.parent ?? repliesTo(call.request);
    if (about && about !== call.id) add(threads.calls, about, call);
  }
  let isWhole = rows > 0;
  for (const item of room.items.slice(rows)) {
    if (item.type !== 'chat') continue;
    const about = repliesTo(item.envelope);
    if (about) add(threads.replies, about, item);
    // Somebody, perhaps itself, replied before it came: it may be in a circle.
    if (threads.replies.has(item.id)) isWhole = false;
    if (about && isWhole) countUp(room, threads.counts, about);
  }
  if (!isWhole) threads.counts = countAll(threads.replies);
  last.rows = room.items.length;
  last.calls = room.pairing.list.length;
  last.revision = room.revision;
  return threads;
}

/** One more reply to an envelope, and to all that this one answers. @param {RoomModel} room @param {Map<string, number>} counts @param {string} to */
function countUp(room, counts, to) {
  const seen = new Set();
  for (let id = /** @type {string|undefined} */ (to); id !== undefined && !seen.has(id);) {
    seen.add(id);
    counts.set(id, (counts.get(id) ?? 0) + 1);
    const row = room.itemOf(id);
    id = row?.type === 'chat' && row.id === id ? repliesTo(row.envelope) : undefined;
  }
}

/**
 * How many replies there are, and replies to replies. A reply in a circle is counted once.
 * @param {Threads} threads
 * @param {string} id
 * @returns {number}
 */
export function countReplies(threads, id) {
  return threads.counts.get(id) ?? 0;
}

/**
 * Counts from the last replies upward, each once: a reply answers one envelope, so whatever is left then are circles.
 * @param {Map<string, ChatItem[]>} replies
 */
function countAll(replies) {
  /** @type {Map<string, string>} what each reply answers */
  const answers = new Map();
  /** @type {Map<string, number>} how many replies of each are not counted yet */
  const left = new Map();
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [about, list] of replies) {
    left.set(about, list.length);
    counts.set(about, 0);
    for (const { envelope } of list) answers.set(envelope.id, about);
  }
  const open = [...answers.keys()].filter((id) => !left.has(id));
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const about = answers.get(id);
    if (about === undefined) continue;
    answers.delete(id);
    counts.set(about, (counts.get(about) ?? 0) + 1 + (counts.get(id) ?? 0));
    left.set(about, (left.get(about) ?? 0) - 1);
    if (left.get(about) === 0) open.push(about);
  }
  for (const start of answers.keys()) {
    const circle = [];
    for (let id = start; answers.has(id); id = circle[circle.length - 1]) {
      circle.push(/** @type {string} */ (answers.get(id)));
      answers.delete(id);
    }
    const all = circle.reduce((sum, id) => sum + 1 + (counts.get(id) ?? 0), 0);
    for (const id of circle) counts.set(id, all - 1);
  }
  return counts;
}

/**
 * An envelope in a few words, for where another speaks of it.
 * @param {Envelope} envelope
 * @returns {string}
 */
export function gist(envelope) {
  const { method, params, result, error, event } = envelope.payload ?? {};
  if (method === CHAT) {
    const text = (chatText(envelope) ?? '').slice(0, 1000);
    return oneLine(isMarkdown(envelope) ? withoutMarkup(text) : text);
  }
  if (method === 'tools/call') return oneLine(String(params?.name));
  if (method === 'notifications/progress') return oneLine(`progress ${params?.progress}${params?.total ? ` of ${params.total}` : ''}`);
  if (method) return oneLine(String(method));
  if (error) return oneLine(`error: ${error.message ?? error.code}`);
  return result === undefined ? oneLine(String(event ?? envelope.kind)) : 'answer';
}

/** Markdown without what is not meant to be read: fences, rules under a table's head, marks around and before words. @param {string} text */
function withoutMarkup(text) {
  const lines = text.replace(/^[ \t]*(?:`{3}|~{3}).*$/gm, '').replace(/^[\s|:-]+$/gm, '').replace(/^[ \t]*[#>]+[ \t]/gm, '');
  return lines.replace(/[*`|]+|\b_+|_+\b/g, '');
}

/** The beginning of a text, on one line. @param {string} text @param {number} [most] */
export function oneLine(text, most = 140) {
  return clip(text.slice(0, 4 * most).replace(/\s+/g, ' ').trim(), most);
}

/** @template T @param {Map<string, T[]>} map @param {string} key @param {T} value */
function add(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

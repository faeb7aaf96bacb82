// Which rows of the transcript are wanted. Pure.

import { chatText } from './envelope.js';

/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./room.js').RoomModel} RoomModel */

/**
 * Nothing chosen means everything. `people` and `kinds` widen each other's choice only within themselves.
 * @typedef {object} Filter
 * @property {string[]} people
 * @property {Kind[]} kinds
 * @property {string} method a method or a tool
 * @property {string} text words, all of which must occur
 */
/** @typedef {'chat'|'call'|'failed'|'control'|'notice'|'presence'|'handshake'} Kind */

/** @type {{kind: Kind, label: string}[]} */
export const KINDS = [
  { kind: 'chat', label: 'Chat' },
  { kind: 'call', label: 'Calls' },
  { kind: 'failed', label: 'Failures' },
  { kind: 'control', label: 'Approvals and settings' },
  { kind: 'notice', label: 'Notices' },
  { kind: 'presence', label: 'Joins and leaves' },
  { kind: 'handshake', label: 'Handshakes' },
];

/** @type {Filter} */
export const EVERYTHING = { people: [], kinds: [], method: '', text: '' };

/** How much of one envelope is searched. */
const MAX_SEARCHED = 64 * 1024;

/**
 * @param {Filter} filter
 * @returns {boolean} whether it lets everything pass
 */
export function isEmpty({ people, kinds, method, text }) {
  return people.length === 0 && kinds.length === 0 && method.trim() === '' && text.trim() === '';
}

/**
 * The question to put to each row; null when all pass.
 * @param {Filter} filter
 * @returns {((item: Item) => boolean) | null}
 */
export function predicate(filter) {
  if (isEmpty(filter)) return null;
  const people = new Set(filter.people);
  const kinds = new Set(filter.kinds);
  const method = filter.method.trim().toLowerCase();
  const words = filter.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  return (item) => {
    // A mark of a day belongs to the rows around it, which may all be hidden; a gap is always worth knowing of.
    if (item.type === 'day') return false;
    if (item.type === 'gap') return true;
    return (
      (kinds.size === 0 || kindsOf(item).some((kind) => kinds.has(kind))) &&
      (people.size === 0 || envelopesOf(item).some((envelope) => concerns(envelope, people))) &&
      (method === '' || methodsOf(item).some((name) => name.toLowerCase() === method)) &&
      words.every((word) => envelopesOf(item).some((envelope) => searched(envelope).includes(word)))
    );
  };
}

/** @param {Item} item @returns {Kind[]} */
function kindsOf(item) {
  if (item.type === 'gap' || item.type === 'day') return [];
  if (item.type === 'approval' || item.type === 'control') return ['control'];
  const failed = callsOf(item).some((call) => call.state === 'failed');
  return failed ? [item.type, 'failed'] : [item.type];
}

/** @param {Item} item @returns {Call[]} */
function callsOf(item) {
  if (item.type === 'call') return [item.call];
  return item.type === 'handshake' ? item.calls : [];
}

/**
 * Everything that a row is made of.
 * @param {Item} item
 * @returns {Envelope[]}
 */
export function envelopesOf(item) {
  if (item.type === 'gap' || item.type === 'day') return [];
  if (item.type === 'call') return callEnvelopes(item.call);
  if (item.type === 'handshake') return [...item.calls.flatMap(callEnvelopes), ...item.envelopes];
  return item.type === 'presence' ? item.envelopes : [item.envelope];
}

/** @param {Call} call */
const callEnvelopes = (call) => [call.request, ...call.notices, ...(call.answer ? [call.answer] : [])];

/** @param {Item} item @returns {string[]} methods, and tools by name */
function methodsOf(item) {
  const calls = callsOf(item);
  if (calls.length > 0) return calls.flatMap((call) => (call.tool ? [call.method, call.tool] : [call.method]));
  return envelopesOf(item).map(methodOf).filter((method) => method !== '');
}

/** @param {Envelope} envelope */
function methodOf(envelope) {
  return typeof envelope.payload?.method === 'string' ? envelope.payload.method : '';
}

/** @param {Envelope} envelope @param {Set<string>} people */
function concerns(envelope, people) {
  if (envelope.kind === 'presence') return people.has(envelope.payload?.participant?.id);
  return people.has(envelope.from) || envelope.to.some((id) => people.has(id));
}

/** @type {WeakMap<Envelope, string>} of what a message says now: an edit is another envelope */
const known = new WeakMap();

/**
 * The words of an envelope in lower case: who, whom, and what chat says; of anything else every key and value.
 * @param {Envelope} envelope
 */
function searched(envelope) {
  const version = envelope.retracted ?? envelope.edited ?? envelope;
  let text = known.get(version);
  if (text === undefined) {
    /** @type {string[]} */
    const words = [envelope.from, ...envelope.to];
    let left = MAX_SEARCHED;
    const { jsonrpc: _version, id: _id, ...rest } = envelope.payload ?? {};
    /** @type {unknown[]} */
    const open = [chatText(envelope) ?? rest];
    while (open.length > 0 && left > 0) {
      const value = open.pop();
      if (typeof value === 'object' && value !== null) {
        for (const [key, inner] of Object.entries(value)) {
          if (!Array.isArray(value)) words.push(key);
          open.push(inner);
        }
      } else {
        const word = String(value).slice(0, left);
        left -= word.length;
        words.push(word);
      }
    }
    text = words.join('\n').toLowerCase();
    known.set(version, text);
  }
  return text;
}

/**
 * What there is to choose from in a room: who spoke or was spoken to, and which methods and tools, the most frequent first.
 * @param {RoomModel} room
 * @returns {{people: string[], methods: string[]}}
 */
export function choices(room) {
  const people = new Set(room.people.keys());
  /** @type {Map<string, number>} */
  const methods = new Map();
  const count = (/** @type {string} */ name) => name && methods.set(name, (methods.get(name) ?? 0) + 1);
  for (const envelope of room.envelopes.values()) {
    if (envelope.kind !== 'mcp') continue;
    people.add(envelope.from);
    count(methodOf(envelope));
    const { method, params } = envelope.payload ?? {};
    if (method === 'tools/call' && typeof params?.name === 'string') count(params.name);
  }
  const often = [...methods].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  return { people: [...people].sort(), methods: often.slice(0, 200).map(([name]) => name) };
}

// What a folded row says: who came and went, and what machines said to each other to get ready. Pure.

import { count, listed } from './text.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').HandshakeItem} HandshakeItem */

/**
 * Who came and went, each told once, by where they ended.
 * @param {Envelope[]} envelopes @param {(id: string) => string} name
 */
export function presenceText(envelopes, name) {
  /** @type {Map<string, {first: string, last: string}>} */
  const told = new Map();
  for (const { payload } of envelopes) {
    const id = payload.participant?.id ?? '';
    told.set(id, { first: told.get(id)?.first ?? payload.event, last: payload.event });
  }
  const who = (/** @type {string} */ first, /** @type {string} */ last) => [...told]
    .filter(([, each]) => each.first === first && each.last === last).map(([id]) => name(id));
  const parts = [
    [who('join', 'join'), 'joined'], [who('leave', 'leave'), 'left'],
    [who('join', 'leave'), 'came and went'], [who('leave', 'join'), 'left and came back'],
  ];
  return parts.filter(([ids]) => ids.length > 0).map(([ids, did]) => `${listed(/** @type {string[]} */ (ids))} ${did}`).join(', ');
}

/** @param {HandshakeItem} item @param {(id: string) => string} name */
export function handshakeText({ calls, envelopes }, name) {
  const pairs = new Set(calls.map((call) => [call.caller, call.callee].sort().join('\n')));
  const others = new Set(envelopes.map((each) => each.from));
  const methods = [...new Set(calls.map((call) => call.tool ?? call.method))];
  const what = methods.length === 0 ? 'got ready' : listed(methods.map(plain), 4);
  if (pairs.size === 1) {
    const call = calls[0];
    return `${name(call.caller)} and ${name(call.callee)}: ${what}`;
  }
  return pairs.size === 0 ? `${listed([...others].map(name))} ${what}` : `${count(pairs.size, 'handshake')} among ${listed([...others].map(name))}`;
}

/** @param {string} method */
function plain(method) {
  if (method === 'initialize') return 'handshake';
  return method.endsWith('/list') ? `list of ${method.slice(0, -'/list'.length).replace('/', ' ')}` : method;
}

// Calls that need no row of their own: the same tool, called again and again without trouble, is one row until somebody unfolds it, and what was
// called for the sake of another call without trouble stands in that call's card. Pure.

import { isQuestion, titleOf } from './reading.js';

/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').CallItem} CallItem */
/** @typedef {{type: 'group', id: string, rev: number, calls: CallItem[], open: boolean}} Group */
/** @typedef {Item|Group} Row what the transcript draws */

/** From so many on they are folded. */
const MIN_CALLS = 4;

/**
 * The rows with runs of such calls folded into groups, and without those that stand in another's card. What is unfolded stands below its group.
 * @param {readonly Item[]} all
 * @param {{isOpen: (id: string) => boolean, unreadFrom: string|null}} how unreadFrom: the row before which the marker of new messages stands
 * @returns {{rows: readonly Row[], groupOf: Map<string, Group>, cardOf: Map<string, string>}} groupOf: the group of each call's row in one;
 *   cardOf: the call in whose card another stands
 */
export function grouped(all, { isOpen, unreadFrom }) {
  const cardOf = cardsOf(all, unreadFrom);
  const items = cardOf.size === 0 ? all : all.filter(({ id }) => !cardOf.has(id));
  /** @type {Row[]} */
  const rows = [];
  /** @type {Map<string, Group>} */
  const groupOf = new Map();
  for (let at = 0; at < items.length;) {
    const end = runFrom(items, at, unreadFrom);
    if (end - at < MIN_CALLS) {
      rows.push(items[at]);
      at += 1;
      continue;
    }
    const calls = /** @type {CallItem[]} */ (items.slice(at, end));
    const id = `group:${calls[0].id}`;
    /** @type {Group} */
    const group = { type: 'group', id, rev: calls.length, calls, open: isOpen(id) };
    rows.push(group);
    if (group.open) rows.push(...calls);
    for (const call of calls) groupOf.set(call.id, group);
    at = end;
  }
  return { rows: groupOf.size === 0 ? items : rows, groupOf, cardOf };
}

/** Whether a call is told well enough by a line in the card of the one that it was made for. @param {import('./types.js').Call} call */
export function fitsInCard(call) {
  return call.parent !== undefined && call.parent !== call.id && call.state === 'done' && !isQuestion(call);
}

/** The calls that stand in another's card, each with that call. @param {readonly Item[]} items @param {string|null} unreadFrom @returns {Map<string, string>} */
function cardsOf(items, unreadFrom) {
  /** @type {Map<string, string>} */
  const cards = new Map();
  /** @type {Set<string>} a call comes before those that it brought about */
  const seen = new Set();
  for (const item of items) {
    if (item.type !== 'call') continue;
    seen.add(item.id);
    const { parent = '' } = item.call;
    if (fitsInCard(item.call) && seen.has(parent) && item.id !== unreadFrom) cards.set(item.id, parent);
  }
  return cards;
}

/** Where the run of calls like the one at a place ends. @param {readonly Item[]} items @param {number} at @param {string|null} unreadFrom */
function runFrom(items, at, unreadFrom) {
  const first = items[at];
  if (!isTrivial(first)) return at + 1;
  let end = at + 1;
  for (; end < items.length; end += 1) {
    const next = items[end];
    if (!isTrivial(next) || next.id === unreadFrom) break;
    if (next.call.caller !== first.call.caller || next.call.callee !== first.call.callee || titleOf(next.call) !== titleOf(first.call)) break;
  }
  return end;
}

/** @param {Item} item @returns {item is CallItem} */
function isTrivial(item) {
  return item.type === 'call' && item.call.state === 'done' && item.call.parent === undefined && !isQuestion(item.call);
}

// Calls that say nothing new: the same tool, called again and again without trouble, is one row until somebody unfolds it. Pure.

import { isQuestion, titleOf } from './reading.js';

/** @typedef {import('./types.js').Item} Item */
/** @typedef {import('./types.js').CallItem} CallItem */
/** @typedef {{type: 'group', id: string, rev: number, calls: CallItem[], open: boolean}} Group */
/** @typedef {Item|Group} Row what the transcript draws */

/** From so many on they are folded. */
const MIN_CALLS = 4;

/**
 * The rows with runs of such calls folded into groups. What is unfolded stands below its group.
 * @param {readonly Item[]} items
 * @param {{isOpen: (id: string) => boolean, unreadFrom: string|null}} how unreadFrom: the row before which the marker of new messages stands
 * @returns {{rows: readonly Row[], groupOf: Map<string, Group>}} groupOf: the group of each call's row in one
 */
export function grouped(items, { isOpen, unreadFrom }) {
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
  return { rows: groupOf.size === 0 ? items : rows, groupOf };
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

// How long a room's log is kept, in words. Pure.

import { count } from './text.js';

const HOUR_MS = 60 * 60 * 1000;

/** `for 30 days, at most 1000 envelopes`. @param {{max_age_ms?: number, max_entries?: number}} kept what is absent has no bound */
export function keptFor({ max_age_ms: age, max_entries: entries }) {
  const parts = [];
  if (age !== undefined) parts.push(`for ${span(age)}`);
  if (entries !== undefined) parts.push(`at most ${count(entries, 'envelope')}`);
  return parts.length > 0 ? parts.join(', ') : 'for ever';
}

/** @param {number} ms */
function span(ms) {
  const hours = ms / HOUR_MS;
  if (hours >= 48) return count(Math.round(hours / 24), 'day');
  if (hours >= 1) return count(Math.round(hours), 'hour');
  return count(Math.max(1, Math.round(ms / 60_000)), 'minute');
}

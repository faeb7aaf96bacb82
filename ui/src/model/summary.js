// A run in numbers: what was called how often, how it ended and how long it took. Pure.

import { isPreparation } from './calls.js';
import { titleOf } from './reading.js';

/** @typedef {import('./types.js').Call} Call */
/** @typedef {{callee: string, what: string, calls: number, failed: number, running: number, median: number, longest: number, total: number}} Line durations in milliseconds */
/** @typedef {{lines: Line[], calls: number, failed: number, running: number, from: number, to: number, busy: number}} Summary  busy: how long at least one call ran */

/** @param {Iterable<Call>} all @returns {Summary} */
export function summaryOf(all) {
  const calls = [...all].filter((call) => !isPreparation(call.method));
  /** @type {Map<string, Call[]>} */
  const groups = new Map();
  for (const call of calls) {
    const key = JSON.stringify([call.callee, titleOf(call)]);
    groups.set(key, [...groups.get(key) ?? [], call]);
  }
  const lines = [...groups.values()].map(lineOf).sort((a, b) => b.total - a.total || b.calls - a.calls);
  const ended = calls.filter(({ ended: at }) => at !== undefined);
  return {
    lines, calls: calls.length, failed: calls.filter(isFailed).length, running: calls.filter(({ state }) => state === 'running').length,
    from: Math.min(...calls.map(({ began }) => began)), to: Math.max(...ended.map((call) => call.ended ?? 0), ...calls.map(({ began }) => began)),
    busy: busyTime(ended),
  };
}

/** @param {Call} call */
const isFailed = ({ state }) => state === 'failed';

/** @param {Call[]} calls of one tool, never none @returns {Line} */
function lineOf(calls) {
  const took = calls.filter(({ ended }) => ended !== undefined).map(({ began, ended = began }) => ended - began).sort((a, b) => a - b);
  return {
    callee: calls[0].callee, what: titleOf(calls[0]), calls: calls.length, failed: calls.filter(isFailed).length,
    running: calls.filter(({ state }) => state === 'running').length,
    median: took.length === 0 ? 0 : took[(took.length - 1) >> 1], longest: took[took.length - 1] ?? 0, total: took.reduce((sum, each) => sum + each, 0),
  };
}

/** Some calls in a few words: how many failed, and how long they took. @param {Call[]} calls @returns {{failed: number, median: number, longest: number}} */
export function briefly(calls) {
  const { failed, median, longest } = calls.length === 0 ? { failed: 0, median: 0, longest: 0 } : lineOf(calls);
  return { failed, median, longest };
}

/** How long at least one of them ran. @param {Call[]} calls */
function busyTime(calls) {
  let [busy, until] = [0, -Infinity];
  for (const { began, ended = began } of [...calls].sort((a, b) => a.began - b.began)) {
    busy += Math.max(0, ended - Math.max(began, until));
    until = Math.max(until, ended);
  }
  return busy;
}

// Calls over time: which row each has, where its ends are, and what of it can be seen. Pure, and time is an argument.
// Time here is folded (`scale.js`).

import { CHAT } from './envelope.js';
import { isQuestion, titleOf } from './reading.js';
import { lastWhere } from './scale.js';

/** @typedef {import('./types.js').Call} Call */
/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {{call: Call, row: number, depth: number, from: number, to: number, order: number}} Bar  from and to: real time */
/** @typedef {'people'|'tools'|'calls'} Grouping what has a lane of its own */
/** @typedef {{id: string, row: number, rows: number, said: Envelope[]}} Lane */
/** @typedef {{bars: Bar[], rows: Bar[][], lanes: Lane[], byId: Map<string, Bar>}} Layout */
/** @typedef {import('./scale.js').Scale} Scale */
/** @typedef {{bar: Bar, from: number, to: number, crowd: number, failed: boolean, room: number}} Seen  places in pixels */

/**
 * Gives every call a row.
 * @param {Call[]} calls
 * @param {{by: Grouping, now: number, said?: Envelope[]}} how said: chat, to be seen beside the calls
 * @returns {Layout}
 */
export function lay(calls, { by, now, said = [] }) {
  const bars = calls.map((call) => {
    const to = Math.max(call.began, call.ended ?? (call.state === 'running' ? now : call.began));
    return { call, row: 0, depth: 0, from: call.began, to, order: 0 };
  });
  bars.sort((a, b) => a.from - b.from || (a.call.id < b.call.id ? -1 : 1));
  const byId = new Map(bars.map((bar) => [bar.call.id, bar]));
  /** @type {Layout} */
  const layout = { bars, rows: [], lanes: [], byId };
  if (by === 'calls') stack(layout);
  else pack(layout, by, by === 'people' ? said : []);
  bars.forEach((bar, order) => { bar.order = order; });
  return layout;
}

/** One row a call, whatever was asked because of it right below. @param {Layout} layout */
function stack(layout) {
  /** @type {Map<Bar, Bar[]>} */
  const inner = new Map();
  const roots = layout.bars.filter((bar) => {
    const parent = layout.byId.get(bar.call.parent ?? '');
    if (!parent || parent === bar) return true;
    const list = inner.get(parent);
    if (list) list.push(bar);
    else inner.set(parent, [bar]);
    return false;
  });
  const open = roots.reverse();
  for (let bar = open.pop(); bar; bar = open.pop()) {
    bar.row = layout.rows.length;
    layout.rows.push([bar]);
    for (const child of (inner.get(bar) ?? []).reverse()) {
      child.depth = Math.min(bar.depth + 1, 8);
      open.push(child);
    }
  }
  // Calls in a circle of parents, which only a liar can make, are not seen by the walk.
  layout.bars = layout.rows.flat().sort((a, b) => a.from - b.from || a.row - b.row);
}

/** A lane for everybody, or for every tool; in it as many rows as calls ran at the same time. @param {Layout} layout @param {Grouping} by @param {Envelope[]} said */
function pack(layout, by, said) {
  /** @type {Map<string, {bars: Bar[][], said: Envelope[], first: number, busy: Heap, free: Heap}>} */
  const lanes = new Map();
  const lane = (/** @type {string} */ id, /** @type {number} */ at) => {
    const known = lanes.get(id) ?? { bars: [], said: [], first: at, busy: new Heap(), free: new Heap() };
    lanes.set(id, known);
    known.first = Math.min(known.first, at);
    return known;
  };
  for (const bar of layout.bars) {
    if (by === 'people') lane(bar.call.caller, bar.from);
    const { bars, busy, free } = lane(by === 'people' ? bar.call.callee : titleOf(bar.call), bar.from);
    for (let ended = busy.below(bar.from); ended !== undefined; ended = busy.below(bar.from)) free.push(ended, ended);
    bar.row = free.below(Infinity) ?? bars.length;
    busy.push(bar.to, bar.row);
    if (bar.row === bars.length) bars.push([bar]);
    else bars[bar.row].push(bar);
  }
  for (const envelope of said) if (lanes.has(envelope.from)) lane(envelope.from, envelope.at).said.push(envelope);
  for (const [id, { bars, said: own }] of [...lanes].sort(([, a], [, b]) => a.first - b.first)) {
    const row = layout.rows.length;
    for (const each of bars.flat()) each.row += row;
    for (const each of bars.length > 0 ? bars : [[]]) layout.rows.push(each);
    layout.lanes.push({ id, row, rows: Math.max(1, bars.length), said: own });
  }
}

/** Rows in the order of a number that each has. */
class Heap {
  constructor() {
    /** @type {{by: number, row: number}[]} none less than the one at half its place */
    this.list = [];
  }

  /** @param {number} by @param {number} row */
  push(by, row) {
    const { list } = this;
    list.push({ by, row });
    for (let at = list.length - 1; at > 0 && list[at].by < list[(at - 1) >> 1].by; at = (at - 1) >> 1) this.swap(at, (at - 1) >> 1);
  }

  /** Takes the first one out, if its number is no greater. @param {number} most @returns {number|undefined} */
  below(most) {
    const { list } = this;
    if (list.length === 0 || list[0].by > most) return undefined;
    const { row } = list[0];
    this.swap(0, list.length - 1);
    list.pop();
    for (let at = 0; ;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let least = at;
      if (left < list.length && list[left].by < list[least].by) least = left;
      if (right < list.length && list[right].by < list[least].by) least = right;
      if (least === at) return row;
      this.swap(at, least);
      at = least;
    }
  }

  /** @param {number} a @param {number} b */
  swap(a, b) {
    [this.list[a], this.list[b]] = [this.list[b], this.list[a]];
  }
}

/**
 * What of some rows is drawn: calls too short to be told apart become one, but for the chosen one.
 * @param {Layout} layout @param {Scale} scale
 * @param {{x: number, span: number, width: number, top: number, bottom: number}} view x and span: folded time; top and bottom: rows
 * @param {Bar} [chosen]
 * @returns {Seen[]}
 */
export function visible(layout, scale, { x, span, width, top, bottom }, chosen) {
  const pixel = (/** @type {number} */ time) => ((scale.place(time) - x) / span) * width;
  /** @type {Seen[]} */
  const seen = [];
  for (let row = Math.max(0, top); row < Math.min(bottom, layout.rows.length); row += 1) {
    const bars = layout.rows[row];
    // In a row none overlaps the next, so their ends are in order too.
    const first = lastWhere(bars, (bar) => pixel(bar.to) < -4) + 1;
    /** @type {Seen|undefined} */
    let before;
    for (let at = first; at < bars.length; at += 1) {
      const bar = bars[at];
      const begins = pixel(bar.from);
      if (begins > width) break;
      // Each is drawn at least three pixels wide. What begins under the one before it would cover that, so it begins behind it.
      const from = before ? Math.max(begins, Math.min(before.to + 1, Math.max(begins, pixel(bar.to) - 3))) : begins;
      const to = Math.max(pixel(bar.to), from + 3);
      const failed = bar.call.state === 'failed';
      const alone = bar === chosen || before?.bar === chosen;
      if (before && !alone && begins < before.to + 1 && to - begins < 6 && before.to - before.from < 24) {
        before.to = Math.max(before.to, to);
        before.crowd += 1;
        before.failed ||= failed;
      } else {
        if (before) before.room = from;
        before = { bar, from, to, crowd: 1, failed, room: width };
        seen.push(before);
      }
    }
  }
  return seen;
}

/**
 * What happened within a call: progress it told, and questions it asked.
 * @param {Bar} bar @param {Call[]} inner the calls made because of it
 * @returns {{at: number, type: 'progress'|'question', id: string}[]}
 */
export function marks(bar, inner) {
  const clamp = (/** @type {number} */ at) => Math.min(Math.max(at, bar.from), bar.to);
  const progress = bar.call.notices.filter((notice) => notice.payload?.method === 'notifications/progress');
  return [
    ...progress.slice(-200).map((notice) => ({ at: clamp(notice.at), type: /** @type {const} */ ('progress'), id: notice.id })),
    ...inner.slice(-200).filter(isQuestion).map((call) => ({ at: clamp(call.began), type: /** @type {const} */ ('question'), id: call.id })),
  ];
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];

/**
 * The times written on the axis, and the folds in it.
 * @param {Scale} scale @param {{x: number, span: number, width: number}} view
 * @returns {{ticks: {px: number, time: number, step: number}[], folds: {px: number, width: number, ms: number}[]}}
 */
export function axis(scale, { x, span, width }) {
  const step = STEPS.find((each) => (each / span) * width >= 90) ?? 864e5;
  const pixel = (/** @type {number} */ place) => ((place - x) / span) * width;
  const ticks = [];
  const folds = [];
  let free = -Infinity;
  const [first, final] = scale.within(x, x + span);
  for (let at = first; at <= final; at += 1) {
    const stretch = scale.stretches[at];
    const next = scale.stretches[at + 1];
    const end = stretch.x + (stretch.to - stretch.from);
    const left = stretch.from + Math.max(0, x - stretch.x);
    const right = Math.min(stretch.to, stretch.from + (x + span - stretch.x));
    for (let time = Math.ceil(left / step) * step; time <= right; time += step) {
      const px = pixel(stretch.x + (time - stretch.from));
      if (px < free) continue;
      ticks.push({ px, time, step });
      free = px + 80;
    }
    if (next) folds.push({ px: pixel(end), width: pixel(next.x) - pixel(end), ms: next.from - stretch.to });
  }
  return { ticks, folds: folds.filter((fold) => fold.width >= 1 && fold.px < width) };
}

/**
 * How busy the room was, for the overview.
 * @param {Layout} layout @param {Scale} scale @param {number} columns
 * @returns {{busy: number, failed: boolean}[]}
 */
export function density(layout, scale, columns) {
  const out = Array.from({ length: columns }, () => ({ busy: 0, failed: false }));
  const column = (/** @type {number} */ time) => Math.min(columns - 1, Math.floor((scale.place(time) / scale.length) * columns));
  // How many begin there, less how many ended right before.
  const change = new Int32Array(columns + 1);
  for (const bar of layout.bars) {
    const to = column(bar.to);
    change[column(bar.from)] += 1;
    change[to + 1] -= 1;
    if (bar.call.state === 'failed') out[to].failed = true;
  }
  let busy = 0;
  out.forEach((each, at) => { each.busy = busy += change[at]; });
  return out;
}

/**
 * The call beside another: earlier or later, or in the rows above or below, where the nearest in time is meant.
 * @param {Layout} layout @param {Bar|undefined} bar @param {'left'|'right'|'up'|'down'|'first'|'last'} where
 * @returns {Bar|undefined}
 */
export function beside(layout, bar, where) {
  const { bars, rows } = layout;
  if (where === 'first') return bars[0];
  if (where === 'last' || !bar) return bars[bars.length - 1];
  if (where === 'left' || where === 'right') return bars[bar.order + (where === 'left' ? -1 : 1)] ?? bar;
  const way = where === 'up' ? -1 : 1;
  let row = bar.row + way;
  while (rows[row]?.length === 0) row += way;
  const near = (/** @type {Bar} */ each) => Math.abs(each.from - bar.from);
  return (rows[row] ?? [bar]).reduce((best, each) => (near(each) < near(best) ? each : best));
}

/** What is said in chat, to be seen beside calls. @param {Iterable<Envelope>} envelopes @returns {Envelope[]} */
export function saidIn(envelopes) {
  return [...envelopes].filter((envelope) => envelope.kind === 'mcp' && envelope.payload?.method === CHAT);
}

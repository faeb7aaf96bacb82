// Time with its pauses folded: stretches in which nothing ran are made short. Places are in milliseconds of folded time. Pure.

/** @typedef {{from: number, to: number, x: number}} Stretch  real time, and where it begins when folded */

/** A pause of this length is folded, to this. */
const LONG_PAUSE = 3000;
const FOLDED_PAUSE = 400;
/** What stands before the first and behind the last. */
const MARGIN = 200;

/** Time with its pauses folded. */
export class Scale {
  /** @param {Stretch[]} stretches in order, none empty */
  constructor(stretches) {
    this.stretches = stretches;
    const final = stretches[stretches.length - 1];
    this.length = final.x + (final.to - final.from);
    /** Where the last of it ended. */
    this.end = this.length - MARGIN;
  }

  /** Where a moment is. @param {number} time */
  place(time) {
    const at = lastWhere(this.stretches, (stretch) => stretch.from <= time);
    if (at < 0) return 0;
    const { from, to, x } = this.stretches[at];
    if (time <= to || at === this.stretches.length - 1) return x + Math.min(time, to) - from;
    const next = this.stretches[at + 1];
    return x + (to - from) + ((time - to) / (next.from - to)) * (next.x - x - (to - from));
  }

  /** The moment at a place. @param {number} place */
  time(place) {
    const at = Math.max(0, lastWhere(this.stretches, ({ x }) => x <= place));
    const { from, to, x } = this.stretches[at];
    const next = this.stretches[at + 1];
    const within = place - x;
    if (within <= to - from || !next) return from + Math.min(Math.max(0, within), to - from);
    return to + ((within - (to - from)) / (next.x - x - (to - from))) * (next.from - to);
  }

  /** The first and the last stretch that can be seen between two places. @param {number} from @param {number} to */
  within(from, to) {
    return [from, to].map((place) => Math.max(0, lastWhere(this.stretches, ({ x }) => x <= place)));
  }
}

/**
 * @param {Iterable<{from: number, to: number}>} spans in any order
 * @param {{fold: boolean}} how
 */
export function scaleOf(spans, { fold }) {
  const sorted = [...spans].sort((a, b) => a.from - b.from);
  /** @type {Stretch[]} */
  const stretches = [];
  for (const { from, to } of sorted) {
    const current = stretches[stretches.length - 1];
    if (current && (!fold || from - current.to <= LONG_PAUSE)) {
      current.to = Math.max(current.to, to + MARGIN);
    } else {
      const x = current ? current.x + (current.to - current.from) + FOLDED_PAUSE : 0;
      stretches.push({ from: from - MARGIN, to: to + MARGIN, x });
    }
  }
  return new Scale(stretches.length > 0 ? stretches : [{ from: 0, to: 1000, x: 0 }]);
}

/** The last place in a list for which something holds, that holds from the start on. @template T @param {T[]} list @param {(each: T) => boolean} holds */
export function lastWhere(list, holds) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(list[middle])) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Where the rows of a list are, of which most are not drawn. Pure.

/** @typedef {{id: string}} Row */

/** How many heights are remembered. */
const MAX_MEASURED = 100_000;

/** Where each row is, measured where it was drawn and estimated elsewhere. No DOM. */
export class Extent {
  /** @param {(row: any) => number} estimate */
  constructor(estimate) {
    this.estimate = estimate;
    /** @type {readonly Row[]} */
    this.rows = [];
    /** The ids of the rows: the list of rows may be one that grows. @type {string[]} */
    this.ids = [];
    /** @type {Map<string, number>} */
    this.index = new Map();
    /** @type {Map<string, number>} */
    this.heights = new Map();
    /** The upper edge of each row, and the end: one more than there are rows. @type {number[]} */
    this.tops = [0];
    /** The first row whose edge is out of date. */
    this.stale = 0;
  }

  /** Takes the rows. Those that are as before at the beginning keep their places. @param {readonly Row[]} rows */
  set(rows) {
    const { ids } = this;
    let same = 0;
    while (same < ids.length && same < rows.length && ids[same] === rows[same].id) same += 1;
    for (let at = same; at < ids.length; at += 1) this.index.delete(ids[at]);
    ids.length = same;
    if (this.heights.size > MAX_MEASURED) {
      this.heights.clear();
      this.stale = 0;
    }
    this.stale = Math.min(this.stale, same);
    this.rows = rows;
    for (let at = same; at < rows.length; at += 1) {
      ids.push(rows[at].id);
      this.index.set(rows[at].id, at);
    }
  }

  /** @param {string} id @param {number} height @returns {boolean} whether that is new */
  measure(id, height) {
    const at = this.index.get(id);
    if (at === undefined || Math.abs((this.heights.get(id) ?? -1) - height) < 0.5) return false;
    this.heights.set(id, height);
    this.stale = Math.min(this.stale, at);
    return true;
  }

  /** The upper edge of a row. @param {number} at */
  top(at) {
    for (; this.stale < at; this.stale += 1) {
      const row = this.rows[this.stale];
      this.tops[this.stale + 1] = this.tops[this.stale] + (this.heights.get(row.id) ?? this.estimate(row));
    }
    return this.tops[at];
  }

  get total() {
    return this.top(this.rows.length);
  }

  /** The row at a distance from the top. @param {number} y */
  at(y) {
    let [low, high] = [0, this.rows.length - 1];
    this.top(this.rows.length);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }
}

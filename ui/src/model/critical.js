// Which calls decided how long something took. Pure.

/** @typedef {import('./timeline.js').Bar} Bar */
/** @typedef {import('./timeline.js').Layout} Layout */

/**
 * The critical path: from the end backwards, each time the call that ended last before the next one began, and within it those that it waited for.
 * Making one of them faster makes the whole faster; making another one faster does not.
 * @param {Layout} layout @param {Bar} [whole] what took the time; everything that is shown without
 * @returns {Set<Bar>}
 */
export function criticalPath(layout, whole) {
  const inner = innerOf(layout);
  /** @type {Set<Bar>} */
  const path = new Set();
  const open = [{ among: whole ? inner.get(whole) ?? [] : inner.get(undefined) ?? [], until: whole ? whole.to : Infinity }];
  if (whole) path.add(whole);
  for (let next = open.pop(); next; next = open.pop()) {
    let { until } = next;
    for (const bar of next.among) {
      if (bar.to > until || path.has(bar)) continue;
      path.add(bar);
      open.push({ among: inner.get(bar) ?? [], until: bar.to });
      until = bar.from;
    }
  }
  return path;
}

/** The calls made for the sake of each call, and for none that is shown, the last to end first. @param {Layout} layout @returns {Map<Bar|undefined, Bar[]>} */
function innerOf({ bars, byId }) {
  /** @type {Map<Bar|undefined, Bar[]>} */
  const inner = new Map();
  for (const bar of bars) {
    const parent = bar.call.parent === bar.call.id ? undefined : byId.get(bar.call.parent ?? '');
    const list = inner.get(parent);
    if (list) list.push(bar);
    else inner.set(parent, [bar]);
  }
  for (const list of inner.values()) list.sort((a, b) => b.to - a.to || b.from - a.from);
  return inner;
}

/** How long at least one of them ran. @param {Iterable<Bar>} bars */
export function coveredTime(bars) {
  let [covered, until] = [0, -Infinity];
  for (const { from, to } of [...bars].sort((a, b) => a.from - b.from)) {
    covered += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  return covered;
}

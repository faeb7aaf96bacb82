// How views get the page's state, and draw again when something has changed.

import { createContext, useContext, useEffect, useState } from '../vendor/ui.js';

/** @typedef {import('./model/types.js').Changing} Changing */
/** @typedef {import('./app.js').Salon} Salon */

/** @param {unknown} problem @returns {string} */
export function said(problem) {
  return problem instanceof Error ? problem.message : String(problem);
}

export const SalonContext = createContext(/** @type {Salon|null} */ (null));

/** @returns {Salon} */
export function useSalon() {
  const salon = useContext(SalonContext);
  if (!salon) throw new Error('no Salon around this view');
  return salon;
}

/** What is to be drawn in the next frame, all at once: what a parent takes away is then gone before it is drawn. @type {Set<() => void>} */
const waiting = new Set();

function drawAll() {
  const draws = [...waiting];
  waiting.clear();
  for (const draw of draws) draw();
}

/** @param {() => void} draw */
function drawNext(draw) {
  if (waiting.size === 0) requestAnimationFrame(drawAll);
  waiting.add(draw);
}

/** Renders again after a change, at most once per animation frame. @param {Changing} changing @returns {number} its revision */
export function useRevision(changing) {
  const [, redraw] = useState(0);
  const seen = changing.revision;
  useEffect(() => {
    const draw = () => redraw((times) => times + 1);
    const later = () => drawNext(draw);
    const end = changing.subscribe(later);
    // Something may have changed between drawing and subscribing.
    if (changing.revision !== seen) later();
    return () => {
      end();
      waiting.delete(draw);
    };
  }, [changing]);
  return seen;
}

/** Between two drawings of what only accompanies the conversation, such as lists and counts, in milliseconds. */
const SLOW_INTERVAL = 250;

/**
 * The same, at most so often: for what takes longer to draw than a frame lasts, or need not follow every envelope. The first change after a pause
 * is drawn with the next frame; while the page is hidden nothing is.
 * @param {Changing} changing @param {number} [ms] @returns {number} the revision that is drawn
 */
export function useSlowRevision(changing, ms = SLOW_INTERVAL) {
  const [seen, setSeen] = useState(changing.revision);
  useEffect(() => {
    let last = 0;
    /** @type {any} */
    let timer = null;
    const draw = () => {
      timer = null;
      last = performance.now();
      setSeen(changing.revision);
    };
    const later = () => { timer ??= setTimeout(() => drawNext(draw), Math.max(0, last + ms - performance.now())); };
    later();
    const end = changing.subscribe(later);
    return () => {
      end();
      clearTimeout(timer);
      waiting.delete(draw);
    };
  }, [changing, ms]);
  return seen;
}

/** What is unfolded in each room: a row that scrolls out of sight and back is as it was left. @type {WeakMap<object, Set<string>>} */
const opened = new WeakMap();

/** What is unfolded in a room. @param {object} room @returns {Set<string>} */
export function openedIn(room) {
  let keys = opened.get(room);
  if (!keys) opened.set(room, (keys = new Set()));
  return keys;
}

/**
 * Whether something is unfolded, and how to change that.
 * @param {string} key
 * @returns {[boolean, () => void]}
 */
export function useOpened(key) {
  const { room } = useSalon();
  const [, draw] = useState(0);
  const known = openedIn(room);
  return [known.has(key), () => {
    if (!known.delete(key)) known.add(key);
    draw((times) => times + 1);
  }];
}

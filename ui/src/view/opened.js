import { useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';

/** What is unfolded in each room: a row that scrolls out of sight and back is as it was left. @type {WeakMap<object, Set<string>>} */
const opened = new WeakMap();

/**
 * Whether something is unfolded, and how to change that.
 * @param {string} key
 * @returns {[boolean, () => void]}
 */
export function useOpened(key) {
  const { room } = useSalon();
  const [, draw] = useState(0);
  let keys = opened.get(room);
  if (!keys) opened.set(room, (keys = new Set()));
  const known = keys;
  return [known.has(key), () => {
    if (!known.delete(key)) known.add(key);
    draw((times) => times + 1);
  }];
}

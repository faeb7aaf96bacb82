import { useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';

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

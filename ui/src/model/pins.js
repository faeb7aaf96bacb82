// The rooms that the person keeps at the top of every list, entered or not. Kept in this browser, for each participant.

import { browserStore } from './rights.js';
import { isTopic } from './route.js';
import { Watched } from './watched.js';

const MAX_PINS = 50;

export class Pins extends Watched {
  /** @param {import('./rights.js').Store} [store] */
  constructor(store = browserStore()) {
    super();
    this.store = store;
    /** @type {Map<string, string[]>} for a browser that keeps nothing */
    this.known = new Map();
  }

  /** @param {string} me @returns {string[]} topics, in the order of pinning */
  of(me) {
    const known = this.known.get(me);
    if (known) return known;
    /** @type {string[]} */
    let list = [];
    try {
      const kept = JSON.parse(this.store?.getItem(keyOf(me)) ?? '[]');
      if (Array.isArray(kept)) list = kept.filter((topic) => typeof topic === 'string' && isTopic(topic)).slice(0, MAX_PINS);
    } catch {
      // Nothing that can be read is kept.
    }
    this.known.set(me, list);
    return list;
  }

  /** @param {string} me @param {string} topic */
  toggle(me, topic) {
    const before = this.of(me);
    const list = before.includes(topic) ? before.filter((each) => each !== topic) : [...before, topic].slice(-MAX_PINS);
    this.known.set(me, list);
    try {
      this.store?.setItem(keyOf(me), JSON.stringify(list));
    } catch {
      // It is pinned until the page is closed.
    }
    this.changed();
  }
}

/** @param {string} me */
const keyOf = (me) => `salon.pins.${me}`;

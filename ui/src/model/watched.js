/** What others watch: they are called whenever it has changed, and `revision` tells one state from the next. */
export class Watched {
  constructor() {
    this.revision = 0;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {() => void} fn @returns {() => void} ends it */
  subscribe(fn) {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  changed() {
    this.revision += 1;
    for (const fn of this.listeners) fn();
  }
}

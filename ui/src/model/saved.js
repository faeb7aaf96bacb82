// Arguments of tools that the person saved, by participant and tool. Kept in this browser, as they were sent: JSON texts.

import { browserStore } from './rights.js';

/** @typedef {import('./rights.js').Store} Store */

const PREFIX = 'salon.arguments.';
/** How many are saved for one tool, and how long each may be. */
const MAX_SAVED = 20;
const MAX_CHARS = 20_000;

export class SavedArguments {
  /** @param {{me: string, participant: string, tool: string, store?: Store}} of */
  constructor({ me, participant, tool, store = browserStore() }) {
    this.key = PREFIX + JSON.stringify([me, participant, tool]);
    this.store = store;
  }

  /** @returns {string[]} newest first */
  list() {
    try {
      const list = JSON.parse(this.store?.getItem(this.key) ?? '[]');
      return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : [];
    } catch {
      return [];
    }
  }

  /** @param {string} text JSON @returns {boolean} whether it is saved now */
  add(text) {
    if (text.length > MAX_CHARS) return false;
    return this.write([text, ...this.list().filter((one) => one !== text)].slice(0, MAX_SAVED));
  }

  /** @param {string} text */
  remove(text) {
    this.write(this.list().filter((one) => one !== text));
  }

  /** @param {string[]} list */
  write(list) {
    try {
      if (list.length === 0) this.store?.removeItem(this.key);
      else this.store?.setItem(this.key, JSON.stringify(list));
      return this.store !== undefined;
    } catch {
      // The browser's storage is full, or switched off.
      return false;
    }
  }
}

// Loads what was said before, page by page.

import { said } from './hooks.js';
import { HttpProblem } from './net/session.js';

/** @typedef {import('./model/room.js').RoomModel} RoomModel */
/** @typedef {import('./net/session.js').Gateway} Gateway */

/** How many older envelopes are asked for at once. */
const PAGE = 200;
/** How many pages are looked through for one envelope. */
const MAX_PAGES = 50;

export class Past {
  /** @param {Gateway} gateway @param {() => void} changed */
  constructor(gateway, changed) {
    this.gateway = gateway;
    this.changed = changed;
    /** Whether a page is being loaded. */
    this.loading = false;
    /** @type {string|null} why the last one could not be */
    this.problem = null;
    /** @type {Promise<boolean>} the page that was asked for last */
    this.page = Promise.resolve(true);
  }

  /** Loads a page, or waits for the one under way. @param {RoomModel} room @returns {Promise<boolean>} whether there may be more */
  older(room) {
    if (!this.loading) this.page = this.load(room);
    return this.page;
  }

  /** @param {RoomModel} room @returns {Promise<boolean>} */
  async load(room) {
    const before = room.oldest();
    if (before === undefined || room.complete || room.isFull) return false;
    this.loading = true;
    this.problem = null;
    this.changed();
    try {
      const { envelopes, complete } = await this.gateway.history(room.topic, { before, limit: PAGE });
      room.prepend(envelopes, complete);
    } catch (problem) {
      // What was the oldest here is not kept any more, so nothing older is.
      if (problem instanceof HttpProblem && problem.status === 404) room.prepend([], true);
      else this.problem = said(problem);
    }
    this.loading = false;
    this.changed();
    return !room.complete && this.problem === null;
  }

  /**
   * Loads pages until something is there.
   * @param {RoomModel} room @param {() => boolean} isThere @param {() => boolean} isWanted whether it still is
   */
  async until(room, isThere, isWanted) {
    for (let pages = 0; !isThere() && pages < MAX_PAGES; pages += 1) {
      if (!(await this.older(room)) || !isWanted()) return;
    }
  }
}

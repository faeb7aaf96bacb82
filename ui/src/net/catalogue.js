import { Watched } from '../model/watched.js';

/**
 * What the others in a room offer: their tools, resources, templates and prompts, read page by page when somebody looks,
 * and again when their owner says that they have changed or has joined again.
 */

/** @typedef {import('../model/types.js').Handler} Handler */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */
/** @typedef {'tools'|'resources'|'templates'|'prompts'} Kind */

/**
 * One list of one participant.
 * @typedef {object} List
 * @property {any[]} items
 * @property {'unread'|'reading'|'read'|'failed'} state
 * @property {boolean} stale whether its owner has changed it since
 * @property {boolean} cut whether there was more than is kept
 * @property {string} [error]
 */

/**
 * What one participant offers.
 * @typedef {object} Offer
 * @property {'unmet'|'meeting'|'met'|'failed'} state
 * @property {string} [error]
 * @property {any} [info] its `initialize` result
 * @property {number} joins how often it had joined when it was met
 * @property {Record<Kind, List>} lists
 */

/** @type {Record<Kind, {method: string, member: string, capability: string}>} */
const KINDS = {
  tools: { method: 'tools/list', member: 'tools', capability: 'tools' },
  resources: { method: 'resources/list', member: 'resources', capability: 'resources' },
  templates: { method: 'resources/templates/list', member: 'resourceTemplates', capability: 'resources' },
  prompts: { method: 'prompts/list', member: 'prompts', capability: 'prompts' },
};

const MAX_PAGES = 64;
const MAX_ITEMS = 4096;

/** @returns {List} */
const unread = () => ({ items: [], state: 'unread', stale: false, cut: false });

export class Catalogue extends Watched {
  /**
   * @param {object} of
   * @param {Pick<import('./peer.js').Peer, 'request'|'meet'|'serve'|'revisionOf'>} of.peer
   * @param {Pick<RoomModel, 'people'>} of.room
   */
  constructor({ peer, room }) {
    super();
    this.peer = peer;
    this.room = room;
    /** @type {Map<string, Offer>} */
    this.offers = new Map();
    peer.serve({
      'notifications/tools/list_changed': (_, { from }) => this.outdate(from, ['tools']),
      'notifications/prompts/list_changed': (_, { from }) => this.outdate(from, ['prompts']),
      'notifications/resources/list_changed': (_, { from }) => this.outdate(from, ['resources', 'templates']),
    });
  }

  /**
   * @param {string} id
   * @returns {Offer} what is known so far; the same value until it changes
   */
  of(id) {
    const joins = this.room.people.get(id)?.joins ?? 0;
    let offer = this.offers.get(id);
    if (!offer || offer.joins !== joins) {
      offer = { state: 'unmet', joins, lists: { tools: unread(), resources: unread(), templates: unread(), prompts: unread() } };
      this.offers.set(id, offer);
    }
    return offer;
  }

  /** Performs the MCP handshake, if that is still to be done. @param {string} id @param {boolean} [again] after a failure */
  async meet(id, again = false) {
    const offer = this.of(id);
    if (offer.state === 'meeting' || offer.state === 'met' || (offer.state === 'failed' && !again)) return;
    offer.state = 'meeting';
    offer.error = undefined;
    this.changed();
    try {
      // Who knows no handshake is asked what it would have said in one.
      const stateless = this.peer.revisionOf(id) === '2026-07-28';
      offer.info = await (stateless ? this.peer.request(id, 'server/discover', {}) : this.peer.meet(id)) ?? {};
      offer.state = 'met';
    } catch (error) {
      offer.state = 'failed';
      offer.error = why(error);
    }
    this.changed();
  }

  /** @param {string} id @param {Kind} kind @returns {boolean} whether the participant says that it has such a list */
  offersKind(id, kind) {
    return Boolean(this.of(id).info?.capabilities?.[KINDS[kind].capability]);
  }

  /**
   * Reads a list to its end, unless that has been done.
   * @param {string} id
   * @param {Kind} kind
   * @param {boolean} [again] even if it has
   */
  async read(id, kind, again = false) {
    const offer = this.of(id);
    const list = offer.lists[kind];
    if (list.state === 'reading' || (list.state !== 'unread' && !list.stale && !again)) return;
    const first = list.state === 'unread';
    Object.assign(list, { state: 'reading', stale: false, error: undefined });
    this.changed();
    try {
      /** @type {any[]} */
      let items = [];
      /** @type {string | undefined} */
      let cursor;
      let pages = 0;
      do {
        const page = await this.peer.request(id, KINDS[kind].method, cursor === undefined ? {} : { cursor }, { exact: true });
        items = [...items, ...entries(page, KINDS[kind].member)];
        cursor = typeof page?.nextCursor === 'string' ? page.nextCursor : undefined;
        pages += 1;
        // The first pages are shown at once; a list that is read again changes in one go.
        if (first) list.items = items.slice(0, MAX_ITEMS);
        if (first && cursor !== undefined) this.changed();
      } while (cursor !== undefined && pages < MAX_PAGES && items.length < MAX_ITEMS);
      const cut = cursor !== undefined || items.length > MAX_ITEMS;
      Object.assign(list, { items: items.slice(0, MAX_ITEMS), state: 'read', cut });
    } catch (error) {
      Object.assign(list, { state: 'failed', error: why(error) });
    }
    this.changed();
  }

  /** @param {string} id @param {Kind[]} kinds */
  outdate(id, kinds) {
    const offer = this.offers.get(id);
    if (!offer) return;
    for (const kind of kinds) offer.lists[kind].stale = offer.lists[kind].state !== 'unread';
    this.changed();
  }
}

/**
 * @param {any} page what a stranger answered
 * @param {string} member
 * @returns {any[]} what in it has a name
 */
function entries(page, member) {
  const items = page?.[member];
  if (!Array.isArray(items)) throw new Error(`the answer has no list of ${member}`);
  return items.filter((item) => ['name', 'uri', 'uriTemplate'].some((key) => typeof item?.[key] === 'string'));
}

/** @param {unknown} error @returns {string} */
export function why(error) {
  return error instanceof Error && error.message ? error.message : String(error);
}

import { Watched } from './watched.js';

/**
 * Which tools the person lets the page call without asking again, in one room. What the person allows here is kept in the
 * browser's storage for them and this room; what the gateway's configuration allows comes with the session. What a tool says of
 * itself (its annotations) plays no part: it comes from the tool's owner.
 */

/** @typedef {{participant: string, tool: string}} Allowed */

/**
 * A call that waits for the person's yes.
 * @typedef {object} Pending
 * @property {number} id
 * @property {string} participant
 * @property {string} tool
 * @property {string} args as JSON, exactly as it will be sent
 * @property {string[]} warnings
 * @property {boolean} dangerous whether the tool's owner says that it may destroy something
 * @property {(answer: boolean) => void} settle
 */

const MAX_ALLOWED = 1000;

/**
 * @param {string} pattern `*` stands for any characters
 * @param {string} text
 * @returns {boolean}
 */
export function globMatches(pattern, text) {
  const [head, ...rest] = pattern.split('*');
  if (head === undefined || !text.startsWith(head)) return false;
  const tail = rest.pop();
  if (tail === undefined) return text === head;
  let at = head.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - tail.length >= at && text.endsWith(tail);
}

/**
 * @param {string} pattern `participant/tool`, both with `*`; without a slash it allows nothing
 * @param {Allowed} call
 */
export function allows(pattern, { participant, tool }) {
  const slash = pattern.indexOf('/');
  return slash > 0 && globMatches(pattern.slice(0, slash), participant) && globMatches(pattern.slice(slash + 1), tool);
}

/**
 * What to warn of before a call. Annotations can add a warning; none of them takes the question away.
 * @param {any} annotations what the tool's owner says of it
 * @returns {string[]}
 */
export function warningsOf(annotations) {
  if (typeof annotations !== 'object' || annotations === null) return [];
  const warnings = [];
  if (annotations.destructiveHint === true) warnings.push('Its owner says that it may destroy or overwrite things.');
  if (annotations.openWorldHint === true) warnings.push('Its owner says that it reaches things outside this room.');
  return warnings;
}

/** @typedef {Pick<Storage, 'getItem'|'setItem'|'removeItem'>} Store */

export class Rights extends Watched {
  /**
   * @param {object} of
   * @param {string} of.topic
   * @param {string} of.me
   * @param {unknown} [of.patterns] `participant/tool` globs of the gateway's setting `ui.allow`
   * @param {Store} [of.store] the browser's; none where it is switched off
   */
  constructor({ topic, me, patterns, store = browserStore() }) {
    super();
    /** @type {string[]} */
    this.patterns = Array.isArray(patterns) ? patterns.filter((one) => typeof one === 'string') : [];
    /** @type {Pending[]} calls that wait for the person's yes, oldest first */
    this.pending = [];
    this.asked = 0;
    this.store = store;
    this.key = `salon.allow ${me} ${topic}`;
    /** @type {Allowed[]} what the person allowed in this room */
    this.allowed = this.load();
    // Another tab of the same person allowed or revoked something.
    this.heard = (/** @type {StorageEvent} */ event) => {
      if (event.key !== null && event.key !== this.key) return;
      this.allowed = this.load();
      this.changed();
    };
    globalThis.addEventListener?.('storage', this.heard);
  }

  /**
   * @param {Allowed} call
   * @returns {'person'|'configuration'|undefined} who allowed it, if anybody did
   */
  allowedBy({ participant, tool }) {
    if (this.allowed.some((one) => one.participant === participant && one.tool === tool)) return 'person';
    return this.patterns.some((pattern) => allows(pattern, { participant, tool })) ? 'configuration' : undefined;
  }

  /** @param {Allowed} call */
  allow({ participant, tool }) {
    if (this.allowedBy({ participant, tool }) === 'person') return;
    this.allowed = [...this.allowed.slice(1 - MAX_ALLOWED), { participant, tool }];
    this.save();
  }

  /** @param {Allowed} call */
  revoke({ participant, tool }) {
    this.allowed = this.allowed.filter((one) => one.participant !== participant || one.tool !== tool);
    this.save();
  }

  /**
   * Asks the person, unless the call is allowed already. Every `tools/call` of the page goes through here.
   * @param {{participant: string, tool: string, args: string, annotations?: any}} call
   * @returns {Promise<boolean>} whether to send it
   */
  confirm({ participant, tool, args, annotations }) {
    if (this.allowedBy({ participant, tool })) return Promise.resolve(true);
    return new Promise((resolve) => {
      /** @type {Pending} */
      const pending = {
        id: (this.asked += 1), participant, tool, args, warnings: warningsOf(annotations), dangerous: annotations?.destructiveHint === true,
        settle: (answer) => {
          this.pending = this.pending.filter((one) => one !== pending);
          this.changed();
          resolve(answer);
        },
      };
      this.pending = [...this.pending, pending];
      this.changed();
    });
  }

  /** The room is left: what waits is not sent. */
  close() {
    globalThis.removeEventListener?.('storage', this.heard);
    for (const pending of this.pending) pending.settle(false);
  }

  /** @returns {Allowed[]} */
  load() {
    try {
      const kept = JSON.parse(this.store?.getItem(this.key) ?? '[]');
      if (!Array.isArray(kept)) return [];
      return kept.filter((one) => typeof one?.participant === 'string' && typeof one?.tool === 'string')
        .map(({ participant, tool }) => ({ participant, tool })).slice(-MAX_ALLOWED);
    } catch {
      // Not ours, or a browser that keeps nothing: then nothing is allowed.
      return [];
    }
  }

  save() {
    try {
      if (this.allowed.length === 0) this.store?.removeItem(this.key);
      else this.store?.setItem(this.key, JSON.stringify(this.allowed));
    } catch {
      // Full or switched off: it is allowed until the page is closed.
    }
    this.changed();
  }
}

/** @returns {Store | undefined} */
export function browserStore() {
  try {
    return globalThis.localStorage;
  } catch {
    return undefined;
  }
}

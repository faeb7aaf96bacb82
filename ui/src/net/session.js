// What the page asks of the gateway over HTTP. The session is a cookie that scripts cannot read.

import { readList } from '../model/envelope.js';

/** @typedef {import('../model/types.js').SessionInfo} SessionInfo */
/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {{name: string, title?: string, description?: string, envelopes?: number, participants?: number, newest?: string}} Topic */

/** @typedef {{topic: string, id: string, state: string, server?: string, tools?: number, why?: string}} Guest */
/** @typedef {{max_age_ms?: number, max_entries?: number}} Kept what is absent has no bound */
/** @typedef {{topic: string, id: string, from: string, ts: string, kind?: 'chat'|'call'|'result', snippet: string, matches?: [number, number][]}} SearchHit matches: where in the snippet */
/** @typedef {{hits: SearchHit[], complete: boolean, searched?: {since?: string, pending?: number}, next?: string}} SearchPage complete: whether everything was searched */

/** A refusal by HTTP, or (status 0) a gateway that cannot be reached. */
export class HttpProblem extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {number} [retryAfter] in seconds */
  constructor(status, code, message, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** The gateway's HTTP endpoints, for the participant of the cookie. Their addresses are below the page's own, which a proxy may have moved. */
export class Gateway {
  /** @param {typeof fetch} [get] @param {import('../early.js').Early} [early] what was asked for before this was there */
  constructor(get = (input, init) => fetch(input, init), early = undefined) {
    this.fetch = get;
    this.early = early;
    this.isEarlyTaken = false;
    /** @type {{topic: string, ticket: string, until: number}|null} a ticket that nobody has used yet */
    this.spare = null;
  }

  /** Who is signed in; null: nobody. @returns {Promise<SessionInfo|null>} */
  async session() {
    const session = await this.arrival() ?? await this.currentSession();
    this.early?.remember(session !== null);
    return session;
  }

  /** @returns {Promise<SessionInfo|null>} */
  async currentSession() {
    try {
      return await this.json('GET', 'v0/session');
    } catch (problem) {
      if (problem instanceof HttpProblem && problem.status === 401) return null;
      throw problem;
    }
  }

  /** What was asked for before the page was there; it tells the state of that moment, so it counts once. @returns {Promise<SessionInfo|null>} */
  async arrival() {
    if (!this.early || this.isEarlyTaken) return null;
    this.isEarlyTaken = true;
    const { topic, answer } = this.early;
    const told = await answer;
    if (!told || topic === null) return null;
    // Half of its time: it is used over a network that takes some.
    this.spare = { topic, ticket: told.ticket, until: performance.now() + told.expires_in * 500 };
    return told.session;
  }

  /** Signs in by a token, or by the code of a link. @param {{token: string}|{code: string}} by @returns {Promise<SessionInfo>} */
  async signIn(by) {
    const session = await this.json('POST', 'v0/session', by);
    this.spare = null;
    this.early?.remember(true);
    return session;
  }

  /** @returns {Promise<void>} */
  async signOut() {
    this.spare = null;
    this.early?.remember(false);
    await this.text('DELETE', 'v0/session');
  }

  /** A ticket for one connection. @param {string} topic @returns {Promise<string>} */
  async ticket(topic) {
    const { spare } = this;
    if (spare?.topic === topic) {
      this.spare = null;
      if (performance.now() < spare.until) return spare.ticket;
    }
    const { ticket } = await this.json('POST', 'v0/tickets', { topic });
    return ticket;
  }

  /** The rooms that are open to the person and were entered before. @returns {Promise<Topic[]>} */
  async topics() {
    const { topics } = await this.json('GET', 'v0/topics?detail=true');
    return Array.isArray(topics) ? topics.filter((topic) => typeof topic?.name === 'string') : [];
  }

  /** Who is in a room. @param {string} topic @returns {Promise<{id: string, name?: string}[]>} */
  async participants(topic) {
    const { participants } = await this.json('GET', `v0/topics/${encodeURIComponent(topic)}/participants`);
    return Array.isArray(participants) ? participants.filter((each) => typeof each?.id === 'string') : [];
  }

  /** Searches all rooms that the person may read, newest first. @param {string} words @param {{topic?: string, before?: string}} [which] @returns {Promise<SearchPage>} */
  async search(words, { topic, before } = {}) {
    const query = new URLSearchParams({ q: words, ...(topic === undefined ? {} : { topic }), ...(before === undefined ? {} : { before }) });
    const page = await this.json('GET', `v0/search?${query}`);
    return { ...page, hits: Array.isArray(page.hits) ? page.hits : [], complete: page.complete === true };
  }

  /** The settings of a room. @param {string} topic @returns {Promise<{settings: import('../model/control.js').TopicSettings, kept?: Kept}>} */
  topic(topic) {
    return this.json('GET', `v0/topics/${encodeURIComponent(topic)}`);
  }

  /** Makes a link that signs somebody in. @param {{topic: string, id: string, name?: string}} whom @returns {Promise<{fragment: string, expires: string}>} */
  invite(whom) {
    return this.json('POST', 'v0/invitations', whom);
  }

  /** The guests that the gateway hosts. @returns {Promise<Guest[]>} */
  async guests() {
    const { guests } = await this.json('GET', 'v0/guests');
    return Array.isArray(guests) ? guests.filter((guest) => typeof guest?.topic === 'string' && typeof guest.id === 'string') : [];
  }

  /** Revokes tokens. @param {{token?: string, participant?: string, all?: boolean}} which @returns {Promise<{before: string}>} */
  revoke(which) {
    return this.json('POST', 'v0/auth/revocations', which);
  }

  /**
   * A page of the past, oldest first.
   * @param {string} topic @param {{before?: string, after?: string, limit: number}} which
   * @returns {Promise<{envelopes: Envelope[], complete: boolean}>}
   */
  async history(topic, { before, after, limit }) {
    const query = new URLSearchParams({ limit: String(limit) });
    if (before !== undefined) query.set('before', before);
    if (after !== undefined) query.set('after', after);
    const text = await this.text('GET', `v0/topics/${encodeURIComponent(topic)}/history?${query}`);
    const page = parsed(text);
    return { envelopes: readList(text, ['history'], topic).reverse(), complete: page?.next === undefined };
  }

  /** @param {string} method @param {string} path @param {any} [body] @returns {Promise<any>} */
  async json(method, path, body) {
    const value = parsed(await this.text(method, path, body));
    if (!value) throw new HttpProblem(502, 'unreadable', 'The gateway gave an answer that makes no sense.');
    return value;
  }

  /** @param {string} method @param {string} path @param {any} [body] @returns {Promise<string>} */
  async text(method, path, body) {
    /** @type {RequestInit} */
    const init = { method, credentials: 'same-origin', cache: 'no-store', redirect: 'error' };
    if (body !== undefined) {
      init.headers = { 'content-type': 'application/json' };
      init.body = JSON.stringify(body);
    }
    let response;
    let text;
    try {
      response = await this.fetch(path, init);
      text = await response.text();
    } catch {
      throw new HttpProblem(0, 'unreachable', 'The gateway cannot be reached.');
    }
    if (response.ok) return text;
    const problem = parsed(text);
    const after = Number(response.headers.get('retry-after'));
    throw new HttpProblem(
      response.status, String(problem?.code ?? 'unknown'),
      String(problem?.error ?? `The gateway answered with ${response.status}.`), after > 0 ? after : undefined,
    );
  }
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

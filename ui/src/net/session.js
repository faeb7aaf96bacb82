// What the page asks of the gateway over HTTP. The session is a cookie that scripts cannot read.

import { readList } from '../model/envelope.js';

/** @typedef {import('../model/types.js').SessionInfo} SessionInfo */
/** @typedef {import('../model/types.js').Envelope} Envelope */
/** @typedef {{name: string, envelopes?: number, participants?: number, newest?: string}} Topic */

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
  /** @param {typeof fetch} [get] */
  constructor(get = (input, init) => fetch(input, init)) {
    this.fetch = get;
  }

  /** Who is signed in; null: nobody. @returns {Promise<SessionInfo|null>} */
  async session() {
    try {
      return await this.json('GET', 'v0/session');
    } catch (problem) {
      if (problem instanceof HttpProblem && problem.status === 401) return null;
      throw problem;
    }
  }

  /** Signs in by a token, or by the code of a link. @param {{token: string}|{code: string}} by @returns {Promise<SessionInfo>} */
  signIn(by) {
    return this.json('POST', 'v0/session', by);
  }

  /** @returns {Promise<void>} */
  async signOut() {
    await this.text('DELETE', 'v0/session');
  }

  /** A ticket for one connection. @param {string} topic @returns {Promise<string>} */
  async ticket(topic) {
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

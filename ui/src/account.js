// Who is signed in: by a token, by a link's code or by the cookie, here and in the browser's other tabs.

import { said } from './hooks.js';
import { forgetAll } from './model/kept.js';
import { HttpProblem } from './net/session.js';

/** @typedef {import('./model/types.js').SessionInfo} SessionInfo */
/** @typedef {import('./net/session.js').Gateway} Gateway */
/** @typedef {{tell: (who: string|null) => void, close: () => void}} Tabs */

/**
 * What an account needs of the page.
 * @typedef {object} Host
 * @property {() => void} changed
 * @property {(text: string, tone?: 'info'|'error') => void} say
 * @property {() => void} arrive follows the address, now that somebody is signed in
 * @property {() => void} leave leaves all rooms
 * @property {() => void} reopen connects again where a connection waits for a sign-in
 * @property {() => void} toLobby
 * @property {() => boolean} isRefused whether a room was refused because the browser is somebody else's now
 */

export class Account {
  /** @param {Host} host @param {Gateway} gateway @param {typeof openTabs} open */
  constructor(host, gateway, open) {
    this.host = host;
    this.gateway = gateway;
    this.tabs = open((who) => void this.elsewhere(who));
    /** Whether it is not known yet who is signed in. */
    this.starting = true;
    /** @type {string|null} why it could not be found out */
    this.problem = null;
    /** @type {string|null} the code of a link that waits for a word, because somebody is signed in already */
    this.linkCode = null;
    /** Why a link did not sign in; empty otherwise. */
    this.linkProblem = '';
    /** @type {SessionInfo|null} */
    this.session = null;
  }

  /** Finds out who is signed in. */
  async look() {
    this.problem = null;
    try {
      this.session = await this.gateway.session();
      this.starting = false;
    } catch (problem) {
      this.problem = said(problem);
    }
    this.host.changed();
  }

  /** Tries again after `problem`. */
  async retry() {
    await this.look();
    this.host.arrive();
  }

  /** Follows a link, unless its participant would replace the one signed in, in every tab. @param {string} code */
  async offerLink(code) {
    try {
      if (this.starting) this.session = await this.gateway.session();
    } catch {
      // What is the matter, signing in tells.
    }
    if (!this.session) {
      await this.enterBy(code);
      return;
    }
    this.starting = false;
    this.linkCode = code;
  }

  /** What the person says to a link that came while somebody was signed in. @param {boolean} follow */
  async answerLink(follow) {
    const code = this.linkCode;
    this.linkCode = null;
    if (follow && code !== null) await this.enterBy(code);
    this.host.arrive();
  }

  /** @param {string} code */
  async enterBy(code) {
    try {
      this.signedIn(await this.gateway.signIn({ code }));
    } catch (problem) {
      await this.look();
      const why = `That link did not sign you in: ${said(problem)}.`;
      if (this.session) this.host.say(why, 'error');
      else this.linkProblem = why;
    }
    this.starting = false;
  }

  /** Signs in by a token, and goes on where the person was. @param {string} token */
  async signIn(token) {
    this.signedIn(await this.gateway.signIn({ token }));
    this.host.arrive();
  }

  /** @param {SessionInfo} session */
  signedIn(session) {
    const same = this.session?.participant.id === session.participant.id;
    this.session = session;
    this.tabs.tell(session.participant.id);
    this.linkProblem = '';
    if (same) this.host.reopen();
    else this.host.leave();
  }

  /** Forgets who was here, without asking the gateway. */
  forget() {
    this.host.leave();
    forgetAll();
    this.session = null;
    this.host.toLobby();
    this.host.changed();
  }

  async signOut() {
    let warning = '';
    try {
      await this.gateway.signOut();
    } catch (problem) {
      if (!(problem instanceof HttpProblem && problem.status === 401)) warning = said(problem);
      if (warning && (await this.isSignedIn())) {
        this.host.say(`You are still signed in: ${warning}`, 'error');
        return;
      }
    }
    this.tabs.tell(null);
    this.forget();
    if (warning) this.host.say(`You are signed out here. The gateway says: ${warning}`, 'error');
  }

  /** Whether the browser is signed in for all one knows. */
  async isSignedIn() {
    try {
      return (await this.gateway.session()) !== null;
    } catch {
      return true;
    }
  }

  /** Somebody has signed in or out in another tab. @param {string|null} who */
  async elsewhere(who) {
    const { session } = this;
    if (who === null) {
      if (!session) return;
      this.forget();
      this.host.say('You have signed out in another tab.');
    } else if (session?.participant.id !== who) {
      await this.another();
    } else {
      this.host.reopen();
    }
  }

  /** The browser is not signed in as the one that this tab shows. */
  async another() {
    const before = this.session?.participant.id;
    await this.look();
    const now = this.session?.participant.id;
    if (now === before && !this.host.isRefused()) return;
    this.host.leave();
    this.host.arrive();
    if (before !== undefined) this.host.say(now === undefined ? 'You are signed out.' : `This browser is signed in as ${now} now.`);
  }
}

/**
 * What the page says to its other tabs in the same browser: who is signed in. The cookie is one for all of them.
 * @param {(who: string|null) => void} hear called when another tab has signed somebody in, or out (null)
 * @returns {Tabs}
 */
export function openTabs(hear) {
  // Gateways below different paths of one host have different cookies, and nothing to say to each other.
  const channel = new BroadcastChannel(`salon ${new URL('.', document.baseURI).href}`);
  channel.onmessage = ({ data }) => {
    if (data?.signedIn === null || typeof data?.signedIn === 'string') hear(data.signedIn);
  };
  return { tell: (who) => channel.postMessage({ signedIn: who }), close: () => channel.close() };
}

// The page's state: who is signed in, which room is shown, and what stands beside it. Views get it by `useSalon`.

import { said } from './hooks.js';
import { Alerts } from './alerts.js';
import { forgetAll } from './model/kept.js';
import { Gateway, HttpProblem } from './net/session.js';
import { openTabs } from './net/tabs.js';
import { hashOf, linkOf, routeOf } from './model/route.js';
import { Watched } from './model/watched.js';
import { Visits } from './visits.js';

/** @typedef {import('./model/types.js').Panel} Panel */
/** @typedef {import('./model/types.js').Route} Route */
/** @typedef {import('./model/types.js').SessionInfo} SessionInfo */
/** @typedef {import('./model/types.js').Envelope} Envelope */
/** @typedef {import('./model/types.js').Item} Item */
/** @typedef {import('./model/room.js').RoomModel} RoomModel */
/** @typedef {import('./visits.js').Visit} Visit */
/** @typedef {{key: number, text: string, tone: 'info'|'error', about?: string, act?: () => void}} Toast act: what choosing it does */

/** How many older envelopes are asked for at once. */
const PAGE = 200;
/** How many pages are looked through for one envelope. */
const MAX_PAGES = 50;
const MAX_TOASTS = 4;
const TOAST_TIME = 6000;

/**
 * Everything the views need. `room`, `connection`, `peer`, `person` and `rights` are there in a room and throw before one was entered,
 * so views that are shown in a room use them without asking. Subscribe for changes of session, route, panel, filter and reply.
 */
export class Salon extends Watched {
  /** @param {Gateway} [gateway] @param {typeof openTabs} [open] */
  constructor(gateway = new Gateway(), open = openTabs) {
    super();
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
    /** @type {Route} */
    this.route = { view: 'lobby' };
    /** @type {Panel|null} */
    this.panel = null;
    /** Whether the panel was opened without the person's asking. */
    this.quietly = false;
    /** Whether one was, and the person has opened none since. */
    this.intruded = false;
    /** @type {Envelope|null} what the composer replies to */
    this.replyTo = null;
    /** @type {((item: Item) => boolean)|null} which rows are shown; set by `Filters` */
    this.filter = null;
    /** @type {{id: string|null}|null} the row that the transcript is to scroll to, null being the end; a new object each time */
    this.target = null;
    /** Whether older envelopes are being loaded. */
    this.loading = false;
    /** @type {Promise<boolean>} the page that was asked for last */
    this.page = Promise.resolve(true);
    /** @type {string|null} why they could not be */
    this.loadProblem = null;
    /** @type {Toast[]} */
    this.toasts = [];
    const alerts = new Alerts(this);
    this.visits = new Visits({
      gateway, onState: (visit) => this.stateOf(visit), onHeard: (visit, envelope) => alerts.heard(visit, envelope), onAsked: (visit) => alerts.asked(visit),
    });
    /** Whether the rooms of before a reload were entered again. */
    this.restored = false;
    /** @type {Visit|null} the room that is shown */
    this.visit = null;
    /** @type {Visit|null} */
    this.latest = null;
    /** @type {Element|null} what had the focus before the panel was opened */
    this.opener = null;
  }

  /** @returns {Visit} the room that is entered; for views that are about to go, the one that was just left */
  get here() {
    if (!this.latest) throw new Error('not in a room');
    return this.latest;
  }

  get room() {
    return this.here.room;
  }

  get connection() {
    return this.here.connection;
  }

  get peer() {
    return this.here.peer;
  }

  get person() {
    return this.here.person;
  }

  get rights() {
    return this.here.rights;
  }

  /** Begins: signs in by a link's code if there is one, and follows the address. */
  async start() {
    addEventListener('hashchange', () => this.follow());
    const wake = () => {
      if (document.hidden) return;
      for (const { connection } of this.visits.all()) if (connection.state.name === 'waiting') connection.tryNow();
    };
    addEventListener('online', wake);
    document.addEventListener('visibilitychange', wake);
    // Whoever waits for an answer waits on for a reload, but not for ever.
    addEventListener('beforeunload', (event) => { if (this.visits.asks > 0) event.preventDefault(); });
    await this.follow();
  }

  /** Goes where the address says. */
  async follow() {
    const link = linkOf(location.hash);
    if (link) {
      // The code is used once, but has no business in the browser's history.
      history.replaceState(null, '', hashOf(link.topic === undefined ? { view: 'lobby' } : { view: 'room', topic: link.topic }));
      await this.offerLink(link.code);
    } else if (this.starting) {
      await this.look();
    }
    this.arrive();
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
    this.arrive();
  }

  /** @param {string} code */
  async enterBy(code) {
    try {
      this.signedIn(await this.gateway.signIn({ code }));
    } catch (problem) {
      await this.look();
      const why = `That link did not sign you in: ${said(problem)}.`;
      if (this.session) this.say(why, 'error');
      else this.linkProblem = why;
    }
    this.starting = false;
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
    this.changed();
  }

  /** Tries again after `problem`. */
  async retry() {
    await this.look();
    this.arrive();
  }

  /** Signs in by a token, and goes on where the person was. @param {string} token */
  async signIn(token) {
    this.signedIn(await this.gateway.signIn({ token }));
    this.arrive();
  }

  /** @param {SessionInfo} session */
  signedIn(session) {
    const same = this.session?.participant.id === session.participant.id;
    this.session = session;
    this.tabs.tell(session.participant.id);
    this.linkProblem = '';
    if (same) this.reopen();
    else this.leave();
  }

  /** Forgets who was here, without asking the gateway. */
  forget() {
    this.leave();
    forgetAll();
    this.session = null;
    this.go({ view: 'lobby' });
    this.changed();
  }

  async signOut() {
    let warning = '';
    try {
      await this.gateway.signOut();
    } catch (problem) {
      if (!(problem instanceof HttpProblem && problem.status === 401)) warning = said(problem);
      if (warning && (await this.isSignedIn())) {
        this.say(`You are still signed in: ${warning}`, 'error');
        return;
      }
    }
    this.tabs.tell(null);
    this.forget();
    if (warning) this.say(`You are signed out here. The gateway says: ${warning}`, 'error');
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
      this.say('You have signed out in another tab.');
    } else if (session?.participant.id !== who) {
      await this.another();
    } else {
      this.reopen();
    }
  }

  /** The browser is not signed in as the one that this tab shows. */
  async another() {
    const before = this.session?.participant.id;
    await this.look();
    const now = this.session?.participant.id;
    if (now === before && !this.visits.all().some(({ connection }) => connection.state.name === 'another')) return;
    this.leave();
    this.arrive();
    if (before !== undefined) this.say(now === undefined ? 'You are signed out.' : `This browser is signed in as ${now} now.`);
  }

  /** Connects again where the connection waits for a sign-in. */
  reopen() {
    for (const { connection } of this.visits.all()) if (!connection.stands && connection.state.name !== 'connecting') connection.open();
  }

  /** Takes the address for the route, and enters the room that it names. Other rooms are not left. */
  arrive() {
    this.route = routeOf(location.hash);
    const { session } = this;
    if (session && !this.restored) {
      this.restored = true;
      this.visits.restore(session);
    }
    const topic = this.route.view === 'lobby' ? null : this.route.topic;
    const next = session && topic !== null ? this.visits.enter(topic, session) : null;
    if (next !== this.visit) this.turnTo(next);
    if (next) this.heed(next);
    this.changed();
  }

  /** Shows what the address names beside the room, once the room is there. @param {Visit} visit */
  heed(visit) {
    const { route } = this;
    if (route.view === 'lobby') return;
    const { show, person } = route;
    if (person !== undefined) this.open({ panel: 'peer', id: person });
    if (show === undefined) return;
    // The same address may be followed again.
    history.replaceState(null, '', hashOf({ view: route.view, topic: route.topic }));
    this.route = { view: route.view, topic: route.topic };
    whenLive(visit.connection, () => { if (this.visit === visit) void this.show(show); });
  }

  /** Copies the address of something in this room. @param {Partial<import('./model/route.js').RoomRoute>} what */
  async copyLink(what) {
    const { route } = this;
    if (route.view === 'lobby') return;
    const link = new URL(hashOf({ view: route.view, topic: route.topic, ...what }), document.baseURI).href;
    await this.copy(link, 'Link copied. Whoever opens it needs access to this room.');
  }

  /** @param {string} text @param {string} done what is said then */
  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      this.say(done);
    } catch {
      // Not every page may write to the clipboard.
      this.say(text);
    }
  }

  /** Shows another room, or none. @param {Visit|null} next */
  turnTo(next) {
    if (this.visit) this.visit.panel = this.panel;
    this.visit = next;
    this.panel = next?.panel ?? null;
    // What stood there when the person went is no news.
    this.quietly = true;
    this.intruded = false;
    this.replyTo = null;
    this.filter = null;
    this.target = null;
    this.loadProblem = null;
    if (!next) return;
    this.latest = next;
    this.visits.look(next);
  }

  /** @param {Visit} visit whose connection has changed */
  stateOf(visit) {
    const { name } = visit.connection.state;
    if (name === 'live' && visit === this.visit) this.loadProblem = null;
    if (name === 'another') void this.another();
  }

  /** Leaves one room for good. @param {string} topic */
  leaveRoom(topic) {
    const shown = this.visit?.room.topic === topic;
    if (shown) this.turnTo(null);
    this.visits.leave(topic);
    if (shown) this.go({ view: 'lobby' });
    this.changed();
  }

  /** Leaves all rooms. */
  leave() {
    if (this.visit) this.turnTo(null);
    this.visits.leaveAll();
  }

  /** @param {Route} route */
  go(route) {
    location.hash = hashOf(route);
  }

  /** Shows a room, and perhaps an envelope in it. @param {string} topic @param {string} [envelopeId] */
  goTo(topic, envelopeId) {
    this.go({ view: 'room', topic });
    // The address is followed later; what is shown is needed now.
    this.arrive();
    if (envelopeId !== undefined) void this.show(envelopeId);
  }

  /** @param {Panel} panel */
  open(panel) {
    if (!this.panel) this.opener = document.activeElement;
    this.panel = panel;
    this.quietly = false;
    this.intruded = false;
    // What they spoke of is in sight now.
    this.toasts = this.toasts.filter((toast) => toast.about !== panel.panel);
    this.changed();
  }

  /**
   * Opens a panel that the person did not ask for: the focus stays where it is. Once closed, it stays so until they open one.
   * @param {Panel} panel
   */
  openQuietly(panel) {
    if (this.intruded) return;
    this.open(panel);
    this.quietly = true;
    this.intruded = true;
  }

  /** Closes the panel; the focus goes back where it was. */
  close() {
    if (!this.panel) return;
    this.panel = null;
    this.changed();
    const { opener } = this;
    this.opener = null;
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
  }

  /** @param {Envelope|null} envelope */
  reply(envelope) {
    this.replyTo = envelope;
    this.changed();
    if (envelope) document.getElementById('composer')?.focus();
  }

  /** @param {((item: Item) => boolean)|null} filter */
  setFilter(filter) {
    this.filter = filter;
    this.changed();
  }

  /** Scrolls the transcript to an envelope's row, loading older pages if need be. @param {string} envelopeId */
  async show(envelopeId) {
    const { visit } = this;
    if (!visit) return;
    if (this.route.view === 'timeline') this.go({ view: 'room', topic: visit.room.topic });
    for (let pages = 0; !visit.room.itemOf(envelopeId) && pages < MAX_PAGES; pages += 1) {
      if (!(await this.older()) || this.visit !== visit) break;
    }
    if (this.visit !== visit) return;
    const item = visit.room.itemOf(envelopeId);
    if (!item) {
      this.say('That is not kept in this room any more.', 'error');
      return;
    }
    if (this.filter && !this.filter(item)) this.say('The filter hides that row.');
    this.target = { id: item.id };
    this.changed();
  }

  /** Scrolls the transcript to its end. */
  showEnd() {
    this.target = { id: null };
    this.changed();
  }

  /** Loads a page of older envelopes, or waits for the one under way. @returns {Promise<boolean>} whether there may be more */
  older() {
    const { visit } = this;
    if (!visit) return Promise.resolve(false);
    if (!this.loading) this.page = this.load(visit.room);
    return this.page;
  }

  /** @param {RoomModel} room @returns {Promise<boolean>} */
  async load(room) {
    const before = room.oldest();
    if (before === undefined || room.complete || room.isFull) return false;
    this.loading = true;
    this.loadProblem = null;
    this.changed();
    try {
      const { envelopes, complete } = await this.gateway.history(room.topic, { before, limit: PAGE });
      room.prepend(envelopes, complete);
    } catch (problem) {
      // What was the oldest here is not kept any more, so nothing older is.
      if (problem instanceof HttpProblem && problem.status === 404) room.prepend([], true);
      else this.loadProblem = said(problem);
    }
    this.loading = false;
    this.changed();
    return !room.complete && this.loadProblem === null;
  }

  /**
   * Shows a short message for a while, also to screen readers.
   * @param {string} text @param {'info'|'error'} [tone] @param {Panel['panel']} [about] the panel that makes it needless
   * @param {() => void} [act] what choosing it does
   */
  say(text, tone = 'info', about, act) {
    const toast = { key: this.revision, text, tone, about, act };
    this.toasts = [...this.toasts.slice(1 - MAX_TOASTS), toast];
    setTimeout(() => this.unsay(toast), TOAST_TIME);
    this.changed();
  }

  /** @param {Toast} toast */
  unsay(toast) {
    this.toasts = this.toasts.filter((each) => each !== toast);
    this.changed();
  }
}

/** Does something when a connection stands, which it may do already. @param {import('./net/connection.js').Connection} connection @param {() => void} act */
function whenLive(connection, act) {
  if (connection.stands) {
    act();
    return;
  }
  const end = connection.subscribe(() => {
    if (!connection.stands && connection.state.name !== 'closed') return;
    end();
    if (connection.stands) act();
  });
}

export { SalonContext, said, useRevision, useSalon, useSlowRevision } from './hooks.js';

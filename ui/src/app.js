// The page's state: which room is shown, and what of it. Its parts have one job each: `account` (who is signed in), `panels`, `toasts`, `past`
// (older history) and `visits` (the rooms entered). Views get it by `useSalon`.

import { Account, openTabs } from './account.js';
import { Alerts } from './alerts.js';
import { Pins } from './model/pins.js';
import { hashOf, linkOf, routeOf } from './model/route.js';
import { Watched } from './model/watched.js';
import { Gateway } from './net/session.js';
import { Panels } from './panels.js';
import { Past } from './past.js';
import { Toasts } from './toasts.js';
import { Visits, whenLive } from './visits.js';

/** @typedef {import('./model/types.js').Panel} Panel */
/** @typedef {import('./model/types.js').Route} Route */
/** @typedef {import('./model/types.js').Envelope} Envelope */
/** @typedef {import('./model/types.js').Item} Item */
/** @typedef {import('./visits.js').Visit} Visit */

/**
 * Everything the views need. `room`, `connection`, `peer`, `person` and `rights` are there in a room and throw before one was entered,
 * so views that are shown in a room use them without asking. Subscribe for changes of session, route, panel, filter and reply.
 */
export class Salon extends Watched {
  /** @param {Gateway} [gateway] @param {typeof openTabs} [open] */
  constructor(gateway = new Gateway(), open = openTabs) {
    super();
    const changed = () => this.changed();
    this.gateway = gateway;
    this.toasts = new Toasts(changed);
    this.panels = new Panels(changed);
    this.past = new Past(gateway, changed);
    this.pins = new Pins();
    this.account = new Account({
      changed, say: (text, tone) => this.say(text, tone), arrive: () => this.arrive(), leave: () => this.leave(), reopen: () => this.visits.reopen(),
      toLobby: () => this.go({ view: 'lobby' }), isRefused: () => this.visits.all().some(({ connection }) => connection.state.name === 'another'),
    }, gateway, open);
    /** @type {Route} */
    this.route = { view: 'lobby' };
    /** @type {Envelope|null} what the composer replies to */
    this.replyTo = null;
    /** @type {Envelope|null} the message of the person's own that the composer changes */
    this.editing = null;
    /** @type {((item: Item) => boolean)|null} which rows are shown; set by `Filters` */
    this.filter = null;
    /** @type {{id: string|null}|null} the row that the transcript is to scroll to, null being the end; a new object each time */
    this.target = null;
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

  get session() {
    return this.account.session;
  }

  get panel() {
    return this.panels.now;
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
    // A caller that waits for an answer keeps waiting during a reload, but not for ever.
    addEventListener('beforeunload', (event) => { if (this.visits.asks > 0) event.preventDefault(); });
    await this.follow();
  }

  /** Goes where the address says. */
  async follow() {
    const link = linkOf(location.hash);
    if (link) {
      // The code is used once, but has no business in the browser's history.
      history.replaceState(null, '', hashOf(link.topic === undefined ? { view: 'lobby' } : { view: 'room', topic: link.topic }));
      await this.account.offerLink(link.code);
    } else if (this.account.starting) {
      await this.account.look();
    }
    this.arrive();
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
    const { show, person, from } = route;
    if (person !== undefined) this.open({ panel: 'peer', id: person });
    if (from !== undefined && route.view === 'room') whenLive(visit.connection, () => void this.showTime(from, visit));
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
    await this.copy(link, 'Link copied. To open it, one needs access to this room.');
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
    this.panels.swap(next?.panel ?? null);
    this.toasts.dismissAbout(next?.panel?.panel);
    this.replyTo = null;
    this.editing = null;
    this.filter = null;
    this.target = null;
    this.past.problem = null;
    if (!next) return;
    this.latest = next;
    this.visits.look(next);
  }

  /** @param {Visit} visit whose connection has changed */
  stateOf(visit) {
    const { name } = visit.connection.state;
    if (name === 'live' && visit === this.visit) this.past.problem = null;
    if (name === 'another') void this.account.another();
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
    const { visit } = this;
    // A room that is only being entered has no past yet.
    if (envelopeId !== undefined && visit) whenLive(visit.connection, () => { if (this.visit === visit) void this.show(envelopeId); });
  }

  /** @param {Panel} panel */
  open(panel) {
    this.panels.open(panel);
    this.toasts.dismissAbout(panel.panel);
  }

  /** Opens a panel that the person did not ask for. @param {Panel} panel */
  openQuietly(panel) {
    this.panels.openQuietly(panel);
    this.toasts.dismissAbout(this.panel?.panel);
  }

  /** Closes the panel. */
  close() {
    this.panels.close();
  }

  /** @param {Envelope|null} envelope */
  reply(envelope) {
    this.replyTo = envelope;
    this.editing = null;
    this.changed();
    if (envelope) document.getElementById('composer')?.focus();
  }

  /** Puts a message of the person's own into the composer. @param {Envelope|null} envelope null: not any more */
  edit(envelope) {
    this.editing = envelope;
    this.replyTo = null;
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
    await this.past.until(visit.room, () => visit.room.itemOf(envelopeId) !== undefined, () => this.visit === visit);
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

  /** Scrolls the transcript to the first row of a moment or after it. @param {number} from @param {Visit} visit */
  async showTime(from, visit) {
    const { room } = visit;
    await this.past.until(room, () => room.since <= from, () => this.visit === visit);
    const first = [...room.envelopes.values()].find(({ id, at }) => at >= from && room.itemOf(id) !== undefined);
    if (first && this.visit === visit) void this.show(first.id);
  }

  /** Scrolls the transcript to its end. */
  showEnd() {
    this.target = { id: null };
    this.changed();
  }

  /** Loads a page of older envelopes of the room that is shown. */
  older() {
    if (this.visit) void this.past.older(this.visit.room);
  }

  /** Shows a short message for a while, also to screen readers. @param {Parameters<Toasts['show']>} toast */
  say(...toast) {
    this.toasts.show(...toast);
  }
}

export { SalonContext, openedIn, said, useOpened, useRevision, useSalon, useSlowRevision } from './hooks.js';

// The rooms that this tab is in. Looking at another one, or at the list, leaves none of them: a participant that asks the person something there can wait for the answer.

import { keep, kept } from './model/kept.js';
import { Rights } from './model/rights.js';
import { RoomModel } from './model/room.js';
import { isTopic } from './model/route.js';
import { Watched } from './model/watched.js';
import { Connection } from './net/connection.js';
import { Peer } from './net/peer.js';
import { CLIENT_CAPABILITIES, Person } from './net/person.js';

/** @typedef {import('./model/types.js').Envelope} Envelope */
/** @typedef {import('./model/types.js').Panel} Panel */
/** @typedef {import('./model/types.js').SessionInfo} SessionInfo */
/** @typedef {import('./net/session.js').Gateway} Gateway */

/**
 * @typedef {object} Visit
 * @property {RoomModel} room
 * @property {Connection} connection
 * @property {Peer} peer
 * @property {Person} person
 * @property {Rights} rights
 * @property {number} shown the larger, the later the person looked at it
 * @property {Panel|null} panel what stood at its side when the person went to another room
 */

/** In how many rooms one tab is at once. */
const MAX_VISITS = 16;

/** Subscribe for rooms that are entered and left, and for changes in any of them. */
export class Visits extends Watched {
  /**
   * @param {{gateway: Gateway, onState: (visit: Visit) => void, onHeard?: (visit: Visit, envelope: Envelope) => void, onAsked?: (visit: Visit) => void}} of
   *   onState: told of every change of a connection; onHeard: of every envelope that comes now; onAsked: of every change of the questions
   */
  constructor({ gateway, onState, onHeard = () => {}, onAsked = () => {} }) {
    super();
    this.gateway = gateway;
    this.onState = onState;
    this.onHeard = onHeard;
    this.onAsked = onAsked;
    /** @type {Map<string, Visit>} by topic, in the order of entering */
    this.open = new Map();
    this.looks = 0;
    /** What each visit holds of the others' changes. @type {Map<Visit, (() => void)[]>} */
    this.ends = new Map();
  }

  /** @param {string} topic */
  get(topic) {
    return this.open.get(topic);
  }

  /** @returns {Visit[]} */
  all() {
    return [...this.open.values()];
  }

  /** The visit of a room, which is entered where it was not. @param {string} topic @param {SessionInfo} session @returns {Visit} */
  enter(topic, session) {
    const known = this.open.get(topic);
    if (known) return known;
    this.makeRoom();
    const me = session.participant.id;
    const room = new RoomModel({ topic, me });
    const connection = new Connection({ room, gateway: this.gateway });
    const peer = new Peer({ connection, room, capabilities: CLIENT_CAPABILITIES });
    const rights = new Rights({ topic, me, patterns: session.allow });
    const person = new Person({ peer, room });
    /** @type {Visit} */
    const visit = { room, connection, peer, person, rights, shown: 0, panel: null };
    room.attend(false);
    const tell = () => this.changed();
    this.ends.set(visit, [
      room.subscribe(tell), connection.hear((envelope) => this.onHeard(visit, envelope)),
      person.subscribe(() => {
        tell();
        this.onAsked(visit);
      }),
      connection.subscribe(() => {
        tell();
        this.onState(visit);
      }),
    ]);
    this.open.set(topic, visit);
    whenLive(connection, () => void this.learn(room));
    connection.open();
    this.remember(me);
    this.changed();
    return visit;
  }

  /** Reads the settings of a room, where what is loaded of its log does not have them. @param {RoomModel} room */
  async learn(room) {
    if (room.control.settings) return;
    try {
      room.control.learn((await this.gateway.topic(room.topic)).settings);
      room.changed();
    } catch {
      // Without them the page offers less, and the gateway decides all the same.
    }
  }

  /** The person looks at it now. @param {Visit} visit */
  look(visit) {
    visit.shown = this.looks += 1;
  }

  /** @param {string} topic */
  leave(topic) {
    const visit = this.open.get(topic);
    if (!visit) return;
    this.open.delete(topic);
    for (const end of this.ends.get(visit) ?? []) end();
    this.ends.delete(visit);
    visit.person.close();
    visit.rights.close();
    visit.connection.close();
    visit.peer.close();
    this.remember(visit.room.me);
    this.changed();
  }

  leaveAll() {
    for (const topic of [...this.open.keys()]) this.leave(topic);
  }

  /** Connects again where a connection waits for a sign-in. */
  reopen() {
    for (const { connection } of this.all()) if (!connection.stands && connection.state.name !== 'connecting') connection.open();
  }

  /** One room too many: the one that was not looked at for longest goes, unless somebody there waits for an answer. */
  makeRoom() {
    if (this.open.size < MAX_VISITS) return;
    const idle = this.all().filter(({ person }) => person.asks.length === 0).sort((a, b) => a.shown - b.shown);
    const oldest = idle[0] ?? this.all()[0];
    this.leave(oldest.room.topic);
  }

  /** @param {string} me */
  remember(me) {
    const topics = this.all().filter(({ connection }) => connection.state.name !== 'closed').map(({ room }) => room.topic);
    keep('rooms', topics.length > 0 ? { me, topics } : undefined);
  }

  /** Enters the rooms that this tab was in before it was reloaded. @param {SessionInfo} session */
  restore(session) {
    const before = kept('rooms');
    if (before?.me !== session.participant.id || !Array.isArray(before.topics)) return;
    for (const topic of before.topics.slice(0, MAX_VISITS)) if (typeof topic === 'string' && isTopic(topic)) this.enter(topic, session);
  }

  /** How many questions wait for the person in all rooms. */
  get asks() {
    return this.all().reduce((sum, { person }) => sum + person.asks.length, 0);
  }
}

/** Does something when a connection stands, which it may do already. @param {Connection} connection @param {() => void} act */
export function whenLive(connection, act) {
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

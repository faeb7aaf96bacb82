// Who is and was in the room. Pure.

import { GATEWAY } from './envelope.js';
import { clean, isolated, likeness } from './names.js';

/** @typedef {import('./types.js').Person} Person */
/** @typedef {import('./types.js').Envelope} Envelope */

/** How many participants that left are remembered. */
const MAX_ABSENT = 2000;

/** @typedef {Map<string, Person>} People */

/** @type {WeakMap<People, number>} how often something about somebody has changed */
const revisions = new WeakMap();

/** Tells one state of the people from the next: names, who is present, what they say that they do. @param {People} people */
export function peopleRevision(people) {
  return revisions.get(people) ?? 0;
}

/** @param {People} people */
function changed(people) {
  revisions.set(people, peopleRevision(people) + 1);
}

/** Names that stand for the gateway, for the reader, or for nobody; a participant with such a name is shown with its id. */
const RESERVED = new Set(['gateway', 'system', 'salon', 'you', 'everybody'].map(likeness));

/** @typedef {{of: Map<string, string>, bearers: Map<string, Set<string>>}} Likenesses of: each id's name; bearers: whose id or name it is */
/** @type {WeakMap<People, Likenesses>} kept up by whatever changes a name here */
const likenesses = new WeakMap();

/** The participants present according to the welcome; the others have left. @param {People} people @param {any} list */
export function welcomed(people, list) {
  changed(people);
  for (const person of people.values()) person.present = person.id === GATEWAY;
  if (!Array.isArray(list)) return;
  for (const told of list) {
    const person = introduced(people, told);
    if (!person) continue;
    person.present = true;
    person.status = statusIn(told);
    // A handshake outlasts a connection of ours, so being listed again is no new joining.
    if (person.joins === 0) person.joins = 1;
  }
}

/** A join or a leave that happens now. @param {People} people @param {Envelope} envelope */
export function present(people, envelope) {
  const { event, participant } = envelope.payload;
  const person = introduced(people, participant);
  if (!person) return;
  changed(people);
  if (event === 'join') {
    person.present = true;
    person.joins += 1;
    person.joinedAt = envelope.at;
  } else if (event === 'leave') {
    person.present = false;
    delete person.status;
    forget(people);
  }
}

/** Somebody says what it is doing, or no longer does. @param {People} people @param {Envelope} envelope */
export function occupied(people, envelope) {
  const person = people.get(envelope.payload?.participant?.id);
  if (!person?.present || envelope.from !== GATEWAY) return;
  person.status = statusIn(envelope.payload.participant);
  changed(people);
}

/** @param {any} told @returns {Person['status']} */
function statusIn({ status }) {
  if (typeof status?.status !== 'string') return undefined;
  const { text, until } = status;
  return { status: clean(status.status), ...(typeof text === 'string' && { text: clean(text) }), ...(typeof until === 'string' && { until }) };
}

/** What somebody says that it is doing, in words. @param {Person} person */
export function statusText({ status }) {
  if (!status) return '';
  return status.text ? `${status.status}: ${status.text}` : status.status;
}

/** Somebody seen in the past, or speaking. @param {People} people @param {any} told `{id, name, kind, …}` @returns {Person|null} */
export function introduced(people, told) {
  if (!told || typeof told.id !== 'string') return null;
  const known = people.get(told.id);
  /** @type {Person} */
  const person = known ?? { id: told.id, present: told.id === GATEWAY, joins: 0 };
  if (!known) bears(people, told.id, likeness(told.id));
  // Whoever only speaks says nothing new.
  if (!known || Object.keys(told).length > 1) changed(people);
  if (typeof told.name === 'string') rename(people, person, clean(told.name));
  if (typeof told.kind === 'string') person.kind = told.kind;
  if (typeof told.via === 'string') person.via = told.via;
  if (told.mcp && typeof told.mcp === 'object') person.mcp = told.mcp;
  if (told.capabilities !== undefined) person.capabilities = told.capabilities;
  if (!known) people.set(told.id, person);
  return person;
}

/** @param {People} people */
function forget(people) {
  if (people.size <= MAX_ABSENT * 2) return;
  const absent = [...people.values()].filter((person) => !person.present);
  for (const { id } of absent.slice(0, Math.max(0, absent.length - MAX_ABSENT))) {
    unbears(people, id, likenessesOf(people).of.get(id));
    unbears(people, id, likeness(id));
    likenessesOf(people).of.delete(id);
    people.delete(id);
  }
}

/** @param {People} people @returns {Likenesses} */
function likenessesOf(people) {
  const known = likenesses.get(people) ?? { of: new Map(), bearers: new Map() };
  likenesses.set(people, known);
  return known;
}

/** @param {People} people @param {Person} person @param {string} name */
function rename(people, person, name) {
  if (person.name === name) return;
  const { of } = likenessesOf(people);
  const before = of.get(person.id);
  // An id is its bearer's whatever the name is.
  if (before !== likeness(person.id)) unbears(people, person.id, before);
  person.name = name;
  of.set(person.id, likeness(name));
  bears(people, person.id, likeness(name));
}

/** @param {People} people @param {string} id @param {string} as */
function bears(people, id, as) {
  const { bearers } = likenessesOf(people);
  const others = bearers.get(as);
  if (others) others.add(id);
  else bearers.set(as, new Set([id]));
}

/** @param {People} people @param {string} id @param {string|undefined} as */
function unbears(people, id, as) {
  const { bearers } = likenessesOf(people);
  const others = bearers.get(as ?? '');
  others?.delete(id);
  if (others?.size === 0) bearers.delete(as ?? '');
}

/** What somebody calls itself, which is no proof of anything; the id where that is nothing. @param {People} people @param {string} id */
export function givenName(people, id) {
  if (id === GATEWAY) return 'gateway';
  return people.get(id)?.name || id;
}

/** Whether somebody could be taken for another by the name alone. @param {People} people @param {string} id */
export function isDoubtful(people, id) {
  if (id === GATEWAY || givenName(people, id) === id) return false;
  const { of, bearers } = likenessesOf(people);
  const as = of.get(id) ?? '';
  return (RESERVED.has(as) && as !== likeness(id)) || as === '' || (bearers.get(as)?.size ?? 0) > (bearers.get(as)?.has(id) ? 1 : 0);
}

/** How somebody is called here, with the id where the name could be another's. @param {People} people @param {string} id */
export function nameOf(people, id) {
  return isDoubtful(people, id) ? fullName(people, id) : isolated(givenName(people, id));
}

/** The name with the id, wherever they differ: for what one decides by. @param {People} people @param {string} id */
export function fullName(people, id) {
  const name = givenName(people, id);
  return name === id || id === GATEWAY ? name : `${isolated(name)} (${id})`;
}

/** @type {WeakMap<People, {revision: number, list: Person[]}>} */
const sorted = new WeakMap();

/** Those present, people first, then by name; the gateway, which is always there, comes last. Sorted once for each change. @param {People} people */
export function presentPeople(people) {
  const revision = peopleRevision(people);
  const last = sorted.get(people);
  if (last?.revision === revision) return last.list;
  const rank = (/** @type {Person} */ person) => (person.id === GATEWAY ? 2 : person.kind === 'human' ? 0 : 1);
  const list = [...people.values()].filter((person) => person.present)
    .sort((a, b) => rank(a) - rank(b) || nameOf(people, a.id).localeCompare(nameOf(people, b.id)));
  sorted.set(people, { revision, list });
  return list;
}

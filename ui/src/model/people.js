// Who is and was in the room. Pure.

import { GATEWAY } from './envelope.js';
import { clean, isolated, likeness } from './names.js';

/** @typedef {import('./types.js').Person} Person */
/** @typedef {import('./types.js').Envelope} Envelope */

/** How many participants that left are remembered. */
const MAX_ABSENT = 2000;

/** @typedef {Map<string, Person>} People */

/** Names that stand for the gateway, for the reader, or for nobody; a participant with such a name is shown with its id. */
const RESERVED = new Set(['gateway', 'system', 'salon', 'you', 'everybody'].map(likeness));

/** @typedef {{of: Map<string, string>, bearers: Map<string, Set<string>>}} Likenesses of: each id's name; bearers: whose id or name it is */
/** @type {WeakMap<People, Likenesses>} kept up by whatever changes a name here */
const likenesses = new WeakMap();

/** The participants present according to the welcome; the others have left. @param {People} people @param {any} list */
export function welcomed(people, list) {
  for (const person of people.values()) person.present = person.id === GATEWAY;
  if (!Array.isArray(list)) return;
  for (const told of list) {
    const person = introduced(people, told);
    if (!person) continue;
    person.present = true;
    // A handshake outlasts a connection of ours, so being listed again is no new joining.
    if (person.joins === 0) person.joins = 1;
  }
}

/** A join or a leave that happens now. @param {People} people @param {Envelope} envelope */
export function present(people, envelope) {
  const { event, participant } = envelope.payload;
  const person = introduced(people, participant);
  if (!person) return;
  if (event === 'join') {
    person.present = true;
    person.joins += 1;
    person.joinedAt = envelope.at;
  } else if (event === 'leave') {
    person.present = false;
    forget(people);
  }
}

/** Somebody seen in the past, or speaking. @param {People} people @param {any} told `{id, name, kind, …}` @returns {Person|null} */
export function introduced(people, told) {
  if (!told || typeof told.id !== 'string') return null;
  const known = people.get(told.id);
  /** @type {Person} */
  const person = known ?? { id: told.id, present: told.id === GATEWAY, joins: 0 };
  if (!known) bears(people, told.id, likeness(told.id));
  if (typeof told.name === 'string') rename(people, person, clean(told.name));
  if (typeof told.kind === 'string') person.kind = told.kind;
  if (typeof told.status === 'string') person.status = told.status;
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

/** Those present, people first, then by name; the gateway, which is always there, comes last. @param {People} people */
export function presentPeople(people) {
  const rank = (/** @type {Person} */ person) => (person.id === GATEWAY ? 2 : person.kind === 'human' ? 0 : 1);
  return [...people.values()].filter((person) => person.present)
    .sort((a, b) => rank(a) - rank(b) || nameOf(people, a.id).localeCompare(nameOf(people, b.id)));
}

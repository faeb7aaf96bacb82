// The page's addresses: all in the fragment, which never leaves the browser. Pure.

import { KINDS, isEmpty } from './filter.js';

/** @typedef {import('./types.js').Route} Route */
/** @typedef {Extract<Route, {topic: string}>} RoomRoute */

/** What may be in a topic's name without escaping. */
const PLAIN = /%(3A|40)/g;

/** @param {string} hash @returns {Route} */
export function routeOf(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const [, kind, name, view] = path.split('/');
  if (kind === 'admin') return { view: 'lobby', admin: true };
  const topic = kind === 'room' && name ? decoded(name) : '';
  if (topic === '') return { view: 'lobby' };
  return { view: view === 'timeline' ? 'timeline' : 'room', topic, ...detailsOf(new URLSearchParams(query)) };
}

/** What of a room an address is about. @param {URLSearchParams} query @returns {Pick<RoomRoute, 'show'|'person'|'from'|'to'|'filter'>} */
function detailsOf(query) {
  const [show, person] = [query.get('show'), query.get('person')];
  const kinds = KINDS.map(({ kind }) => kind).filter((kind) => query.getAll('kind').includes(kind));
  const filter = { people: query.getAll('of'), kinds, method: query.get('method') ?? '', text: query.get('text') ?? '' };
  const [from, to] = [Date.parse(query.get('from') ?? ''), Date.parse(query.get('to') ?? '')];
  const range = to > from ? { from, to } : {};
  return { ...(show ? { show } : {}), ...(person ? { person } : {}), ...range, ...(isEmpty(filter) ? {} : { filter }) };
}

/** @param {RoomRoute} route */
function queryOf({ show, person, from, to, filter }) {
  const query = new URLSearchParams();
  if (show) query.set('show', show);
  if (person) query.set('person', person);
  if (from !== undefined) query.set('from', new Date(from).toISOString());
  if (to !== undefined) query.set('to', new Date(to).toISOString());
  for (const id of filter?.people ?? []) query.append('of', id);
  for (const kind of filter?.kinds ?? []) query.append('kind', kind);
  if (filter?.method) query.set('method', filter.method);
  if (filter?.text) query.set('text', filter.text);
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** @param {Route} route @returns {string} */
export function hashOf(route) {
  if (route.view === 'lobby') return route.admin ? '#/admin' : '#/';
  const name = encodeURIComponent(route.topic).replace(PLAIN, (code) => decodeURIComponent(code));
  return `#/room/${name}${route.view === 'timeline' ? '/timeline' : ''}${queryOf(route)}`;
}

/** The code, and perhaps the room, of a link that signs in. @param {string} hash @returns {{code: string, topic?: string}|null} */
export function linkOf(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ''));
  const code = query.get('code');
  if (!code) return null;
  const topic = query.get('room');
  return topic ? { code, topic } : { code };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** A room's name for people: most topics begin with `room:`, which says nothing. @param {string} topic */
export function roomName(topic) {
  return /^room:./.test(topic) ? topic.slice('room:'.length) : topic;
}

/** Whether a name is a topic's, as the gateway judges it. @param {string} name */
export function isTopic(name) {
  const plain = /^[ !#-$&-).0-;=@-[\]-_a-~+,-]{1,128}$/.test(name);
  return plain && name === name.trim() && name !== '.' && name !== '..';
}

/** Whether a session opens a topic. @param {string[]} patterns names, or prefixes with a trailing `*` @param {string} topic */
export function opens(patterns, topic) {
  return patterns.some((each) => (each.endsWith('*') ? topic.startsWith(each.slice(0, -1)) : each === topic));
}

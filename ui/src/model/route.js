// The page's addresses: all in the fragment, which never leaves the browser. Pure.

/** @typedef {import('./types.js').Route} Route */

/** What may be in a topic's name without escaping. */
const PLAIN = /%(3A|40)/g;

/** @param {string} hash @returns {Route} */
export function routeOf(hash) {
  const [, kind, name, view] = hash.replace(/^#/, '').split('/');
  const topic = kind === 'room' && name ? decoded(name) : '';
  if (topic === '') return { view: 'lobby' };
  return { view: view === 'timeline' ? 'timeline' : 'room', topic };
}

/** @param {Route} route @returns {string} */
export function hashOf(route) {
  if (route.view === 'lobby') return '#/';
  const name = encodeURIComponent(route.topic).replace(PLAIN, (code) => decodeURIComponent(code));
  return `#/room/${name}${route.view === 'timeline' ? '/timeline' : ''}`;
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

// Mentions while one writes: what stands before the cursor, and who it may mean. Pure.

/** @typedef {import('./types.js').Person} Person */

/** How many are offered. */
const MAX_OFFERED = 8;

/**
 * The mention that is being written at the cursor.
 * @param {string} text @param {number} cursor
 * @returns {{start: number, typed: string}|null}
 */
export function mentionAt(text, cursor) {
  const found = /(^|[\s([{"'])@([A-Za-z0-9._:~@!#$+=|-]*)$/.exec(text.slice(0, cursor));
  return found ? { start: cursor - found[2].length - 1, typed: found[2] } : null;
}

/**
 * Those whom it may mean: present, by id or name, beginnings first.
 * @param {Iterable<Person>} people @param {string} typed @param {string} me
 * @returns {Person[]}
 */
export function offered(people, typed, me) {
  const wanted = typed.toLowerCase();
  const rank = (/** @type {Person} */ { id, name = '' }) => {
    const [a, b] = [id.toLowerCase(), name.toLowerCase()];
    if (a.startsWith(wanted)) return 0;
    return b.startsWith(wanted) ? 1 : a.includes(wanted) || b.includes(wanted) ? 2 : 3;
  };
  return [...people].filter((person) => person.present && person.id !== me && rank(person) < 3)
    .sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id)).slice(0, MAX_OFFERED);
}

/** The text with the mention completed, and the cursor after it. @param {string} text @param {number} cursor @param {string} id */
export function completed(text, cursor, id) {
  const mention = mentionAt(text, cursor);
  if (!mention) return { text, cursor };
  const before = `${text.slice(0, mention.start)}@${id} `;
  return { text: before + text.slice(cursor).replace(/^ /, ''), cursor: before.length };
}

// A room in a line, for lists: who is there, and what was said last. Pure.

import { chatText, GATEWAY } from './envelope.js';
import { nameOf, presentPeople } from './people.js';
import { clip, listed } from './text.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {{said: string, people: string}} Preview both empty where there is nothing to tell */

const MAX_SAID = 120;
/** How many rows are looked through for the last message. */
const MAX_ROWS = 200;

/** @param {string} who @param {string} text */
export function saidLine(who, text) {
  return `${who}: ${clip(text.replace(/\s+/g, ' ').trim(), MAX_SAID)}`;
}

/** What was said last in a room that is entered. @param {import('./room.js').RoomModel} room */
export function lastSaid({ items, people }) {
  for (let at = items.length - 1; at >= Math.max(0, items.length - MAX_ROWS); at -= 1) {
    const item = items[at];
    if (item.type === 'chat') return saidLine(nameOf(people, item.envelope.from), chatText(item.envelope) ?? '');
  }
  return '';
}

/** Who else is in a room that is entered. @param {import('./room.js').RoomModel} room */
export function othersIn({ people, me }) {
  return presentPeople(people).filter(({ id }) => id !== GATEWAY && id !== me);
}

/** A room that is entered. @param {import('./room.js').RoomModel} room @returns {Preview} */
export function previewOf(room) {
  return { said: lastSaid(room), people: listed(othersIn(room).map(({ id }) => nameOf(room.people, id)), 4) };
}

/** A room by what the gateway tells of it. @param {Envelope[]} newest oldest first @param {{id: string, name?: string}[]} people @param {string} me @returns {Preview} */
export function previewFrom(newest, people, me) {
  const names = new Map(people.map(({ id, name }) => [id, name || id]));
  const last = newest.findLast((envelope) => chatText(envelope) !== null);
  return {
    said: last ? saidLine(names.get(last.from) ?? last.from, chatText(last) ?? '') : '',
    people: listed([...names].filter(([id]) => id !== GATEWAY && id !== me).map(([, name]) => name), 4),
  };
}

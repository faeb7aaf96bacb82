/** The rooms that the person is in, beside each other. */

import { html, useEffect } from '../../vendor/ui.js';
import { useRevision, useSalon } from '../app.js';
import { roomName } from '../model/route.js';
import { count } from '../model/text.js';

/** @typedef {import('../visits.js').Visit} Visit */

/** @param {{onSwitch: () => void}} props onSwitch: opens the search for rooms */
export function RoomList({ onSwitch }) {
  const salon = useSalon();
  const { visits } = salon;
  useRevision(visits);
  const open = visits.all().filter((visit) => visit === salon.visit || visit.connection.state.name !== 'closed')
    .sort((a, b) => roomName(a.room.topic).localeCompare(roomName(b.room.topic)));
  return html`
    <nav class="room-list" aria-label="Rooms">
      <div class="room-list-head">
        <h2>Rooms</h2>
        <button type="button" class="plain small" title="Find or enter a room (Ctrl+K)" onClick=${onSwitch}>Find…</button>
      </div>
      <ul>${open.map((visit) => html`<${Entry} key=${visit.room.topic} visit=${visit} />`)}</ul>
      <button type="button" class="plain small all-rooms" onClick=${() => salon.go({ view: 'lobby' })}>All rooms</button>
    </nav>`;
}

/** @param {{visit: Visit}} props */
function Entry({ visit }) {
  const salon = useSalon();
  const { room, person, connection } = visit;
  const current = visit === salon.visit;
  // What waits in the room that is shown is shown there.
  const news = current ? '' : newsOf(visit);
  const unread = current ? 0 : room.unread;
  return html`
    <li class="room-entry" data-current=${current ? '' : null} data-unread=${unread > 0 ? '' : null}>
      <button type="button" class="room-go" aria-current=${current ? 'page' : null} title=${room.topic} onClick=${() => salon.go({ view: 'room', topic: room.topic })}>
        <span class="room-dot" data-state=${connection.state.name} aria-hidden="true"></span>
        <span class="clipped">${roomName(room.topic)}</span>
        ${!current && person.asks.length > 0 && html`<span class="count asks" title=${news}>?${person.asks.length}</span>`}
        ${!current && room.mentions > 0 && html`<span class="count mentions">@${room.mentions}</span>`}
        ${unread > room.mentions && html`<span class="count">${unread > 99 ? '99+' : unread}</span>`}
        ${news && html`<span class="unseen">, ${news}</span>`}
      </button>
      <button type="button" class="plain room-leave" aria-label=${`Leave ${roomName(room.topic)}`} title="Leave" onClick=${() => salon.leaveRoom(room.topic)}>✕</button>
    </li>`;
}

/** @param {Visit} visit */
function newsOf({ room, person }) {
  return [person.asks.length > 0 && `${count(person.asks.length, 'question')} for you`, room.unread > 0 && `${room.unread} unread`,
    room.mentions > 0 && count(room.mentions, 'mention')].filter(Boolean).join(', ');
}

/** The window's title and sign say what is unread in all rooms, also while the page is hidden and nothing is drawn. */
export function useTitle() {
  const salon = useSalon();
  const { visits } = salon;
  const topic = salon.visit?.room.topic;
  useEffect(() => {
    const tell = () => {
      const all = visits.all();
      const unread = all.reduce((sum, { room }) => sum + room.unread, 0);
      const urgent = visits.asks > 0 || all.some(({ room }) => room.mentions > 0);
      const many = unread + visits.asks;
      document.title = `${many > 0 ? `(${many}${urgent ? '!' : ''}) ` : ''}${topic === undefined ? '' : `${roomName(topic)} · `}Salon`;
      sign(urgent);
    };
    tell();
    const end = visits.subscribe(tell);
    return () => {
      end();
      document.title = 'Salon';
      sign(false);
    };
  }, [visits, topic]);
}

/** @param {boolean} urgent */
function sign(urgent) {
  const link = /** @type {HTMLLinkElement|null} */ (document.querySelector('link[rel="icon"]'));
  const wanted = urgent ? 'icon-alert.svg' : 'icon.svg';
  if (link && !link.href.endsWith(`/${wanted}`)) link.href = link.href.replace(/[^/]*$/, wanted);
}

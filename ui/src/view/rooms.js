/** The rooms that the person is in, beside each other. */

import { html, useEffect } from '../../vendor/ui.js';
import { useRevision, useSalon, useSlowRevision } from '../app.js';
import { lastSaid, othersIn } from '../model/preview.js';
import { roomName } from '../model/route.js';
import { approvalsForMe } from '../powers.js';
import { count } from '../model/text.js';

/** @typedef {import('../visits.js').Visit} Visit */

/** @param {{onSwitch: () => void, onSearch: () => void}} props onSwitch: opens the list of rooms; onSearch: the search over what was said */
export function RoomList({ onSwitch, onSearch }) {
  const salon = useSalon();
  const { visits } = salon;
  useSlowRevision(visits);
  useRevision(salon.pins);
  const me = salon.session?.participant.id ?? '';
  const pinned = salon.pins.of(me);
  const open = visits.all().filter((visit) => visit === salon.visit || visit.connection.state.name !== 'closed').map(({ room }) => room.topic);
  const topics = [...new Set([...pinned, ...open])]
    .sort((a, b) => Number(pinned.includes(b)) - Number(pinned.includes(a)) || roomName(a).localeCompare(roomName(b)));
  return html`
    <nav class="room-list" aria-label="Rooms">
      <div class="room-list-head">
        <h2>Rooms</h2>
        <button type="button" class="plain small" title="Find or enter a room (Ctrl+K)" onClick=${onSwitch}>Find…</button>
        <button type="button" class="plain small" title="Search all rooms (Ctrl+Shift+F)" onClick=${onSearch}>Search…</button>
      </div>
      <ul>${topics.map((topic) => html`<${Entry} key=${topic} topic=${topic} visit=${visits.get(topic)} pinned=${pinned.includes(topic)} onPin=${() => salon.pins.toggle(me, topic)} />`)}</ul>
      <button type="button" class="plain small all-rooms" onClick=${() => salon.go({ view: 'lobby' })}>All rooms</button>
    </nav>`;
}

/** @param {{topic: string, visit?: Visit, pinned: boolean, onPin: () => void}} props visit: none where it is pinned and not entered */
function Entry({ topic, visit, pinned, onPin }) {
  const salon = useSalon();
  const current = visit !== undefined && visit === salon.visit;
  const name = roomName(topic);
  const unread = current ? 0 : visit?.room.unread ?? 0;
  return html`
    <li class="room-entry" data-current=${current ? '' : null} data-unread=${unread > 0 ? '' : null} data-pinned=${pinned ? '' : null}>
      <button type="button" class="room-go" aria-current=${current ? 'page' : null} title=${topic} onClick=${() => salon.go({ view: 'room', topic })}>
        <span class="room-dot" data-state=${visit?.connection.state.name ?? 'out'} aria-hidden="true"></span>
        <span class="clipped">${name}</span>
        ${visit && !current && html`<${News} visit=${visit} />`}
        ${visit && html`<${About} visit=${visit} />`}
      </button>
      <button type="button" class="plain room-act" aria-pressed=${pinned} aria-label=${`Pin ${name}`} title=${pinned ? 'Unpin' : 'Pin'} onClick=${onPin}>${pinned ? '★' : '☆'}</button>
      ${visit && html`<button type="button" class="plain room-act" aria-label=${`Leave ${name}`} title="Leave" onClick=${() => salon.leaveRoom(topic)}>✕</button>`}
    </li>`;
}

/** What waits in a room that is not shown. @param {{visit: Visit}} props */
function News({ visit }) {
  const { room } = visit;
  const asks = asksIn(visit, useSalon().session);
  const news = newsOf(visit, asks);
  return html`
    ${asks > 0 && html`<span class="count asks" title=${news}>?${asks}</span>`}
    ${room.mentions > 0 && html`<span class="count mentions">@${room.mentions}</span>`}
    ${room.unread > room.mentions && html`<span class="count">${room.unread > 99 ? '99+' : room.unread}</span>`}
    ${news && html`<span class="unseen">, ${news}</span>`}`;
}

/** What was said last, and how many others are there. @param {{visit: Visit}} props */
function About({ visit: { room } }) {
  const said = lastSaid(room);
  const others = othersIn(room).length;
  return html`<span class="room-about"><span class="clipped">${said}</span>${others > 0 && html`<span>${count(others, 'other')}</span>`}</span>`;
}

/** How many questions and held calls wait for the person. @param {Visit} visit @param {import('../model/types.js').SessionInfo|null} session */
function asksIn({ room, person }, session) {
  return person.asks.length + approvalsForMe(room, session).length;
}

/** @param {Visit} visit @param {number} asks */
function newsOf({ room }, asks) {
  return [asks > 0 && `${count(asks, 'question')} for you`, room.unread > 0 && `${room.unread} unread`,
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
      const asks = all.reduce((sum, visit) => sum + asksIn(visit, salon.session), 0);
      const urgent = asks > 0 || all.some(({ room }) => room.mentions > 0);
      const many = unread + asks;
      const title = `${many > 0 ? `(${many}${urgent ? '!' : ''}) ` : ''}${topic === undefined ? '' : `${roomName(topic)} · `}Salon`;
      if (title !== document.title) document.title = title;
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

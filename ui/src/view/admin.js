/** What operators do: see all rooms, who is in them and which guests the gateway hosts, invite, and revoke tokens. */

import { html, useEffect, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { keptFor } from '../model/retention.js';
import { roomName } from '../model/route.js';
import { ago, clip, count, moment } from '../model/text.js';
import { InviteDialog } from './invite.js';
import { Revoke } from './revoke.js';
import { Face } from './roster.js';

/** @typedef {import('../net/session.js').Guest} Guest */
/** @typedef {import('../net/session.js').Kept} Kept */
/** @typedef {import('../net/session.js').Topic} Topic */
/** @typedef {{id: string, name?: string, kind?: string}} Present */
/** @typedef {{topic: Topic, people: Present[], kept?: Kept}} ListedRoom */

/** How often everything is looked up, in milliseconds. */
const AGAIN = 10_000;
/** Of how many rooms the participants are listed. */
const MAX_ROOMS = 50;

/** What the conditions of guests are called. @type {Record<string, string>} */
const CONDITIONS = {
  starting: 'starting', here: 'in the room', away: 'disconnected, coming back', restarting: 'restarting', sign_in_needed: 'waiting for a sign-in', stopped: 'not running',
};

export function Admin() {
  const salon = useSalon();
  const permissions = salon.session?.permissions ?? [];
  const isOperator = permissions.includes('operator');
  return html`
    <main class="lobby admin" id="main" tabindex="-1">
      <h1>Administration</h1>
      ${!isOperator && !permissions.includes('revoke') && html`<p class="problem" role="alert">Your token has neither the permission operator nor revoke.</p>`}
      <${Rooms} canInvite=${isOperator} />
      ${isOperator && html`<${Guests} />`}
      ${permissions.includes('revoke') ? html`<${Revoke} />` : html`<p class="aside">To revoke tokens, yours needs the permission <code>revoke</code>.</p>`}
    </main>`;
}

/** @param {{canInvite: boolean}} props */
function Rooms({ canInvite }) {
  const { gateway } = useSalon();
  const { found: rooms, problem } = usePolled(() => lookUpRooms(gateway));
  const [inviting, setInviting] = useState(/** @type {string|null} */ (null));
  return html`
    <section aria-label="Rooms">
      <h2>Rooms and participants</h2>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${rooms === null && !problem && html`<p class="faint" role="status">Loading…</p>`}
      ${rooms?.length === 0 && html`<p class="faint">No rooms yet.</p>`}
      ${rooms?.map((room) => html`<${Room} key=${room.topic.name} room=${room} onInvite=${canInvite ? () => setInviting(room.topic.name) : null} />`)}
      ${inviting !== null && html`<${InviteDialog} topic=${inviting} onClose=${() => setInviting(null)} />`}
    </section>`;
}

/** @param {{room: ListedRoom, onInvite: (() => void)|null}} props */
function Room({ room: { topic, people, kept }, onInvite }) {
  const salon = useSalon();
  const name = roomName(topic.name);
  return html`
    <article class="admin-room">
      <header class="bar"><h3><button type="button" class="link" onClick=${() => salon.go({ view: 'room', topic: topic.name })}>${name}</button></h3>
        <span class="faint" title=${topic.newest ? moment(Date.parse(topic.newest)) : ''}>${count(topic.envelopes ?? 0, 'envelope')}${topic.newest ? `, the newest ${ago(Date.parse(topic.newest), Date.now())}` : ''}</span>
        ${kept && html`<span class="faint admin-kept" title="Retention: what the gateway and the settings of the room keep. It is changed in the settings of the room.">kept ${keptFor(kept)}</span>`}
        <span class="spring"></span>
        ${onInvite && html`<button type="button" class="small" onClick=${onInvite}>Invite…<span class="unseen"> to ${name}</span></button>`}</header>
      ${people.length === 0 ? html`<p class="aside">Nobody is here.</p>` : html`<ul class="admin-people">${people.map((person) => html`
        <li key=${person.id}><button type="button" class="roster-entry" title="Pause or remove in the room" onClick=${() => salon.go({ view: 'room', topic: topic.name, person: person.id })}>
          <${Face} id=${person.id} name=${person.name || person.id} present=${true} /><span class="roster-words"><span class="roster-name">${clip(person.name || person.id, 60)}</span>
          <span class="roster-kind">${person.id} · ${person.kind ?? 'participant'}</span></span></button></li>`)}</ul>`}
    </article>`;
}

function Guests() {
  const salon = useSalon();
  const { found: guests, problem } = usePolled(() => salon.gateway.guests());
  return html`
    <section aria-label="Guests">
      <h2>Guests</h2>
      <p class="aside">The MCP servers that this gateway hosts, as <code>salon.toml</code> names them.</p>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${guests?.length === 0 && html`<p class="aside">None.</p>`}
      ${guests && guests.length > 0 && html`<table class="admin-guests">
        <thead><tr><th scope="col">Guest</th><th scope="col">Room</th><th scope="col">State</th><th scope="col">Tools</th></tr></thead>
        <tbody>${guests.map((guest) => html`<tr key=${`${guest.topic} ${guest.id}`} data-state=${guest.state}>
          <th scope="row">${guest.id}${guest.server && html` <span class="faint">${clip(guest.server, 60)}</span>`}</th>
          <td><button type="button" class="link" onClick=${() => salon.go({ view: 'room', topic: guest.topic })}>${roomName(guest.topic)}</button></td>
          <td>${CONDITIONS[guest.state] ?? guest.state}${guest.why && html`<p class="aside">${clip(guest.why, 300)}</p>`}</td>
          <td>${guest.tools ?? ''}</td></tr>`)}</tbody></table>`}
    </section>`;
}

/** @param {import('../net/session.js').Gateway} gateway @returns {Promise<ListedRoom[]>} */
async function lookUpRooms(gateway) {
  const topics = (await gateway.topics()).sort((a, b) => (b.participants ?? 0) - (a.participants ?? 0)).slice(0, MAX_ROOMS);
  const rooms = [];
  for (const topic of topics) {
    const people = topic.participants ? await gateway.participants(topic.name) : [];
    // A room that admits members only does not show its settings to everybody.
    const kept = (await gateway.topic(topic.name).catch(() => null))?.kept;
    rooms.push({ topic, people, kept });
  }
  return rooms;
}

/** What is looked up now and then while the page is seen. @template T @param {() => Promise<T>} look @returns {{found: T|null, problem: string}} */
function usePolled(look) {
  const [state, setState] = useState(/** @type {{found: T|null, problem: string}} */ ({ found: null, problem: '' }));
  useEffect(() => {
    let gone = false;
    const again = async () => {
      if (document.hidden) return;
      try {
        const found = await look();
        if (!gone) setState({ found, problem: '' });
      } catch (error) {
        if (!gone) setState((before) => ({ ...before, problem: said(error) }));
      }
    };
    void again();
    const timer = setInterval(again, AGAIN);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, []);
  return state;
}

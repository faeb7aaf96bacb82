/** Who is in the room, and who was. */

import { html, useId, useState } from '../../vendor/ui.js';
import { GATEWAY } from '../model/envelope.js';
import { fullName, givenName, nameOf, presentPeople, statusText } from '../model/people.js';
import { clip, count, hueOf, initials } from '../model/text.js';
import { useRevision, useSalon, useSlowRevision } from '../app.js';
import { lazy } from './lazy.js';

/** @typedef {import('../model/types.js').Person} Person */

const InviteDialog = lazy(async () => (await import('./invite.js')).InviteDialog, { sheet: 'doing', quiet: true });
const StatusDialog = lazy(async () => (await import('./status.js')).StatusDialog, { sheet: 'doing', quiet: true });

/** From so many on one wants to search. */
const MANY = 12;
const MAX_SHOWN = 200;

export function Roster() {
  const { room, connection } = useSalon();
  useSlowRevision(room);
  useRevision(connection);
  const [search, setSearch] = useState('');
  const [inviting, setInviting] = useState(false);
  const [telling, setTelling] = useState(false);
  const id = useId();
  const here = presentPeople(room.people);
  const gone = [...room.people.values()].filter((person) => !person.present)
    .sort((a, b) => nameOf(room.people, a.id).localeCompare(nameOf(room.people, b.id)));
  const wanted = search.trim().toLowerCase();
  const fits = (/** @type {Person} */ { id: who, name = '', kind = '' }) => `${who} ${name} ${kind}`.toLowerCase().includes(wanted);
  const [shown, left] = [here.filter(fits), gone.filter(fits)];
  const others = here.filter((person) => person.id !== GATEWAY && person.id !== room.me);
  const { name: state } = connection.state;
  if (state === 'closed') return html`<div class="roster"><p class="aside">You are not in this room.</p></div>`;
  if (state === 'connecting' && here.length <= 1) return html`<div class="roster"><p class="aside" role="status">Entering…</p></div>`;
  return html`
    <div class="roster" data-stale=${connection.stands ? null : ''}>
      <button type="button" class="plain small invite-button" title="How to let somebody into this room" onClick=${() => setInviting(true)}>Invite…</button>
      <button type="button" class="plain small invite-button" title="Tell the room what you are doing" disabled=${!connection.stands} onClick=${() => setTelling(true)}>Status…</button>
      ${telling && html`<${StatusDialog} onClose=${() => setTelling(false)} />`}
      ${inviting && html`<${InviteDialog} topic=${room.topic} onClose=${() => setInviting(false)} />`}
      <h2 id=${id}>${connection.stands ? 'In the room' : 'Last seen here'} <span class="faint">${here.length - (room.people.get(GATEWAY)?.present ? 1 : 0)}</span></h2>
      ${here.length + gone.length > MANY && html`
        <input type="search" class="search" placeholder="Find somebody" aria-label="Find somebody" value=${search}
          onInput=${(/** @type {any} */ event) => setSearch(event.currentTarget.value)} />`}
      <ul aria-labelledby=${id}>${shown.slice(0, MAX_SHOWN).map((person) => html`<${Entry} key=${person.id} person=${person} />`)}</ul>
      ${shown.length > MAX_SHOWN && html`<p class="aside">and ${shown.length - MAX_SHOWN} more: search to find them</p>`}
      ${search && shown.length + left.length === 0 && html`<p class="aside">Nobody fits.</p>`}
      ${others.length === 0 && !search && connection.stands && html`
        <p class="aside">You are alone here. Bring somebody in with <code>salon join</code>, or give a friend
          a token from <code>salon token</code> and the address of this page.</p>`}
      ${left.length > 0 && html`
        <details class="gone" open=${search !== ''}>
          <summary>${count(left.length, 'has', 'have')} left</summary>
          <ul>${left.slice(0, MAX_SHOWN).map((person) => html`<${Entry} key=${person.id} person=${person} />`)}</ul>
        </details>`}
    </div>`;
}

/** @param {{person: Person}} props */
function Entry({ person }) {
  const salon = useSalon();
  const { room, panel } = salon;
  const name = givenName(room.people, person.id);
  // A name is what somebody chose; who it is, the id says.
  const id = fullName(room.people, person.id) !== name && html`<code class="who-id">${person.id}</code> · `;
  const current = panel?.panel === 'peer' && panel.id === person.id;
  const busy = person.present ? openCalls(room).get(person.id) ?? 0 : 0;
  const { settings } = room.control;
  const doing = person.present ? statusText(person) : '';
  const words = [kindOf(person), person.id === room.me && 'you', !person.present && 'left', settings?.paused?.includes(person.id) && 'paused', settings?.removed?.includes(person.id) && 'removed', person.via && `via ${clip(person.via, 60)}`,
    busy > 0 && `at work on ${count(busy, 'call')}`];
  return html`
    <li>
      <button type="button" class="roster-entry" data-present=${person.present ? '' : null} aria-current=${current ? 'true' : undefined}
        title=${person.id} onClick=${() => salon.open({ panel: 'peer', id: person.id })}>
        <${Face} id=${person.id} name=${name} present=${person.present} />
        <span class="roster-words">
          <span class="roster-name" data-hue=${hueOf(person.id)} dir="auto">${clip(name, 80)}</span>
          <span class="roster-kind">${id}${words.filter(Boolean).join(' · ')}</span>
          ${doing && html`<span class="roster-kind roster-status" data-status=${person.status?.status} title=${doing} dir="auto">${clip(doing, 220)}</span>`}
        </span>
      </button>
    </li>`;
}

/** @param {Person} person */
export function kindOf(person) {
  if (person.id === GATEWAY) return 'gateway';
  return ['human', 'agent', 'robot'].includes(person.kind ?? '') ? person.kind : 'participant';
}

/** @type {WeakMap<object, {revision: number, open: Map<string, number>}>} counted once for each change, not for each entry */
const counted = new WeakMap();

/** How many calls each has not answered yet. @param {import('../model/room.js').RoomModel} room */
function openCalls(room) {
  const known = counted.get(room);
  if (known?.revision === room.revision) return known.open;
  /** @type {Map<string, number>} */
  const open = new Map();
  for (const call of room.calls.values()) {
    if (call.state === 'running' && call.callee !== room.me) open.set(call.callee, (open.get(call.callee) ?? 0) + 1);
  }
  counted.set(room, { revision: room.revision, open });
  return open;
}

/**
 * A participant's letters in its colour, with a dot while it is present.
 * @param {{id: string, name: string, present: boolean}} props
 */
export function Face({ id, name, present }) {
  return html`<span class="face" data-hue=${hueOf(id)} data-present=${present ? '' : null} aria-hidden="true">${initials(name)}</span>`;
}

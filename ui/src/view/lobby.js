import { html, useEffect, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { previewFrom, previewOf } from '../model/preview.js';
import { isTopic, opens, roomName } from '../model/route.js';
import { ago, count, moment } from '../model/text.js';

/** @typedef {import('../net/session.js').Topic} Topic */
/** @typedef {import('../model/preview.js').Preview} Preview */

/** From so many on one wants to search. */
const MANY = 8;
/** How often the list is looked up, in milliseconds. */
const AGAIN = 10_000;
/** Of how many rooms that are not entered the last message is looked up, and in how many envelopes. */
const MAX_PREVIEWS = 12;
const LOOK_BACK = 20;

/** Chooses a room. */
export function Lobby() {
  const salon = useSalon();
  const [topics, setTopics] = useState(/** @type {Topic[]|null} */ (null));
  const [problem, setProblem] = useState('');
  const [search, setSearch] = useState('');
  useEffect(() => {
    let left = false;
    const look = async () => {
      if (document.hidden) return;
      try {
        const found = await salon.gateway.topics();
        if (left) return;
        setTopics(found);
        setProblem('');
      } catch (error) {
        if (!left) setProblem(said(error));
      }
    };
    void look();
    const timer = setInterval(look, AGAIN);
    return () => {
      left = true;
      clearInterval(timer);
    };
  }, []);

  useRevision(salon.pins);
  const me = salon.session?.participant.id ?? '';
  const pinned = salon.pins.of(me);
  const patterns = salon.session?.topics ?? [];
  const named = patterns.filter((name) => !name.endsWith('*'));
  const known = topics ?? [];
  /** @type {Topic[]} */
  const unentered = [...new Set([...named, ...pinned])].filter((name) => !known.some((topic) => topic.name === name)).map((name) => ({ name }));
  const rooms = [...known, ...unentered]
    .sort((a, b) => Number(pinned.includes(b.name)) - Number(pinned.includes(a.name)) || (b.participants ?? 0) - (a.participants ?? 0) || (b.newest ?? '').localeCompare(a.newest ?? ''));
  const wanted = search.trim().toLowerCase();
  const fits = rooms.filter(({ name, title = '', description = '' }) => `${name} ${title} ${description}`.toLowerCase().includes(wanted));
  const previews = usePreviews(fits.slice(0, MAX_PREVIEWS), me);
  return html`
    <main class="lobby" id="main" tabindex="-1">
      <h1>Rooms</h1>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${topics === null && !problem && html`<p class="faint">Loading rooms…</p>`}
      ${topics !== null && rooms.length === 0 && html`
        <p class="faint">No rooms yet. Enter a name below to create one.</p>`}
      ${rooms.length > 0 && html`
        ${rooms.length > MANY && html`<input type="search" class="search" placeholder="Find a room" aria-label="Find a room" value=${search}
          onInput=${(/** @type {any} */ event) => setSearch(event.currentTarget.value)} />`}
        <ul class="rooms">${fits.map((topic) => html`<${RoomLink} key=${topic.name} topic=${topic} preview=${previews.get(topic.name)?.preview} pinned=${pinned.includes(topic.name)} onPin=${() => salon.pins.toggle(me, topic.name)} />`)}</ul>`}
      <${EnterByName} patterns=${patterns} />
    </main>
  `;
}

/**
 * What the gateway has of rooms that are not entered; looked up again when something is new there.
 * @param {Topic[]} topics @param {string} me @returns {Map<string, {of: string, preview: Preview}>}
 */
function usePreviews(topics, me) {
  const { gateway, visits } = useSalon();
  const [known, setKnown] = useState(/** @type {Map<string, {of: string, preview: Preview}>} */ (new Map()));
  const due = topics.filter(({ name, newest, participants }) => newest && !visits.get(name) && known.get(name)?.of !== `${newest} ${participants}`);
  const key = due.map(({ name, newest }) => `${name} ${newest}`).join('\n');
  useEffect(() => {
    let gone = false;
    const look = async () => {
      // One after the other: a list is no reason to hurry the gateway.
      for (const { name, newest, participants } of due) {
        if (gone) return;
        try {
          const [{ envelopes }, people] = await Promise.all([gateway.history(name, { limit: LOOK_BACK }), participants ? gateway.participants(name) : []]);
          const preview = previewFrom(envelopes, people, me);
          if (!gone) setKnown((before) => new Map(before).set(name, { of: `${newest} ${participants}`, preview }));
        } catch {
          // The list is good without.
        }
      }
    };
    void look();
    return () => { gone = true; };
  }, [key]);
  return known;
}

/** @param {{topic: Topic, preview?: Preview, pinned: boolean, onPin: () => void}} props */
function RoomLink({ topic, preview, pinned, onPin }) {
  const salon = useSalon();
  const { name, participants, envelopes, newest } = topic;
  useRevision(salon.visits);
  const visit = salon.visits.get(name);
  const { said: last, people } = visit ? previewOf(visit.room) : preview ?? { said: '', people: '' };
  return html`
    <li class="room-item">
      <button type="button" class="plain room-pin" aria-pressed=${pinned} aria-label=${`Pin ${roomName(name)}`} title=${pinned ? 'Unpin' : 'Pin'} onClick=${onPin}>${pinned ? '★' : '☆'}</button>
      <button type="button" class="room" onClick=${() => salon.go({ view: 'room', topic: name })}>
        <b title=${name}>${topic.title || roomName(name)}${topic.title && html` <span class="faint">${roomName(name)}</span>`}${visit && html` <span class="entered">entered</span>`}${visit && visit.room.unread > 0 && html` <span class="count">${visit.room.unread} unread</span>`}</b>
        <span class="room-here" data-some=${(participants ?? 0) > 0 ? '' : null}>${participants ? `${participants} here` : 'empty'}</span>
        ${topic.description && html`<span class="room-said clipped">${topic.description}</span>`}
        ${last && html`<span class="room-said clipped">${last}</span>`}
        ${people && html`<span class="room-people clipped">${people}</span>`}
        <span class="faint" title=${newest ? moment(Date.parse(newest)) : ''}>
          ${envelopes ? count(envelopes, 'envelope') : 'nothing said yet'}${newest ? `, the newest ${ago(Date.parse(newest), Date.now())}` : ''}
        </span>
      </button>
    </li>
  `;
}

/** @param {{patterns: string[]}} props */
function EnterByName({ patterns }) {
  const salon = useSalon();
  const prefixes = patterns.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  const [name, setName] = useState(prefixes.find((prefix) => prefix !== '') ?? (prefixes.length > 0 ? 'room:' : ''));
  const [problem, setProblem] = useState('');
  if (prefixes.length === 0) return null;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const topic = name.trim();
    if (!isTopic(topic)) setProblem('A name has 1 to 128 letters and digits of ASCII, spaces between them, and ! # $ & \' ( ) + , - . : ; = @ [ ] ^ _ { | } ~');
    else if (!opens(patterns, topic)) setProblem(`You may enter ${patterns.join(', ')}.`);
    else salon.go({ view: 'room', topic });
  };
  return html`
    <form class="enter" onSubmit=${submit}>
      <label for="room-name">Enter or create a room by its name</label>
      <div class="bar">
        <input id="room-name" value=${name} spellcheck=${false} autocapitalize="off" autocomplete="off" aria-invalid=${problem !== ''}
          aria-describedby="room-problem"
          onInput=${(/** @type {any} */ event) => { setName(event.currentTarget.value); setProblem(''); }} />
        <button type="submit" class="primary">Enter</button>
      </div>
      <p id="room-problem" class="problem" role="alert">${problem}</p>
    </form>
  `;
}

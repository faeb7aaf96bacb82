import { html, useEffect, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { isTopic, opens, roomName } from '../model/route.js';
import { ago, count, moment } from '../model/text.js';

/** @typedef {import('../net/session.js').Topic} Topic */

/** From so many on one wants to search. */
const MANY = 8;
/** How often the list is looked up, in milliseconds. */
const AGAIN = 10_000;

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

  const patterns = salon.session?.topics ?? [];
  const named = patterns.filter((name) => !name.endsWith('*'));
  const known = topics ?? [];
  /** @type {Topic[]} */
  const unentered = named.filter((name) => !known.some((topic) => topic.name === name)).map((name) => ({ name }));
  const rooms = [...known, ...unentered]
    .sort((a, b) => (b.participants ?? 0) - (a.participants ?? 0) || (b.newest ?? '').localeCompare(a.newest ?? ''));
  const wanted = search.trim().toLowerCase();
  const fits = rooms.filter(({ name }) => name.toLowerCase().includes(wanted));
  return html`
    <main class="lobby" id="main" tabindex="-1">
      <h1>Rooms</h1>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${topics === null && !problem && html`<p class="faint">Looking for rooms…</p>`}
      ${topics !== null && rooms.length === 0 && html`
        <p class="faint">Nobody has entered a room yet. A room needs no creating: name one below and enter it.</p>`}
      ${rooms.length > 0 && html`
        ${rooms.length > MANY && html`<input type="search" class="search" placeholder="Find a room" aria-label="Find a room" value=${search}
          onInput=${(/** @type {any} */ event) => setSearch(event.currentTarget.value)} />`}
        <ul class="rooms">${fits.map((topic) => html`<${RoomLink} key=${topic.name} topic=${topic} />`)}</ul>`}
      <${EnterByName} patterns=${patterns} />
    </main>
  `;
}

/** @param {{topic: Topic}} props */
function RoomLink({ topic }) {
  const salon = useSalon();
  const { name, participants, envelopes, newest } = topic;
  useRevision(salon.visits);
  const visit = salon.visits.get(name);
  return html`
    <li>
      <button type="button" class="room" onClick=${() => salon.go({ view: 'room', topic: name })}>
        <b title=${name}>${roomName(name)}${visit && html` <span class="entered">entered</span>`}${visit && visit.room.unread > 0 && html` <span class="count">${visit.room.unread} unread</span>`}</b>
        <span class="room-here" data-some=${(participants ?? 0) > 0 ? '' : null}>${participants ? `${participants} here` : 'empty'}</span>
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
      <label for="room-name">Enter a room by its name</label>
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

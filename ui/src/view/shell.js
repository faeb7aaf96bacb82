import { html, useEffect, useLayoutEffect, useRef, useState } from '../../vendor/ui.js';
import { useRevision, useSalon, useSlowRevision } from '../app.js';
import { GATEWAY } from '../model/envelope.js';
import { presentPeople } from '../model/people.js';
import { roomName } from '../model/route.js';
import { approvalsForMe } from '../powers.js';
import { AccountMenu } from './accountmenu.js';
import { AskBadge } from './badge.js';
import { Composer } from './composer.js';
import { Filters } from './filters.js';
import { Guard } from './guard.js';
import { Mark, PeopleIcon } from './icons.js';
import { useKeys } from './keys.js';
import { lazy } from './lazy.js';
import { RoomBanner, RoomTools } from './roombar.js';
import { RoomList, useTitle } from './rooms.js';
import { Roster } from './roster.js';
import { SignIn } from './signin.js';
import { ConnectionBanner, ConnectionDot } from './state.js';
import { Transcript } from './transcript.js';
import { isAdrift, useArrival } from './arrival.js';

const Asks = lazy(async () => (await import('./asks.js')).Asks, { sheet: 'doing' });
const Timeline = lazy(async () => (await import('./timeline.js')).Timeline, { sheet: 'timeline' });
const PeerPanel = lazy(async () => (await import('./peer.js')).PeerPanel, { sheet: 'doing' });
const Switcher = lazy(async () => (await import('./switcher.js')).Switcher, { sheet: 'doing', quiet: true });
const SearchDialog = lazy(async () => (await import('./search.js')).SearchDialog, { sheet: 'doing', quiet: true });
const Inspector = lazy(async () => (await import('./inspector.js')).Inspector);
const ConfirmDialog = lazy(async () => (await import('./confirm.js')).ConfirmDialog, { sheet: 'doing', quiet: true });
const ThreadPanel = lazy(async () => (await import('./thread.js')).ThreadPanel, { sheet: 'doing' });
const SettingsPanel = lazy(async () => (await import('./settings.js')).SettingsPanel, { sheet: 'doing' });
const KeysHelp = lazy(async () => (await import('./keyshelp.js')).KeysHelp, { sheet: 'doing', quiet: true });

/** A room: those present at the left, the conversation in the middle, what was opened at the right. */
export function Shell() {
  const salon = useSalon();
  const { room, connection, panel, route } = salon;
  useRevision(connection);
  const [people, setPeople] = useState(false);
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState(false);
  const [searching, setSearching] = useState(false);
  const narrow = useNarrow();
  const escape = () => {
    const open = people || salon.panel !== null;
    if (people) setPeople(false);
    else salon.close();
    return open;
  };
  useKeys(salon, { people: () => setPeople((open) => !open), help: () => setHelp(true), find: () => setFinding(true), search: () => setSearching(true), escape });
  useTitle();
  useQuestions();
  // What was chosen in the sheet of people is shown in its place.
  useEffect(() => { if (panel) setPeople(false); }, [panel]);
  const side = useRef(/** @type {HTMLElement|null} */ (null));
  const peopleWere = useRef(false);
  useEffect(() => {
    if (people) /** @type {HTMLElement|null} */ (side.current?.querySelector('li button'))?.focus();
    // Where the sheet is gone with what had the focus, it goes back to what opened it. The browser may not have noticed yet that it is gone.
    else if (peopleWere.current && (isAdrift() || (narrow && side.current?.contains(document.activeElement)))) /** @type {HTMLElement|null} */ (document.querySelector('.people-button'))?.focus();
    peopleWere.current = people;
  }, [people]);
  useArrival();
  // On a narrow screen a sheet lies over the rest, which cannot be reached meanwhile.
  const sheet = narrow && (panel ? 'panel' : people ? 'people' : null);
  return html`
    <div class="shell" data-panel=${panel ? '' : null} data-people=${people ? '' : null}>
      <a class="skip" href="#main" inert=${Boolean(sheet)} onClick=${skip}>Skip to the conversation</a>
      <header class="top" inert=${Boolean(sheet)}>
        <button type="button" class="brand" onClick=${() => salon.go({ view: 'lobby' })} title="All rooms"><${Mark} /><span>Salon</span></button>
        <span class="faint" aria-hidden="true">/</span>
        <${RoomTitle} />
        <${ConnectionDot} />
        <${RoomTools} />
        <span class="spring"></span>
        <nav class="views" aria-label="Views">
          <${ViewTab} view="room" label="Transcript" />
          <${ViewTab} view="timeline" label="Timeline" />
        </nav>
        <${PeopleButton} open=${people} onToggle=${() => setPeople(!people)} />
        <${AskBadge} />
        <${AccountMenu} onHelp=${() => setHelp(true)} />
      </header>
      <div class="side" inert=${sheet === 'panel'} ...${sheet === 'people' ? { role: 'dialog', 'aria-modal': 'true', 'aria-label': 'Rooms and people' } : {}}>
        <button type="button" class="plain side-close" aria-label="Close" onClick=${() => setPeople(false)}>✕</button>
        <${RoomList} onSwitch=${() => setFinding(true)} onSearch=${() => setSearching(true)} />
        <nav aria-label="People" ref=${side}><${Guard} of=${room}><${Roster} /><//></nav>
      </div>
      <main class="middle" id="main" tabindex="-1" inert=${Boolean(sheet)}>
        <${ConnectionBanner} />
        <${RoomBanner} />
        <${Filters} />
        ${route.view === 'timeline' ? html`<${Timeline} />` : html`
          <${Transcript} />${connection.state.name !== 'closed' && html`<${Composer} />`}`}
      </main>
      ${panel && html`<${SidePanel} key=${`${panel.panel} ${panel.id ?? ''}`} modal=${sheet === 'panel'} />`}
      ${(panel || people) && html`<div class="scrim" onClick=${() => { setPeople(false); salon.close(); }}></div>`}
      <${Confirmation} />
      ${finding && html`<${Switcher} onClose=${() => setFinding(false)} />`}
      ${searching && html`<${SearchDialog} onClose=${() => setSearching(false)} />`}
      ${help && html`<${KeysHelp} onClose=${() => setHelp(false)} />`}
      ${connection.state.name === 'signed-out' && html`<${SignInAgain} />`}
    </div>
  `;
}

const NARROW = '(max-width: 999.9px)';

/** Whether there is no room for panels beside the conversation. */
function useNarrow() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const list = matchMedia(NARROW);
    const look = () => setNarrow(list.matches);
    look();
    list.addEventListener('change', look);
    return () => list.removeEventListener('change', look);
  }, []);
  return narrow;
}

/** @param {Event} event */
function skip(event) {
  // The fragment is the page's address.
  event.preventDefault();
  (document.getElementById('composer') ?? document.getElementById('main'))?.focus();
}

/** What the room is called: its title, or its topic without `room:`. */
function RoomTitle() {
  const { room } = useSalon();
  useSlowRevision(room);
  return html`<h1 class="room-name" title=${room.topic}>${room.control.settings?.title || roomName(room.topic)}</h1>`;
}

/** @param {{view: 'room'|'timeline', label: string}} props */
function ViewTab({ view, label }) {
  const salon = useSalon();
  const { route, room } = salon;
  return html`
    <button type="button" aria-current=${route.view === view ? 'page' : null}
      onClick=${() => salon.go({ view, topic: room.topic })}>${label}</button>`;
}

/** Shows the people where there is no room for them beside. @param {{open: boolean, onToggle: () => void}} props */
function PeopleButton({ open, onToggle }) {
  const { room } = useSalon();
  useSlowRevision(room);
  const here = presentPeople(room.people).filter((person) => person.id !== GATEWAY).length;
  return html`
    <button type="button" class="people-button" aria-expanded=${open} aria-label=${`People, ${here} here`} onClick=${onToggle}>
      <${PeopleIcon} /> ${here}
    </button>`;
}

const TITLES = { peer: 'Participant', inspector: 'Envelope', asks: 'For you', settings: 'Room', thread: 'Thread' };

/** @param {{modal: boolean}} props modal: whether it lies over everything else */
function SidePanel({ modal }) {
  const salon = useSalon();
  const { panel } = salon;
  const place = useRef(/** @type {HTMLElement|null} */ (null));
  // Opened by hand it gets the focus; a question that opens it by itself must not interrupt what is being written.
  // At once: a key that is pressed as soon as the panel is seen is meant for it.
  useLayoutEffect(() => { if (!salon.panels.quietly) place.current?.focus(); }, []);
  if (!panel) return null;
  return html`
    <aside class="panel" aria-label=${TITLES[panel.panel]} tabindex="-1" ref=${place} ...${modal ? { role: 'dialog', 'aria-modal': 'true' } : {}}>
      <header>
        <h2>${TITLES[panel.panel]}</h2>
        <span class="spring"></span>
        <button type="button" class="plain" aria-label="Close" title="Close (Esc)" onClick=${() => salon.close()}>✕</button>
      </header>
      <div class="panel-body"><${Guard} of=${panel}>
        ${panel.panel === 'peer' && html`<${PeerPanel} key=${panel.again ?? ''} id=${panel.id ?? ''} again=${panel.again} />`}
        ${panel.panel === 'inspector' && html`<${Inspector} envelopeId=${panel.id ?? ''} />`}
        ${panel.panel === 'asks' && html`<${Asks} />`}
        ${panel.panel === 'thread' && html`<${ThreadPanel} id=${panel.id ?? ''} />`}
        ${panel.panel === 'settings' && html`<${SettingsPanel} />`}
      <//></div>
    </aside>
  `;
}

/** The question about the oldest call that waits for it. */
function Confirmation() {
  const { rights } = useSalon();
  useRevision(rights);
  const pending = rights.pending[0];
  return pending ? html`<${ConfirmDialog} key=${pending.id} pending=${pending} />` : null;
}

/** Over the room, which stays as it is. */
function SignInAgain() {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useEffect(() => { dialog.current?.showModal(); }, []);
  return html`
    <dialog class="dialog" ref=${dialog} aria-label="Sign in again" onCancel=${(/** @type {Event} */ event) => event.preventDefault()}>
      <${SignIn} again />
    </dialog>`;
}

/** A question to the person opens its panel, where that hides nothing. */
function useQuestions() {
  const salon = useSalon();
  const { person, room } = salon;
  useEffect(() => {
    let known = 0;
    const look = () => {
      const now = person.asks.length + approvalsForMe(room, salon.session).length;
      if (now > known && !salon.panel && matchMedia('(min-width: 1000px)').matches) salon.openQuietly({ panel: 'asks' });
      known = now;
    };
    const ends = [person.subscribe(look), room.subscribe(look)];
    return () => ends.forEach((end) => end());
  }, [person]);
}

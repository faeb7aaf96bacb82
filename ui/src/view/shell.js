import { html, useEffect, useErrorBoundary, useRef, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { GATEWAY } from '../model/envelope.js';
import { presentPeople } from '../model/people.js';
import { roomName } from '../model/route.js';
import { areNotificationsOn, canNotify, setNotifications } from '../alerts.js';
import { AskBadge } from './badge.js';
import { Composer } from './composer.js';
import { Filters } from './filters.js';
import { Guard } from './guard.js';
import { PeopleIcon } from './icons.js';
import { useKeys } from './keys.js';
import { lazy } from './lazy.js';
import { Lobby } from './lobby.js';
import { RoomList, useTitle } from './rooms.js';
import { Roster } from './roster.js';
import { SignIn } from './signin.js';
import { ConnectionBanner, ConnectionDot, Toasts } from './state.js';
import { applyTheme, theme } from './theme.js';
import { Transcript } from './transcript.js';

/** @typedef {import('./theme.js').Theme} Theme */

const Asks = lazy(async () => (await import('./asks.js')).Asks, { sheet: 'doing' });
const Timeline = lazy(async () => (await import('./timeline.js')).Timeline, { sheet: 'timeline' });
const PeerPanel = lazy(async () => (await import('./peer.js')).PeerPanel, { sheet: 'doing' });
const Switcher = lazy(async () => (await import('./switcher.js')).Switcher, { sheet: 'doing', quiet: true });
const Inspector = lazy(async () => (await import('./inspector.js')).Inspector);
const ConfirmDialog = lazy(async () => (await import('./confirm.js')).ConfirmDialog, { sheet: 'doing', quiet: true });
const KeysHelp = lazy(async () => (await import('./keyshelp.js')).KeysHelp, { sheet: 'doing', quiet: true });

/** The whole page: signing in, choosing a room, or being in one. */
export function Page() {
  const salon = useSalon();
  useRevision(salon);
  const [broken, mend] = useErrorBoundary();
  if (broken) {
    return html`
      <main class="alone" id="main">
        <h1>Something in this page is broken</h1>
        <p>${said(broken)}</p>
        <button type="button" class="primary" onClick=${mend}>Go on</button>
      </main>`;
  }
  return html`<${Place} /><${Toasts} />`;
}

function Place() {
  const salon = useSalon();
  useRevision(salon);
  if (salon.account.starting) {
    return html`
      <main class="alone" id="main">
        ${salon.account.problem === null ? html`<p class="faint" role="status">Opening…</p>` : html`
          <h1>Salon</h1><p role="alert">${salon.account.problem}</p>
          <button type="button" class="primary" onClick=${() => void salon.account.retry()}>Try again</button>`}
      </main>`;
  }
  if (!salon.session) return html`<main class="alone" id="main"><${SignIn} /></main>`;
  if (salon.account.linkCode !== null) return html`<${LinkChoice} id=${salon.session.participant.id} />`;
  if (!salon.visit) return html`<${Front} />`;
  return html`<${Shell} key=${salon.visit.room.topic} />`;
}

/** A link may sign in somebody else than who is here. @param {{id: string}} props */
function LinkChoice({ id }) {
  const salon = useSalon();
  return html`
    <main class="alone" id="main">
      <h1>Sign in by this link?</h1>
      <p>You are signed in as <b>${id}</b>. The link may sign you in as somebody else, in every tab of this browser.</p>
      <div class="form-buttons">
        <button type="button" class="primary" onClick=${() => void salon.account.answerLink(true)}>Sign in by the link</button>
        <button type="button" onClick=${() => void salon.account.answerLink(false)}>Stay ${id}</button>
      </div>
    </main>`;
}

/** The list of rooms, with its bar. */
function Front() {
  const salon = useSalon();
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState(false);
  useKeys(salon, { people: () => {}, help: () => setHelp(true), find: () => setFinding(true) });
  useTitle();
  useArrival();
  return html`
    <div class="front">
      <header class="top"><span class="brand">Salon</span><span class="spring"></span><${Account} onHelp=${() => setHelp(true)} /></header>
      <${Lobby} />
      ${finding && html`<${Switcher} onClose=${() => setFinding(false)} />`}
      ${help && html`<${KeysHelp} onClose=${() => setHelp(false)} />`}
    </div>
  `;
}

/** A room: those present at the left, the conversation in the middle, what was opened at the right. */
export function Shell() {
  const salon = useSalon();
  const { room, connection, panel, route } = salon;
  useRevision(connection);
  const [people, setPeople] = useState(false);
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState(false);
  const narrow = useNarrow();
  const escape = () => {
    const open = people || salon.panel !== null;
    if (people) setPeople(false);
    else salon.close();
    return open;
  };
  useKeys(salon, { people: () => setPeople((open) => !open), help: () => setHelp(true), find: () => setFinding(true), escape });
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
        <button type="button" class="brand" onClick=${() => salon.go({ view: 'lobby' })} title="All rooms">Salon</button>
        <span class="faint" aria-hidden="true">/</span>
        <h1 class="room-name" title=${room.topic}>${roomName(room.topic)}</h1>
        <${ConnectionDot} />
        <span class="spring"></span>
        <nav class="views" aria-label="Views">
          <${ViewTab} view="room" label="Transcript" />
          <${ViewTab} view="timeline" label="Timeline" />
        </nav>
        <${PeopleButton} open=${people} onToggle=${() => setPeople(!people)} />
        <${AskBadge} />
        <${Account} onHelp=${() => setHelp(true)} />
      </header>
      <div class="side" inert=${sheet === 'panel'} ...${sheet === 'people' ? { role: 'dialog', 'aria-modal': 'true', 'aria-label': 'Rooms and people' } : {}}>
        <button type="button" class="plain side-close" aria-label="Close" onClick=${() => setPeople(false)}>✕</button>
        <${RoomList} onSwitch=${() => setFinding(true)} />
        <nav aria-label="People" ref=${side}><${Guard} of=${room}><${Roster} /><//></nav>
      </div>
      <main class="middle" id="main" tabindex="-1" inert=${Boolean(sheet)}>
        <${ConnectionBanner} />
        <${Filters} />
        ${route.view === 'timeline' ? html`<${Timeline} />` : html`
          <${Transcript} />${connection.state.name !== 'closed' && html`<${Composer} />`}`}
      </main>
      ${panel && html`<${SidePanel} key=${`${panel.panel} ${panel.id ?? ''}`} modal=${sheet === 'panel'} />`}
      ${(panel || people) && html`<div class="scrim" onClick=${() => { setPeople(false); salon.close(); }}></div>`}
      <${Confirmation} />
      ${finding && html`<${Switcher} onClose=${() => setFinding(false)} />`}
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

/** Whether nothing has the focus, because what had it is gone or covered. */
function isAdrift() {
  return document.activeElement === null || document.activeElement === document.body;
}

/** Whether the page has shown anything before: at first the focus is at the beginning, where it belongs. */
let arrived = false;

/**
 * In a room the person can write at once, and letters are no commands. Where the focus would bring up a keyboard over half of the screen it goes
 * to the view instead; and at first to nothing, at the beginning of the page.
 */
function useArrival() {
  useEffect(() => {
    const composer = matchMedia('(pointer: fine)').matches ? document.getElementById('composer') : null;
    if (isAdrift()) (composer ?? (arrived ? document.getElementById('main') : null))?.focus();
    arrived = true;
  }, []);
}

/** @param {Event} event */
function skip(event) {
  // The fragment is the page's address.
  event.preventDefault();
  (document.getElementById('composer') ?? document.getElementById('main'))?.focus();
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
  useRevision(room);
  const here = presentPeople(room.people).filter((person) => person.id !== GATEWAY).length;
  return html`
    <button type="button" class="people-button" aria-expanded=${open} aria-label=${`People, ${here} here`} onClick=${onToggle}>
      <${PeopleIcon} /> ${here}
    </button>`;
}

const TITLES = { peer: 'Participant', inspector: 'Envelope', asks: 'For you' };

/** @param {{modal: boolean}} props modal: whether it lies over everything else */
function SidePanel({ modal }) {
  const salon = useSalon();
  const { panel } = salon;
  const place = useRef(/** @type {HTMLElement|null} */ (null));
  // Opened by hand it gets the focus; a question that opens it by itself must not interrupt what is being written.
  useEffect(() => { if (!salon.panels.quietly) place.current?.focus(); }, []);
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

/** Who one is, and what concerns the whole page. @param {{onHelp: () => void}} props */
function Account({ onHelp }) {
  const salon = useSalon();
  const [now, setNow] = useState(theme());
  const [notifies, setNotifies] = useState(areNotificationsOn());
  const menu = useRef(/** @type {HTMLDetailsElement|null} */ (null));
  const close = () => { if (menu.current) menu.current.open = false; };
  const participant = salon.session?.participant;
  const choose = (/** @type {any} */ event) => {
    const chosen = /** @type {Theme} */ (event.currentTarget.value);
    applyTheme(chosen);
    setNow(chosen);
  };
  const away = (/** @type {FocusEvent} */ event) => {
    if (event.relatedTarget instanceof Node && menu.current?.contains(event.relatedTarget)) return;
    if (event.relatedTarget) close();
  };
  return html`
    <details class="menu" ref=${menu} onFocusOut=${away}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') { close(); menu.current?.querySelector('summary')?.focus(); } }}>
      <summary aria-label=${`${participant?.name || participant?.id}: settings. You are signed in as ${participant?.id}`}><span class="menu-name">${participant?.name || participant?.id}</span></summary>
      <div class="menu-body">
        <p>Signed in as <b>${participant?.id}</b></p>
        <label>Colours
          <select value=${now} onChange=${choose}>
            <option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option>
          </select>
        </label>
        ${canNotify() && html`<label>Desktop notifications
          <input type="checkbox" checked=${notifies} onChange=${async (/** @type {any} */ event) => setNotifies(await setNotifications(event.currentTarget.checked))} /></label>`}
        <button type="button" onClick=${() => { close(); onHelp(); }}>Keys <kbd>?</kbd></button>
        ${salon.visit && html`<button type="button" onClick=${() => salon.go({ view: 'lobby' })}>Other rooms</button>`}
        <button type="button" onClick=${() => void salon.account.signOut()}>Sign out</button>
      </div>
    </details>
  `;
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
  const { person } = salon;
  useEffect(() => {
    let known = 0;
    return person.subscribe(() => {
      const now = person.asks.length;
      if (now > known && !salon.panel && matchMedia('(min-width: 1000px)').matches) salon.openQuietly({ panel: 'asks' });
      known = now;
    });
  }, [person]);
}

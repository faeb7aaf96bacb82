import { html, useErrorBoundary, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { AccountMenu } from './accountmenu.js';
import { Mark } from './icons.js';
import { useKeys } from './keys.js';
import { lazy } from './lazy.js';
import { Lobby } from './lobby.js';
import { useTitle } from './rooms.js';
import { SignIn } from './signin.js';
import { Toasts } from './state.js';
import { Shell } from './shell.js';
import { useArrival } from './arrival.js';

const Switcher = lazy(async () => (await import('./switcher.js')).Switcher, { sheet: 'doing', quiet: true });
const Admin = lazy(async () => (await import('./admin.js')).Admin, { sheet: 'doing' });
const SearchDialog = lazy(async () => (await import('./search.js')).SearchDialog, { sheet: 'doing', quiet: true });
const KeysHelp = lazy(async () => (await import('./keyshelp.js')).KeysHelp, { sheet: 'doing', quiet: true });

/** The whole page: signing in, choosing a room, or being in one. */
export function Page() {
  const salon = useSalon();
  useRevision(salon);
  const [broken, reset] = useErrorBoundary();
  if (broken) {
    return html`
      <main class="alone" id="main">
        <h1>This page has an error</h1>
        <p>${said(broken)}</p>
        <button type="button" class="primary" onClick=${reset}>Try again</button>
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
  const { route } = salon;
  const [help, setHelp] = useState(false);
  const [finding, setFinding] = useState(false);
  const [searching, setSearching] = useState(false);
  useKeys(salon, { people: () => {}, help: () => setHelp(true), find: () => setFinding(true), search: () => setSearching(true) });
  useTitle();
  useArrival();
  return html`
    <div class="front">
      <header class="top"><button type="button" class="brand" title="All rooms" onClick=${() => salon.go({ view: 'lobby' })}><${Mark} /><span>Salon</span></button><span class="spring"></span>
        <button type="button" title="Search all rooms (Ctrl+Shift+F)" onClick=${() => setSearching(true)}>Search</button><${AccountMenu} onHelp=${() => setHelp(true)} /></header>
      ${route.view === 'lobby' && route.admin ? html`<${Admin} />` : html`<${Lobby} />`}
      ${searching && html`<${SearchDialog} onClose=${() => setSearching(false)} />`}
      ${finding && html`<${Switcher} onClose=${() => setFinding(false)} />`}
      ${help && html`<${KeysHelp} onClose=${() => setHelp(false)} />`}
    </div>
  `;
}

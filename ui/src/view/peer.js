/** One participant: who it is, and what it offers. */

import { html, useEffect, useId, useRef, useState } from '../../vendor/ui.js';
import { nameOf, statusText } from '../model/people.js';
import { clip, count, moment } from '../model/text.js';
import { Catalogue } from '../net/catalogue.js';
import { useRevision, useSalon } from '../app.js';
import { TalkAlone } from './alone.js';
import { AllowedTools } from './confirm.js';
import { ParticipantControl } from './moderate.js';
import { PromptView, ResourceView, ToolView } from './offer.js';
import { Face, kindOf } from './roster.js';

/** @typedef {import('../net/catalogue.js').Kind} Kind */
/** @typedef {import('../net/catalogue.js').List} List */
/** @typedef {{kind: Kind, name: string}} Chosen what is open of a participant's offers */

/** From so many on one wants to search. */
const MANY = 8;
const MAX_SHOWN = 300;
/** How long a list that has changed is left alone, so that its owner cannot keep the page busy. */
const PAUSE_MS = 1000;

/** @type {WeakMap<object, Catalogue>} one for each room, as long as somebody has the room */
const catalogues = new WeakMap();

/** @param {import('../app.js').Salon} salon */
function catalogueOf({ room, peer }) {
  const known = catalogues.get(room) ?? new Catalogue({ room, peer });
  catalogues.set(room, known);
  return known;
}

/** @param {{id: string, again?: string}} props again: a call whose tool is opened, with its arguments */
export function PeerPanel({ id, again }) {
  const { room } = useSalon();
  return id === room.me ? html`<${Me} />` : html`<${Other} key=${id} id=${id} again=${again} />`;
}

/** @param {{id: string}} props */
function Head({ id }) {
  const salon = useSalon();
  const { room } = salon;
  const person = room.people.get(id);
  const name = nameOf(room.people, id);
  const since = person?.present ? person.joinedAt : undefined;
  return html`
    <header class="peer-head">
      <${Face} id=${id} name=${name} present=${person?.present ?? false} />
      <div>
        <h3 dir="auto">${clip(name, 120)}</h3>
        <p class="faint"><code>${id}</code> · ${person ? kindOf(person) : 'unknown'} · ${person?.present ? 'here' : 'not here'}
          ${since !== undefined && html` since <time datetime=${new Date(since).toISOString()}>${moment(since)}</time>`}
          ${' · '}<button type="button" class="link" title="Copy a link to this participant" onClick=${() => void salon.copyLink({ person: id })}>Link</button></p>
        ${person?.via && html`<p class="faint">Here by the bridge <code>${clip(person.via, 120)}</code></p>`}
        ${person?.status && html`<p dir="auto">${clip(statusText(person), 300)}${person.status.until && html` <span class="faint">until <time datetime=${person.status.until}>${moment(Date.parse(person.status.until))}</time></span>`}</p>`}
      </div>
    </header>`;
}

function Me() {
  const { room } = useSalon();
  useRevision(room);
  return html`
    <div class="peer">
      <${Head} id=${room.me} />
      <p>This is you. Others in the room can call your tools <code>ask_human</code>, which puts a question to you, and
        <code>show_human</code>.</p>
      <section><h4>Called without asking you</h4><${AllowedTools} /></section>
    </div>`;
}

/** @type {{tab: string, title: string, kinds: Kind[]}[]} */
const TABS = [
  { tab: 'tools', title: 'Tools', kinds: ['tools'] },
  { tab: 'resources', title: 'Resources', kinds: ['resources', 'templates'] },
  { tab: 'prompts', title: 'Prompts', kinds: ['prompts'] },
];

/** @param {{id: string, again?: string}} props */
function Other({ id, again }) {
  const salon = useSalon();
  const catalogue = catalogueOf(salon);
  useRevision(salon.room);
  useRevision(catalogue);
  const present = salon.room.people.get(id)?.present ?? false;
  const offer = catalogue.of(id);
  const repeated = again === undefined ? undefined : salon.room.calls.get(again);
  const [chosen, setChosen] = useState(/** @type {Chosen | null} */ (repeated?.tool === undefined ? null : { kind: 'tools', name: repeated.tool }));
  const last = useRef(/** @type {Chosen | null} */ (null));
  const choose = (/** @type {Chosen | null} */ now) => {
    last.current = chosen;
    setChosen(now);
  };
  useEffect(() => {
    if (present) void catalogue.meet(id);
  }, [present, offer]);
  // A person who comes from a call has not looked at the list that has its tool.
  useEffect(() => {
    if (repeated && offer.info && offer.lists.tools.state === 'unread') void catalogue.read(id, 'tools');
  }, [offer]);
  const item = chosen && offer.lists[chosen.kind].items.find((one) => nameIn(one) === chosen.name);
  return html`
    <div class="peer">
      <${Head} id=${id} />
      <${ParticipantControl} id=${id} />
      <${TalkAlone} id=${id} />
      ${!present && html`<p class="aside">It is not in the room now, so it cannot be asked anything.</p>`}
      ${present && offer.state === 'meeting' && html`<p class="aside" role="status">Connecting…</p>`}
      ${present && offer.state === 'failed' && html`
        <div class="error-note" role="alert"><p>What it offers could not be listed: ${clip(offer.error ?? '', 500)}</p>
          <button type="button" class="small" onClick=${() => catalogue.meet(id, true)}>Try again</button></div>`}
      ${offer.info && (chosen && item
        ? html`<${Detail} key=${`${chosen.kind} ${chosen.name}`} id=${id} chosen=${chosen} item=${item} repeated=${repeated} onBack=${() => choose(null)} />`
        : html`<${Offers} id=${id} catalogue=${catalogue} last=${last.current} onChoose=${choose} />`)}
    </div>`;
}

/** The first that is words: strangers may say anything. @param {unknown[]} said @returns {string} */
const firstWords = (...said) => /** @type {string} */ (said.find((one) => typeof one === 'string') ?? '');

/** @param {any} item */
const nameIn = (item) => firstWords(item.uri, item.uriTemplate, item.name);

/** @param {any} item */
const titleIn = (item) => firstWords(item.title, item.annotations?.title, item.name, nameIn(item));

/** @param {{id: string, chosen: Chosen, item: any, repeated?: import('../model/types.js').Call, onBack: () => void}} props */
function Detail({ id, chosen, item, repeated, onBack }) {
  const back = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => back.current?.focus(), []);
  const View = { tools: ToolView, resources: ResourceView, templates: ResourceView, prompts: PromptView }[chosen.kind];
  return html`
    <section class="detail">
      <button type="button" class="plain small" ref=${back} onClick=${onBack}>← All ${chosen.kind === 'templates' ? 'resources' : chosen.kind}</button>
      <${View} id=${id} item=${item} repeated=${repeated?.tool === chosen.name ? repeated : undefined} />
    </section>`;
}

/** @param {{id: string, catalogue: Catalogue, last: Chosen | null, onChoose: (chosen: Chosen) => void}} props */
function Offers({ id, catalogue, last, onChoose }) {
  const [tab, setTab] = useState(TABS.find(({ kinds }) => last && kinds.includes(last.kind))?.tab
    ?? TABS.find(({ kinds }) => kinds.some((kind) => catalogue.offersKind(id, kind)))?.tab ?? 'tools');
  const base = useId();
  const offer = catalogue.of(id);
  // Back from one of them, it has the focus again.
  useEffect(() => document.getElementById(`${base}-last`)?.focus(), []);
  const current = TABS.find((one) => one.tab === tab) ?? TABS[0];
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = TABS[(TABS.findIndex((one) => one.tab === tab) + step + TABS.length) % TABS.length];
    if (!next) return;
    setTab(next.tab);
    document.getElementById(`${base}-${next.tab}`)?.focus();
  };
  const size = (/** @type {Kind[]} */ kinds) => kinds.reduce((sum, kind) => sum + offer.lists[kind].items.length, 0);
  return html`
    ${offer.info?.instructions && html`<details class="instructions"><summary>Instructions</summary>
      <p class="plain-text" dir="auto">${clip(offer.info.instructions, 10_000)}</p></details>`}
    <div class="tabs" role="tablist" aria-label="What it offers" onKeyDown=${move}>
      ${TABS.map((one) => html`
        <button type="button" role="tab" key=${one.tab} id=${`${base}-${one.tab}`} aria-selected=${one.tab === tab}
          aria-controls=${`${base}-panel`} tabindex=${one.tab === tab ? 0 : -1} onClick=${() => setTab(one.tab)}>
          ${one.title}${size(one.kinds) > 0 && html` <span class="faint">${size(one.kinds)}</span>`}
        </button>`)}
    </div>
    <div role="tabpanel" id=${`${base}-panel`} aria-labelledby=${`${base}-${tab}`}>
      ${current && html`<${Lists} key=${tab} id=${id} kinds=${current.kinds} title=${current.title} catalogue=${catalogue} onChoose=${onChoose}
        last=${last} lastId=${`${base}-last`} />`}
    </div>`;
}

/**
 * @param {{id: string, kinds: Kind[], title: string, catalogue: Catalogue, onChoose: (chosen: Chosen) => void, last: Chosen | null,
 *   lastId: string}} props
 */
function Lists({ id, kinds, title, catalogue, ...rest }) {
  const [search, setSearch] = useState('');
  const offer = catalogue.of(id);
  const offered = kinds.filter((kind) => catalogue.offersKind(id, kind));
  const stale = offered.some((kind) => offer.lists[kind].stale);
  useEffect(() => {
    if (!stale) offered.forEach((kind) => void catalogue.read(id, kind));
  }, [offer]);
  useEffect(() => {
    if (!stale) return undefined;
    const timer = setTimeout(() => offered.forEach((kind) => void catalogue.read(id, kind)), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [stale]);
  if (offered.length === 0) return html`<p class="empty">It offers no ${title.toLowerCase()}.</p>`;
  const find = `Search ${title.toLowerCase()}`;
  const all = offered.reduce((sum, kind) => sum + offer.lists[kind].items.length, 0);
  return html`
    ${all > MANY && html`
      <input type="search" class="search" placeholder=${find} aria-label=${find} value=${search}
        onInput=${(/** @type {any} */ event) => setSearch(event.currentTarget.value)} />`}
    ${offered.map((kind) => html`
      <${OneList} key=${kind} kind=${kind} list=${offer.lists[kind]} search=${search} alone=${offered.length === 1} ...${rest}
        onRetry=${() => catalogue.read(id, kind, true)} />`)}`;
}

const NAMES = { tools: 'tools', resources: 'resources', templates: 'templates', prompts: 'prompts' };

/**
 * @param {{kind: Kind, list: List, search: string, alone: boolean, onChoose: (chosen: Chosen) => void, onRetry: () => void,
 *   last: Chosen | null, lastId: string}} props
 */
function OneList({ kind, list, search, alone, onChoose, onRetry, last, lastId }) {
  const wanted = search.trim().toLowerCase();
  const fits = wanted === '' ? list.items : list.items.filter((item) => [item.name, item.title, item.description, item.uri, item.uriTemplate]
    .some((part) => typeof part === 'string' && part.toLowerCase().includes(wanted)));
  return html`
    ${!alone && list.items.length > 0 && html`<h4>${kind === 'templates' ? 'Templates' : 'Resources'}</h4>`}
    ${list.state === 'failed' && html`
      <div class="error-note" role="alert"><p>The ${NAMES[kind]} could not be read: ${clip(list.error ?? '', 500)}</p>
        <button type="button" class="small" onClick=${onRetry}>Try again</button></div>`}
    <ul class="offer-list">
      ${fits.slice(0, MAX_SHOWN).map((item, index) => html`
        <li key=${`${index} ${nameIn(item)}`}>
          <button type="button" class="offer" id=${last?.kind === kind && last.name === nameIn(item) ? lastId : undefined}
            onClick=${() => onChoose({ kind, name: nameIn(item) })}>
            <span class="offer-name">${clip(titleIn(item), 120)}</span>
            ${item.annotations?.destructiveHint === true && html` <span class="claim" data-warn>may destroy</span>`}
            ${nameIn(item) !== titleIn(item) && html` <code>${clip(nameIn(item), 120)}</code>`}
            ${typeof item.description === 'string' && html`<span class="offer-about" dir="auto">${clip(item.description, 200)}</span>`}
          </button>
        </li>`)}
    </ul>
    ${fits.length > MAX_SHOWN && html`<p class="aside">and ${count(fits.length - MAX_SHOWN, 'more')}: search to find them</p>`}
    ${list.state === 'reading' && list.items.length === 0 && html`<p class="aside" role="status">Asking…</p>`}
    ${list.state === 'read' && list.items.length === 0 && alone && html`<p class="empty">It offers no ${NAMES[kind]} now.</p>`}
    ${list.items.length > 0 && fits.length === 0 && html`<p class="aside">None of the ${list.items.length} ${NAMES[kind]} fits.</p>`}
    ${list.cut && html`<p class="aside">There are more than are read here.</p>`}`;
}

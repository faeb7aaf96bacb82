/** Search over all history of all rooms that the person may read: Ctrl+Shift+F. */

import { html, useEffect, useId, useRef, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { roomName } from '../model/route.js';
import { ago, count, moment } from '../model/text.js';
import { useDialog } from './dialog.js';

/** @typedef {import('../net/session.js').SearchHit} SearchHit */
/** @typedef {import('../net/session.js').SearchPage} SearchPage */

/** How long nothing is typed before the gateway is asked, in milliseconds. */
const PAUSE_MS = 250;

const KINDS = { chat: 'message', call: 'call', result: 'answer' };

/** @param {{onClose: () => void}} props */
export function SearchDialog({ onClose }) {
  const salon = useSalon();
  const dialog = useDialog();
  const [typed, setTyped] = useState('');
  const [only, setOnly] = useState(false);
  const [chosen, setChosen] = useState(0);
  const here = salon.visit?.room.topic;
  const { hits, page, problem, busy, more } = useSearch(typed, only ? here : undefined);
  const id = useId();
  const at = Math.min(chosen, hits.length - 1);
  const go = (/** @type {SearchHit|undefined} */ hit) => {
    if (!hit) return;
    dialog.current?.close();
    salon.goTo(hit.topic, hit.id);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') setChosen((at + (event.key === 'ArrowDown' ? 1 : hits.length - 1)) % Math.max(1, hits.length));
    else if (event.key === 'Enter') go(hits[at]);
    else return;
    event.preventDefault();
  };
  return html`
    <dialog class="dialog switcher search-all" ref=${dialog} onClose=${onClose} aria-label="Search all rooms">
      <input type="search" role="combobox" aria-expanded="true" aria-controls=${id} aria-label="Search for" placeholder="Search messages, calls and answers" autofocus autocomplete="off"
        aria-activedescendant=${hits.length > 0 ? `${id}-${at}` : null} value=${typed} onKeyDown=${key}
        onInput=${(/** @type {any} */ event) => { setTyped(event.currentTarget.value); setChosen(0); }} />
      <div class="bar">
        ${here !== undefined && html`<label class="check"><input type="checkbox" checked=${only} onChange=${(/** @type {any} */ event) => setOnly(event.currentTarget.checked)} /><span>Only in ${roomName(here)}</span></label>`}
        <span class="spring"></span><span class="faint" role="status">${busy ? 'Searching…' : page && hits.length > 0 ? count(hits.length, 'hit') + (page.next ? ' so far' : '') : ''}</span>
      </div>
      ${problem && html`<p class="error-note" role="alert">${problem}</p>`}
      <ul id=${id} role="listbox" aria-label="Hits">
        ${hits.map((hit, index) => html`
          <li key=${`${hit.topic} ${hit.id}`} id=${`${id}-${index}`} role="option" aria-selected=${index === at} onClick=${() => go(hit)}>
            <span class="hit-head"><b>${hit.from}</b> <span class="faint">${KINDS[hit.kind ?? 'chat'] ?? ''} in ${roomName(hit.topic)}, <time datetime=${hit.ts} title=${moment(Date.parse(hit.ts))}>${ago(Date.parse(hit.ts), Date.now())}</time></span></span>
            <span class="hit-text" dir="auto">${marked(hit)}</span></li>`)}
      </ul>
      ${page?.next && html`<button type="button" class="small" disabled=${busy} onClick=${more}>Show more</button>`}
      ${page && hits.length === 0 && !busy && html`<p class="faint">Nothing found.</p>`}
      ${page && !page.complete && html`<p class="audience">${extent(page)}</p>`}
      ${!page && !busy && html`<p class="faint">All words must occur. "Several words" in quotes are a phrase, and <code>migrat*</code> finds what begins so.</p>`}
    </dialog>`;
}

/** What was not searched. @param {SearchPage} page */
function extent({ searched }) {
  if (searched?.pending) return `${count(searched.pending, 'envelope')} are not in the index yet.`;
  return searched?.since ? `Only what came since ${moment(Date.parse(searched.since))} was searched.` : 'Not everything was searched.';
}

/** The text with its matches marked. @param {SearchHit} hit */
function marked({ snippet, matches = [] }) {
  const parts = [];
  let done = 0;
  for (const [begin, end] of matches) {
    parts.push(snippet.slice(done, begin), html`<mark>${snippet.slice(begin, end)}</mark>`);
    done = end;
  }
  return [...parts, snippet.slice(done)];
}

/** Asks the gateway once nothing was typed for a moment. @param {string} typed @param {string|undefined} topic */
function useSearch(typed, topic) {
  const { gateway } = useSalon();
  const [state, setState] = useState(/** @type {{hits: SearchHit[], page: SearchPage|null, problem: string, busy: boolean}} */ ({ hits: [], page: null, problem: '', busy: false }));
  const newest = useRef(0);
  const words = typed.trim();
  const ask = async (/** @type {SearchHit[]} */ before, /** @type {string|undefined} */ from) => {
    const mine = newest.current += 1;
    setState((now) => ({ ...now, busy: true, problem: '' }));
    try {
      const page = await gateway.search(words, { topic, before: from });
      if (mine === newest.current) setState({ hits: [...before, ...page.hits], page, problem: '', busy: false });
    } catch (error) {
      if (mine === newest.current) setState({ hits: before, page: null, problem: said(error), busy: false });
    }
  };
  useEffect(() => {
    newest.current += 1;
    if (words === '') {
      setState({ hits: [], page: null, problem: '', busy: false });
      return undefined;
    }
    const timer = setTimeout(() => void ask([], undefined), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words, topic]);
  return { ...state, more: () => void ask(state.hits, state.page?.next) };
}

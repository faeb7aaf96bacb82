import { html, useEffect, useMemo, useState } from '../../vendor/ui.js';
import { choices, EVERYTHING, isEmpty, KINDS, predicate } from '../model/filter.js';
import { count } from '../model/text.js';
import { useSalon, useSlowRevision } from '../app.js';
import { lazy } from './lazy.js';

/** @typedef {import('../model/filter.js').Filter} Filter */

/** What was chosen in each room, so that going to the timeline and back loses nothing. @type {WeakMap<object, Filter>} */
const chosen = new WeakMap();

const RunDialog = lazy(async () => (await import('./run.js')).RunDialog, { sheet: 'doing', quiet: true });

/** How many participants can be chosen from. */
const MAX_CHOICES = 100;

/** Chooses what the transcript and the timeline show, and says how much that hides. */
export function Filters() {
  const salon = useSalon();
  const { room } = salon;
  const revision = useSlowRevision(room);
  const [filter, setFilter] = useState(() => chosen.get(room) ?? EVERYTHING);
  const [open, setOpen] = useState(false);
  const [run, setRun] = useState(false);
  const [found, setFound] = useState(EMPTY);

  const change = (/** @type {Partial<Filter>} */ part) => {
    const next = { ...filter, ...part };
    chosen.set(room, next);
    setFilter(next);
    salon.setFilter(predicate(next));
  };
  const wanted = salon.route.view === 'lobby' ? undefined : salon.route.filter;
  useEffect(() => {
    const now = wanted ?? chosen.get(room) ?? EVERYTHING;
    chosen.set(room, now);
    setFilter(now);
    salon.setFilter(predicate(now));
  }, [room, wanted]);
  // What there is to choose from is looked up when somebody wants to choose, not with every envelope.
  useEffect(() => {
    if (open) setFound(choices(room));
  }, [open, room]);

  const { all, shown } = useMemo(() => {
    const passes = predicate(filter);
    const rows = room.items.filter((item) => item.type !== 'day');
    return { all: rows.length, shown: passes ? rows.filter(passes).length : rows.length };
  }, [room, filter, revision]);
  const parts = filter.people.length + filter.kinds.length + (filter.method.trim() ? 1 : 0);

  return html`
    <form class="filters" role="search" aria-label="Filter the room" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <div class="filters-line">
        <input type="search" class="filter-text" id="filter-text" placeholder="Filter by text…" aria-label="Filter by text"
          value=${filter.text} onInput=${(/** @type {any} */ event) => change({ text: event.currentTarget.value })} />
        <button type="button" aria-expanded=${open} aria-controls="filter-more" onClick=${() => setOpen(!open)}>
          Filters${parts > 0 ? ` (${parts})` : ''}
        </button>
        <output class="faint" aria-live="polite">
          ${isEmpty(filter) ? count(all, 'row') : `${shown} shown, ${all - shown} hidden`}
        </output>
        ${!isEmpty(filter) && html`<button type="button" class="link" onClick=${() => change(EVERYTHING)}>Clear</button>
          <button type="button" class="link" title="Copy a link to the room with this filter" onClick=${() => void salon.copyLink({ filter })}>Link</button>`}
        <button type="button" title="Numbers of this run, and the transcript as a file" onClick=${() => setRun(true)}>Summary</button>
      </div>
      <div id="filter-more" class="filters-more" hidden=${!open}>
        <fieldset><legend>Kind</legend>
          ${KINDS.map(({ kind, label }) => html`
            <${Choice} key=${kind} label=${label} value=${kind} list=${filter.kinds}
              onChange=${(/** @type {any} */ kinds) => change({ kinds })} />`)}
        </fieldset>
        <fieldset><legend>Participant</legend>
          ${[...new Set([...filter.people, ...found.people.slice(0, MAX_CHOICES)])].map((id) => html`
            <${Choice} key=${id} label=${id} value=${id} list=${filter.people}
              onChange=${(/** @type {any} */ people) => change({ people })} />`)}
          ${found.people.length > MAX_CHOICES && html`<span class="faint">and ${found.people.length - MAX_CHOICES} more: write the id into the field above</span>`}
        </fieldset>
        <label class="filter-method">Method or tool
          <input list="filter-methods" value=${filter.method} placeholder="any"
            onInput=${(/** @type {any} */ event) => change({ method: event.currentTarget.value })} />
          <datalist id="filter-methods">${found.methods.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
        </label>
      </div>
      ${run && html`<${RunDialog} onClose=${() => setRun(false)} />`}
    </form>
  `;
}

/** @type {{people: string[], methods: string[]}} */
const EMPTY = { people: [], methods: [] };

/** @param {{label: string, value: string, list: string[], onChange: (list: string[]) => void}} props */
function Choice({ label, value, list, onChange }) {
  const on = list.includes(value);
  const toggle = () => onChange(on ? list.filter((each) => each !== value) : [...list, value]);
  return html`<label class="chip"><input type="checkbox" checked=${on} onChange=${toggle} />${label}</label>`;
}

import { html, useEffect, useMemo, useState } from '../../vendor/ui.js';
import { isPreparation } from '../model/calls.js';
import { coveredTime, criticalPath } from '../model/critical.js';
import { argumentsLine, outcomeLine, titleOf } from '../model/reading.js';
import { briefly } from '../model/summary.js';
import { clockSeconds, clip, count, duration, hueOf } from '../model/text.js';
import { scaleOf } from '../model/scale.js';
import { density, lay, saidIn } from '../model/timeline.js';
import { useRevision, useSalon, useSlowRevision } from '../app.js';
import { whenLive } from '../visits.js';
import { Chart } from './chart.js';
import { useSize, useWindow } from './window.js';
import { Name } from './who.js';

/** @typedef {import('../model/timeline.js').Bar} Bar */
/** @typedef {import('../model/timeline.js').Layout} Layout */
/** @typedef {import('../model/scale.js').Scale} Scale */
/** @typedef {import('./window.js').Window} Window */

/** Between two layouts of a busy room, in milliseconds: all of it is laid out again for every envelope. */
const DRAW_INTERVAL = 250;

/** Calls over time: who worked when, for whom, and what ran at the same time. */
export function Timeline() {
  const salon = useSalon();
  const { room } = salon;
  const revision = useSlowRevision(room, DRAW_INTERVAL);
  useRevision(salon);
  const [by, setBy] = useState(/** @type {import('../model/timeline.js').Grouping} */ ('people'));
  const [fold, setFold] = useState(true);
  const [all, setAll] = useState(false);
  const [tracing, setTracing] = useState(false);
  const [selected, setSelected] = useState(/** @type {string|null} */ (null));
  const [hovered, setHovered] = useState(/** @type {string|null} */ (null));

  const calls = useMemo(() => {
    const passes = salon.filter;
    return [...room.calls.values()].filter((call) => (all || !isPreparation(call.method))
      && (!passes || passes({ type: 'call', id: call.id, rev: 0, call })));
  }, [room, revision, all, salon.filter]);
  // What takes longer to lay out is laid out less often.
  const now = useNow(calls.some((call) => call.state === 'running'), calls.length > 1000 ? 1000 : DRAW_INTERVAL);
  const said = useMemo(() => saidIn(room.envelopes.values()), [room, revision]);
  const layout = useMemo(() => lay(calls, { by, now, said }), [calls, by, now, said]);
  const scale = useMemo(() => scaleOf(layout.bars, { fold }), [layout, fold]);
  const window = useWindow(scale);
  useRange(scale, window, revision);
  const shown = layout.byId.get(hovered ?? selected ?? '');
  const chosen = layout.byId.get(selected ?? '');
  const critical = useMemo(() => (tracing ? criticalPath(layout, chosen) : null), [tracing, layout, chosen]);

  const toolbar = html`
    <div class="tl-tools" role="toolbar" aria-label="Timeline">
      <span class="segmented">
        <button type="button" aria-pressed=${by === 'people'} onClick=${() => setBy('people')}>Participants</button>
        <button type="button" aria-pressed=${by === 'tools'} onClick=${() => setBy('tools')}>Tools</button>
        <button type="button" aria-pressed=${by === 'calls'} onClick=${() => setBy('calls')}>Calls</button>
      </span>
      <label class="chip"><input type="checkbox" checked=${fold} onChange=${() => setFold(!fold)} />Fold pauses</label>
      <label class="chip"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} />Handshakes</label>
      <label class="chip" title="The calls that decided how long it took: of the chosen call, or of everything"><input type="checkbox" checked=${tracing} onChange=${() => setTracing(!tracing)} />Critical path</label>
      <span class="spring"></span>
      ${!room.complete && html`<button type="button" disabled=${salon.past.loading} onClick=${() => salon.older()}>Load earlier</button>`}
      <button type="button" class="tl-zoom" aria-label="Zoom out" onClick=${() => window.zoom(1.6)}>−</button>
      <button type="button" class="tl-zoom" aria-label="Zoom in" onClick=${() => window.zoom(1 / 1.6)}>+</button>
      <button type="button" onClick=${window.fit}>Fit</button>
      <button type="button" title="Copy a link to this stretch of time" onClick=${() => void salon.copyLink(rangeOf(scale, window))}>Link</button>
      <button type="button" class="tl-live" aria-pressed=${window.follow} onClick=${window.live}>Live</button>
    </div>
    <p class="tl-caption faint"><span>${count(calls.length, 'call')}</span>${calls.length > 0 && html`<${InSight} ...${{ layout, scale, window }} />`}</p>`;
  if (calls.length === 0) {
    return html`<section class="timeline" aria-label="Timeline">${toolbar}<${Nothing} filtered=${salon.filter !== null} /></section>`;
  }
  return html`
    <section class="timeline" aria-label="Timeline">
      ${toolbar}
      <${Overview} ...${{ layout, scale, window }} />
      <${Chart} ...${{ layout, scale, window, by, critical, selected, hovered, onSelect: setSelected, onHover: setHovered }} />
      <${Details} bar=${shown} critical=${critical} />
    </section>
  `;
}

/** What is looked at, in real time: whole milliseconds around it. @param {Scale} scale @param {Window} window */
function rangeOf(scale, { x, span }) {
  return { from: Math.floor(scale.time(x)), to: Math.ceil(scale.time(x + span)) };
}

/**
 * Looks at the stretch of time that the address names, once it is loaded and laid out.
 * @param {Scale} scale @param {Window} window @param {number} revision of the room, as it is laid out
 */
function useRange(scale, window, revision) {
  const salon = useSalon();
  const { room, connection, route, past } = salon;
  const { from, to } = route.view === 'timeline' ? route : { from: undefined, to: undefined };
  const [wanted, setWanted] = useState(/** @type {{from: number, to: number, revision: number}|null} */ (null));
  useEffect(() => {
    if (from === undefined || to === undefined) return undefined;
    let gone = false;
    whenLive(connection, async () => {
      await past.until(room, () => room.since <= from, () => !gone);
      if (!gone) setWanted({ from, to, revision: room.revision });
    });
    return () => { gone = true; };
  }, [room, from, to]);
  useEffect(() => {
    if (!wanted || revision < wanted.revision) return;
    window.show(scale.place(wanted.from), scale.place(wanted.to));
    setWanted(null);
  }, [wanted, scale, revision]);
}

/** @param {{filtered: boolean}} props */
function Nothing({ filtered }) {
  return html`
    <div class="empty">
      <h2>${filtered ? 'No call passes the filter' : 'No calls yet'}</h2>
      <p>${filtered ? 'Clear the filter to see the others.'
        : 'Choose a participant and call one of its tools, or let agents in: every call appears here as it happens.'}</p>
    </div>`;
}

/** The time, which goes on while something runs. @param {boolean} running @param {number} step in milliseconds */
function useNow(running, step) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), step);
    return () => clearInterval(timer);
  }, [running, step]);
  return now;
}

/** All of it, small, with what is looked at marked. @param {{layout: Layout, scale: Scale, window: Window}} props */
function Overview({ layout, scale, window }) {
  const [ref, { width }] = useSize();
  const columns = Math.max(1, Math.floor(width / 4));
  const busy = useMemo(() => density(layout, scale, columns), [layout, scale, columns]);
  const most = Math.max(1, ...busy.map((each) => each.busy));
  const seek = (/** @type {PointerEvent} */ event) => {
    if (event.buttons !== 1 || !ref.current) return;
    const { left } = ref.current.getBoundingClientRect();
    window.move(((event.clientX - left) / width) * scale.length - window.span / 2);
  };
  const px = (/** @type {number} */ place) => (place / scale.length) * width;
  // For the pointer only: the same is done by the buttons and keys.
  return html`
    <div class="tl-overview" ref=${ref} aria-hidden="true" onPointerDown=${seek} onPointerMove=${seek}>
      <svg width=${width} height="36">
        ${busy.map((each, at) => each.busy > 0 && html`
          <rect key=${at} class=${each.failed ? 'failed' : ''} x=${at * 4} width="3" y=${33 - 28 * (each.busy / most)}
            height=${2 + 28 * (each.busy / most)} />`)}
        <rect class="tl-seen" x=${px(window.x) + 0.5} y="0.5" width=${Math.max(4, px(window.span) - 1)} height="35" rx="3" />
      </svg>
    </div>`;
}

/** What can be seen of it, in numbers. @param {{layout: Layout, scale: Scale, window: Window}} props */
function InSight({ layout, scale, window }) {
  const seen = layout.bars.filter(({ from, to }) => scale.place(to) >= window.x && scale.place(from) <= window.x + window.span);
  const { failed, median, longest } = briefly(seen.map(({ call }) => call));
  return html`<span title="Of the calls in sight">${seen.length < layout.bars.length ? `${seen.length} in sight, ` : ''}<span class=${failed > 0 ? 'bad' : ''}>${failed} failed</span>, median ${duration(median)}, longest ${duration(longest)}</span>`;
}

/** What is pointed at or chosen, in words. @param {{bar: Bar|undefined, critical: Set<Bar>|null}} props */
function Details({ bar, critical }) {
  const salon = useSalon();
  if (!bar && critical) {
    return html`<div class="tl-details" role="status">Critical path: ${count(critical.size, 'call')}, ${duration(coveredTime(critical))}. Choose a call to see the path within it.</div>`;
  }
  if (!bar) {
    return html`
      <div class="tl-details faint">Point at a call, or choose one with the arrow keys. Drag to move, with Shift to zoom into a stretch, Ctrl and the wheel to zoom. Dots are chat, diamonds questions, ticks progress.</div>`;
  }
  const { call } = bar;
  return html`
    <div class="tl-details" role="status" data-state=${call.state}>
      <div class="tl-what">
        <b class="hued" data-hue=${hueOf(call.caller)}><${Name} id=${call.caller} /></b> → ${' '}
        <b class="hued" data-hue=${hueOf(call.callee)}><${Name} id=${call.callee} /></b> ${' '}
        <b>${clip(titleOf(call), 80)}</b> <span class="faint">${argumentsLine(call)}</span>
      </div>
      <div class="tl-how">
        <span class="state">${call.state}</span>
        <span>${clockSeconds(call.began)}, ${duration(bar.to - bar.from)}</span>
        ${critical && html`<span>${critical.size > 1 ? `critical path: ${count(critical.size, 'call')}` : 'waited for no other call'}</span>`}
        <span class="tl-says">${outcomeLine(call, 160) || call.progress?.message || ''}</span>
      </div>
      <span class="row-actions" data-kept>
        <button type="button" onClick=${() => salon.open({ panel: 'inspector', id: call.id })}>Inspect</button>
        <button type="button" onClick=${() => void salon.show(call.id)}>In the transcript</button>
      </span>
    </div>
  `;
}

import { html, useMemo, useState } from '../../vendor/ui.js';
import { chatText } from '../model/envelope.js';
import { argumentsLine, isQuestion, outcomeLine, titleOf } from '../model/reading.js';
import { clock, clockSeconds, clip, duration, hueOf } from '../model/text.js';
import { oneLine, threadsOf } from '../model/threads.js';
import { axis, beside, marks, visible } from '../model/timeline.js';
import { useSalon } from '../app.js';
import { useDrag, useSize, useWheel } from './window.js';
import { Name } from './who.js';

/** @typedef {import('../model/timeline.js').Bar} Bar */
/** @typedef {import('../model/timeline.js').Layout} Layout */
/** @typedef {import('../model/scale.js').Scale} Scale */
/** @typedef {import('../model/timeline.js').Seen} Seen */
/** @typedef {import('../model/timeline.js').Grouping} Grouping */
/** @typedef {import('../model/types.js').Call} Call */
/** @typedef {import('./window.js').Window} Window */
/** @typedef {{x: number, span: number, width: number, tall: number}} View  folded time, and the pixels that it and a row are shown on */

/** How tall rows are: as much as there is room for, within reason. */
const LOWEST = 26;
const TALLEST = 40;
const AXIS = 24;

/**
 * The bars in their rows, with what leads from one to another.
 * @param {{layout: Layout, scale: Scale, window: Window, by: Grouping, critical: Set<Bar>|null, selected: string|null, hovered: string|null,
 *   onSelect: (id: string|null) => void, onHover: (id: string|null) => void}} props
 */
export function Chart({ layout, scale, window, by, critical, selected, hovered, onSelect, onHover }) {
  const salon = useSalon();
  const [ref, size] = useSize();
  const [top, setTop] = useState(0);
  const tall = Math.max(LOWEST, Math.min(TALLEST, Math.floor((size.height - AXIS) / Math.max(1, layout.rows.length))));
  const labels = size.width < 600 ? 92 : by === 'calls' ? 260 : 150;
  const width = Math.max(100, size.width - labels);
  const view = { x: window.x, span: window.span, width, tall };
  const rows = { top: Math.floor(top / tall) - 4, bottom: Math.ceil((top + size.height) / tall) + 4 };
  const chosen = layout.byId.get(selected ?? '');
  const seen = visible(layout, scale, { ...view, ...rows }, chosen);
  const height = layout.rows.length * tall;
  const drag = useDrag(ref, window, width, labels);
  const [pointer, setPointer] = useState({ x: 0, y: 0 });
  const pointed = layout.byId.get(hovered ?? '');
  useWheel(ref, window, labels, width);

  const select = (/** @type {Bar|undefined} */ bar) => {
    if (!bar) return;
    onHover(null);
    onSelect(bar.call.id);
    const [from, to] = [scale.place(bar.from), scale.place(bar.to)];
    if (from < window.x || to > window.x + window.span) window.move((from + Math.min(to, from + window.span)) / 2 - window.span / 2);
    const element = ref.current;
    const y = bar.row * tall;
    if (element && y < element.scrollTop) element.scrollTop = y;
    else if (element && y + tall * 2 > element.scrollTop + element.clientHeight - AXIS) {
      element.scrollTop = y + tall * 3 - element.clientHeight + AXIS;
    }
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const done = press(event, { layout, chosen, window, select, open: (id) => salon.open({ panel: 'inspector', id }), onSelect });
    if (done) event.preventDefault();
  };
  const marked = chosen && seen.find((each) => each.bar === chosen);
  const help = 'Arrow keys go from call to call, plus and minus zoom, shift and arrows move, Enter inspects, 0 shows all, L follows.';
  return html`
    <div class="tl-scroll" ref=${ref} tabindex="0" role="application" aria-roledescription="timeline"
      aria-label=${`Calls over time. ${help}`} aria-activedescendant=${marked ? `tl-${marked.bar.order}` : null}
      onKeyDown=${keys} onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)} ...${drag.handlers}
      onPointerOver=${(/** @type {PointerEvent} */ event) => setPointer({ x: event.clientX, y: event.clientY })}>
      <${Axis} scale=${scale} view=${view} labels=${labels} />
      <div class="tl-body" style=${{ height: `${height}px` }}>
        ${by !== 'calls' ? html`<${LaneLabels} ...${{ layout, labels, rows, view, by }} />` : html`<${RowLabels} ...${{ layout, labels, rows, view }} />`}
        <svg class="tl-svg" style=${{ left: `${labels}px` }} width=${width} height=${height}>
          ${layout.lanes.map((lane, at) => at % 2 === 1 && html`
            <rect key=${lane.id} class="tl-lane" x="0" y=${lane.row * tall} width=${width} height=${lane.rows * tall} />`)}
          <${Folds} scale=${scale} view=${view} height=${height} />
          ${by === 'people' && html`<${Said} ...${{ layout, scale, view, rows }} />`}
          <${Threads} ...${{ layout, scale, view, seen, by, chosen: hovered ?? selected }} />
          ${seen.map((each) => html`
            <${Piece} key=${each.bar.call.id} ...${{ each, scale, view }} picked=${each.bar === chosen} traced=${critical ? critical.has(each.bar) : null}
              onHover=${onHover} onPick=${() => !drag.moved() && select(each.bar)}
              onOpen=${() => salon.open({ panel: 'inspector', id: each.bar.call.id })} />`)}
          ${drag.brush && html`<rect class="tl-brush" x=${Math.min(drag.brush.from, drag.brush.to)} y="0" width=${Math.abs(drag.brush.to - drag.brush.from)} height=${height} />`}
        </svg>
      </div>
      ${pointed && !drag.brush && html`<${Tip} bar=${pointed} crowd=${seen.find((each) => each.bar === pointed)?.crowd ?? 1} at=${pointer} />`}
    </div>
  `;
}

/** What is pointed at, beside the pointer; the line below the chart says the same to screen readers. @param {{bar: Bar, crowd: number, at: {x: number, y: number}}} props */
function Tip({ bar: { call, from, to }, crowd, at }) {
  const right = at.x > innerWidth / 2;
  const low = at.y > innerHeight / 2;
  const place = { [right ? 'right' : 'left']: `${right ? innerWidth - at.x + 14 : at.x + 14}px`, [low ? 'bottom' : 'top']: `${low ? innerHeight - at.y + 14 : at.y + 14}px` };
  return html`
    <div class="tl-tip" aria-hidden="true" data-state=${call.state} style=${place}>
      <b>${clip(titleOf(call), 60)}</b>${crowd > 1 && html` <span class="faint">and ${crowd - 1} more</span>`}
      <div class="faint"><${Name} id=${call.caller} /> → <${Name} id=${call.callee} /></div>
      <div><span class="state">${call.state}</span>, ${duration(to - from)}, at ${clockSeconds(call.began)}</div>
      <div class="clipped">${argumentsLine(call, 100)}</div>
      <div class="clipped faint">${outcomeLine(call, 100)}</div>
    </div>`;
}

/**
 * @param {KeyboardEvent} event
 * @param {{layout: Layout, chosen: Bar|undefined, window: Window, select: (bar: Bar|undefined) => void, open: (id: string) => void,
 *   onSelect: (id: string|null) => void}} on
 * @returns {boolean} whether the key meant something
 */
function press(event, { layout, chosen, window, select, open, onSelect }) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target !== event.currentTarget) return false;
  const { key, shiftKey } = event;
  const way = /** @type {const} */ ({ ArrowLeft: 'left', ArrowRight: 'right', ArrowUp: 'up', ArrowDown: 'down', Home: 'first', End: 'last' });
  if (shiftKey && (key === 'ArrowLeft' || key === 'ArrowRight')) {
    window.shift(key === 'ArrowLeft' ? -0.2 : 0.2);
  } else if (key in way) {
    select(beside(layout, chosen, way[/** @type {keyof typeof way} */ (key)]));
  } else if (key === '+' || key === '=' || key === '-') {
    window.zoom(key === '-' ? 1.6 : 1 / 1.6);
  } else if (key === '0') {
    window.fit();
  } else if (key === 'l' || key === 'L') {
    window.live();
  } else if (key === 'Enter' && chosen) {
    open(chosen.call.id);
  } else if (key === 'Escape' && chosen) {
    onSelect(null);
  } else {
    return false;
  }
  return true;
}

/** @param {{scale: Scale, view: View, labels: number}} props */
function Axis({ scale, view, labels }) {
  const { ticks } = axis(scale, view);
  return html`
    <div class="tl-axis" aria-hidden="true">
      ${ticks.filter(({ px, step }) => px < view.width - (step < 1000 ? 96 : 64)).map(({ px, time, step }) => html`
        <span key=${time} style=${{ left: `${labels + px}px` }}>${timeLabel(time, step)}</span>`)}
    </div>`;
}

/** @param {number} time @param {number} step */
function timeLabel(time, step) {
  if (step >= 60_000) return clock(time);
  return step >= 1000 ? clockSeconds(time) : `${clockSeconds(time)}.${String(Math.floor(time % 1000)).padStart(3, '0')}`;
}

/** @param {{scale: Scale, view: View, height: number}} props the lines of the axis, and the pauses that were folded */
function Folds({ scale, view, height }) {
  const { ticks, folds } = axis(scale, view);
  return html`
    <g>
      ${ticks.map(({ px, time }) => html`<line key=${time} class="tl-grid" x1=${px} x2=${px} y1="0" y2=${height} />`)}
      ${folds.map(({ px, width, ms }) => html`
        <g key=${ms + px} class="tl-fold"><title>nothing ran for ${duration(ms)}</title>
          <rect x=${px} y="0" width=${width} height=${height} />
          ${width > 14 && html`<text transform=${`translate(${px + width / 2} ${Math.min(height, 400) / 2}) rotate(-90)`}>${duration(ms)}</text>`}
        </g>`)}
    </g>`;
}

/** @param {{layout: Layout, labels: number, rows: {top: number, bottom: number}, view: View, by: Grouping}} props */
function LaneLabels({ layout, labels, rows, view: { tall }, by }) {
  const salon = useSalon();
  const lanes = layout.lanes.filter((lane) => lane.row < rows.bottom && lane.row + lane.rows > rows.top);
  if (by === 'tools') {
    return lanes.map((lane) => html`
      <div key=${lane.id} class="tl-label" title=${lane.id} style=${{ top: `${lane.row * tall}px`, width: `${labels}px`, height: `${lane.rows * tall}px`, lineHeight: `${tall}px` }}>
        <b>${clip(lane.id, 40)}</b></div>`);
  }
  return lanes.map((lane) => html`
    <button key=${lane.id} type="button" class="tl-label who" tabindex="-1" data-hue=${hueOf(lane.id)} title=${lane.id}
      style=${{ top: `${lane.row * tall}px`, width: `${labels}px`, height: `${lane.rows * tall}px`, lineHeight: `${tall}px` }}
      onClick=${() => salon.open({ panel: 'peer', id: lane.id })}><${Name} id=${lane.id} /></button>`);
}

/** @param {{layout: Layout, labels: number, rows: {top: number, bottom: number}, view: View}} props */
function RowLabels({ layout, labels, rows, view: { tall } }) {
  const bars = layout.rows.slice(Math.max(0, rows.top), rows.bottom).flat();
  return bars.map(({ call, row, depth }) => html`
    <div key=${call.id} class="tl-label" style=${{ top: `${row * tall}px`, width: `${labels}px`, height: `${tall}px`, lineHeight: `${tall}px`, paddingLeft: `${8 + depth * 12}px` }}>
      <span data-hue=${hueOf(call.caller)} class="hued">${call.caller}</span> → <span data-hue=${hueOf(call.callee)} class="hued">${call.callee}</span>
      ${' '}<b>${clip(titleOf(call), 40)}</b>
    </div>`);
}

/** Where somebody said something. @param {{layout: Layout, scale: Scale, view: View, rows: {top: number, bottom: number}}} props */
function Said({ layout, scale, view, rows }) {
  const dots = [];
  for (const lane of layout.lanes) {
    if (lane.row >= rows.bottom || lane.row + lane.rows <= rows.top) continue;
    let free = -Infinity;
    for (const envelope of lane.said) {
      const px = ((scale.place(envelope.at) - view.x) / view.span) * view.width;
      if (envelope.at < scale.stretches[0].from || px < 0 || px > view.width || px < free) continue;
      free = px + 6;
      dots.push(html`
        <circle key=${envelope.id} class="tl-said hued" data-hue=${hueOf(envelope.from)} cx=${px} cy=${lane.row * view.tall + 5} r="3">
          <title>${envelope.from}: ${oneLine(chatText(envelope) ?? '')}</title>
        </circle>`);
    }
  }
  return html`<g>${dots}</g>`;
}

/**
 * Who asked, and which call another was made for: lines from there to the bar.
 * @param {{layout: Layout, scale: Scale, view: View, seen: Seen[], by: Grouping, chosen: string|null}} props
 */
function Threads({ layout, view: { tall }, seen, by, chosen }) {
  const thick = tall - 8;
  const lanes = useMemo(() => new Map(layout.lanes.map((lane) => [lane.id, lane])), [layout]);
  return html`<g>${seen.slice(0, 400).map(({ bar, from, to, crowd }) => {
    const parent = layout.byId.get(bar.call.parent ?? '');
    const lane = lanes.get(bar.call.caller);
    const source = parent ? parent.row : by === 'people' && lane ? lane.row : -1;
    if (crowd > 1 || source < 0 || source === bar.row || from < 0) return null;
    const up = source > bar.row;
    const y = source * tall + (parent ? (up ? (tall - thick) / 2 : (tall + thick) / 2) : tall / 2);
    const end = bar.row * tall + (up ? (tall + thick) / 2 : (tall - thick) / 2);
    const mine = chosen === bar.call.id;
    return html`
      <g key=${bar.call.id} class=${mine ? 'tl-thread chosen hued' : 'tl-thread hued'} data-hue=${hueOf(bar.call.caller)}>
        <path d=${`M${from + 0.5} ${y}V${end}`} /><circle cx=${from + 0.5} cy=${y} r=${parent ? 0 : 2.5} />
        ${mine && bar.call.ended !== undefined && html`<path class="back" d=${`M${to - 0.5} ${end}V${y}`} />`}
      </g>`;
  })}</g>`;
}

/**
 * @param {{each: Seen, scale: Scale, view: View, picked: boolean, traced: boolean|null, onHover: (id: string|null) => void, onPick: () => void, onOpen: () => void}} props
 */
function Piece({ each, scale, view, picked, traced, onHover, onPick, onOpen }) {
  const { room } = useSalon();
  const { bar, from, to, crowd, failed } = each;
  const { call } = bar;
  const thick = view.tall - 8;
  const y = bar.row * view.tall + 4;
  const left = Math.max(from, -10);
  const width = Math.min(to, view.width + 10) - left;
  const title = crowd > 1 ? `×${crowd}` : `${titleOf(call)} ${argumentsLine(call, 60)}`.trim();
  const inside = width > 44 || each.room - to < width;
  const space = inside ? width - 12 : each.room - to - 10;
  // Where there is no room for words, a failure still has its mark.
  const label = space > (crowd > 1 ? 14 : 24) ? clip(title, Math.floor(space / 6.4)) : failed && width > 14 ? '✗' : '';
  const done = call.state === 'running' && call.progress?.total ? Math.min(1, call.progress.done / call.progress.total) : null;
  const state = failed ? 'failed' : call.state;
  const told = crowd > 1 ? `${crowd} calls to ${call.callee}` : describe(call);
  const inner = marks(bar, threadsOf(room).calls.get(call.id) ?? []);
  const px = (/** @type {number} */ time) => ((scale.place(time) - view.x) / view.span) * view.width;
  const classes = ['tl-bar', 'hued', picked && 'picked', isQuestion(call) && 'question', crowd > 1 && 'crowd', traced === true && 'critical', traced === false && 'aside-of-path'].filter(Boolean).join(' ');
  return html`
    <g id=${`tl-${bar.order}`} class=${classes} role="img" aria-label=${told} data-state=${state} data-hue=${hueOf(call.callee)}
      onPointerEnter=${() => onHover(call.id)} onPointerLeave=${() => onHover(null)} onClick=${onPick} onDblClick=${onOpen}>
      <rect class="body" x=${left} y=${y} width=${width} height=${thick} rx="3" />
      ${done !== null && html`<rect class="done" x=${left} y=${y} width=${width * done} height=${thick} rx="3" />`}
      ${crowd === 1 && inner.map((mark) => mark.type === 'progress'
        ? html`<line key=${mark.id} class="tl-progress" x1=${px(mark.at)} x2=${px(mark.at)} y1=${y + thick - 4} y2=${y + thick} />`
        : html`<path key=${mark.id} class="tl-question" d=${`M${px(mark.at)} ${y - 2}l5 5l-5 5l-5 -5z`} />`)}
      ${label && html`
        <svg x=${inside ? left : to} y=${y} width=${inside ? width - 3 : Math.max(0, each.room - to)} height=${thick}>
          <text x="6" y=${thick / 2 + 4}>${label}</text>
        </svg>`}
    </g>
  `;
}

/** @param {Call} call */
function describe(call) {
  const took = call.ended === undefined ? '' : `, ${duration(call.ended - call.began)}`;
  return `${call.caller} to ${call.callee}: ${titleOf(call)}, ${call.state}${took}, at ${clockSeconds(call.began)}`;
}

// A list of thousands of rows of any height, of which only those in sight are drawn.
//
// What is held fast is not the distance from the top but a row, the anchor: whatever is loaded above it or turns out taller than
// thought, the anchor stays where the person sees it. At the end of the list the end itself is the anchor.

import { Component, html } from '../../vendor/ui.js';
import { Extent } from '../model/extent.js';

/** @typedef {{id: string, offset: number}} Held a row and its distance from the upper edge */
/** @typedef {Held[]|null} Anchor the first of these that is still there; null: the end */

/** How much is drawn beyond what is seen, in pixels. */
const BEYOND = 700;
/** The height of what stands above the first row; `.virtual-head` has it. */
const HEAD = 56;
/** How far from the end still counts as the end. */
const NEAR_END = 32;
/** How far from the top older rows are asked for. */
const NEAR_TOP = 900;

/** What is left free beside a row that was unfolded. */
const MARGIN = 8;

/** How many rows in sight are remembered to hold one of them fast. */
const MAX_HELD = 8;

/**
 * @typedef {object} Props
 * @property {readonly any[]} items
 * @property {(item: any) => number} estimate a row's likely height
 * @property {(item: any, at: number) => any} row
 * @property {(item: any, at: number) => string} stamp other than before when a row is to be drawn again
 * @property {(event: KeyboardEvent, item: any) => void} onKey a key on a row, unless it moves the focus
 * @property {() => void} onTop the top comes near
 * @property {(atEnd: boolean) => void} onEnd the end came into sight or went out of it
 * @property {any} head what stands above the first row
 * @property {string} label
 * @property {{current: any}} hold is given the list: a `ref` of a component is only another property
 */

/** @extends {Component<Props>} */
export class VirtualList extends Component {
  /** @param {Props} props */
  constructor(props) {
    super(props);
    props.hold.current = this;
    this.extent = new Extent(props.estimate);
    /** @type {Anchor} */
    this.anchor = null;
    /** @type {string|null} the row that has, or had, the focus */
    this.active = null;
    /** @type {Map<string, HTMLElement>} */
    this.drawn = new Map();
    /** @type {HTMLElement|null} */
    this.scroller = null;
    this.height = 800;
    this.range = { first: 0, last: -1 };
    this.wasAtEnd = true;
    this.focusNext = false;
    this.repeats = 0;
    /** Where the scroller was put last, and how far down it could be then. */
    this.placed = 0;
    this.bottom = 0;
    this.scrolled = this.scrolled.bind(this);
    this.keyed = this.keyed.bind(this);
    this.focused = this.focused.bind(this);
    this.clicked = this.clicked.bind(this);
    /** @type {Held|null} the row that was unfolded last, and where it was: it may grow later, when its parts are loaded */
    this.unfolded = null;
    this.observer = new ResizeObserver(() => this.settle());
  }

  componentDidMount() {
    if (this.scroller) this.observer.observe(this.scroller);
    // Before the row itself hears of it, and changes.
    this.scroller?.addEventListener('click', this.clicked, true);
    this.settle();
  }

  componentDidUpdate() {
    this.settle();
  }

  componentWillUnmount() {
    this.observer.disconnect();
  }

  /** To the newest row. */
  toEnd() {
    this.take();
    this.anchor = null;
    this.unfolded = null;
    this.forceUpdate();
  }

  /** Brings a row into sight and gives it the focus. @param {string} id @param {'middle'|'near'} [where] */
  reveal(id, where = 'middle') {
    const at = this.extent.index.get(id);
    if (at === undefined) return;
    this.take();
    this.unfolded = null;
    const [top, tall] = [HEAD + this.extent.top(at), this.extent.top(at + 1) - this.extent.top(at)];
    const now = this.scroller?.scrollTop ?? 0;
    const seen = top >= now && top + tall <= now + this.height;
    if (where === 'middle') this.anchor = [{ id, offset: Math.max(16, (this.height - tall) / 2) }];
    else if (!seen) this.anchor = [{ id, offset: top < now ? 8 : Math.max(8, this.height - tall - 8) }];
    this.active = id;
    this.focusNext = true;
    this.forceUpdate();
  }

  /** What is held fast. Rows that fold or head others may be gone after a load, so several are remembered. */
  held() {
    return this.anchor?.find(({ id }) => this.extent.index.has(id));
  }

  /** Where the scroller should stand. */
  wantedTop() {
    const { extent } = this;
    const end = HEAD + extent.total - this.height;
    if (!this.anchor) return end;
    const held = this.held();
    if (!held) return this.scroller?.scrollTop ?? end;
    return Math.min(end, HEAD + extent.top(extent.index.get(held.id) ?? 0) - held.offset);
  }

  /** Measures what is drawn and puts the anchor back in its place; draws more if that shows that it was not enough. */
  settle() {
    const { scroller, extent } = this;
    if (!scroller) return;
    this.height = scroller.clientHeight;
    for (const [id, element] of this.drawn) {
      const { height } = element.getBoundingClientRect();
      if (extent.measure(id, height) && id === this.unfolded?.id) this.keepInSight(this.unfolded, height);
    }
    const held = this.held();
    const anchored = held && this.drawn.get(held.id);
    if (held && anchored) {
      const delta = anchored.getBoundingClientRect().top - scroller.getBoundingClientRect().top - held.offset;
      if (Math.abs(delta) >= 1) scroller.scrollTop += delta;
    } else if (this.anchor) {
      scroller.scrollTop = this.wantedTop();
    } else {
      scroller.scrollTop = scroller.scrollHeight;
    }
    this.placed = scroller.scrollTop;
    // What was unfolded is in sight as a whole: the end is followed as before.
    this.bottom = scroller.scrollHeight - scroller.clientHeight;
    const atBottom = this.bottom - scroller.scrollTop <= 1;
    if (this.unfolded && atBottom) this.anchor = null;
    if (this.isCovered() || this.repeats > 5) this.repeats = 0;
    else {
      this.repeats += 1;
      this.forceUpdate();
    }
    this.focusActive();
    this.tell();
  }

  /** Whether everything in sight is drawn. */
  isCovered() {
    const { extent, scroller, range } = this;
    if (!scroller) return true;
    const top = scroller.scrollTop - HEAD;
    const above = range.first === 0 || extent.top(range.first) <= top;
    const below = range.last >= extent.rows.length - 1 || extent.top(range.last + 1) >= top + this.height;
    return above && below;
  }

  scrolled() {
    const { scroller, extent } = this;
    if (!scroller || extent.rows.length === 0) return;
    this.take();
    const margin = BEYOND / 2;
    const first = extent.at(scroller.scrollTop - HEAD - margin);
    const last = extent.at(scroller.scrollTop - HEAD + this.height + margin);
    if (first < this.range.first || last > this.range.last) this.forceUpdate();
    this.tell();
  }

  /** Holds fast what the person has scrolled to. Where the list put itself is no wish, however rows have grown since. */
  take() {
    const { scroller, extent } = this;
    if (!scroller || Math.abs(scroller.scrollTop - this.placed) < 1) return;
    // A list that has become shorter is scrolled by the browser: nobody wanted that either.
    const bottom = scroller.scrollHeight - scroller.clientHeight;
    if (bottom < this.bottom && scroller.scrollTop >= bottom - 1) return;
    this.placed = scroller.scrollTop;
    this.unfolded = null;
    if (scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight <= NEAR_END) {
      this.anchor = null;
    } else {
      const at = extent.at(scroller.scrollTop - HEAD);
      this.anchor = extent.rows.slice(at, at + MAX_HELD).map((row, more) => this.hold(row.id, at + more));
    }
  }

  /** @param {string} id @param {number} at @returns {Held} */
  hold(id, at) {
    const top = this.scroller?.scrollTop ?? 0;
    const element = this.drawn.get(id);
    if (!element || !this.scroller) return { id, offset: HEAD + this.extent.top(at) - top };
    return { id, offset: element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top };
  }

  /** Tells the owner that an edge is near. */
  tell() {
    const { scroller } = this;
    if (!scroller || scroller.clientHeight === 0) return;
    const atEnd = this.anchor === null;
    if (atEnd !== this.wasAtEnd) this.props.onEnd(atEnd);
    this.wasAtEnd = atEnd;
    if (scroller.scrollTop < NEAR_TOP) this.props.onTop();
  }

  focusActive() {
    const element = this.active === null ? undefined : this.drawn.get(this.active);
    if (this.focusNext && element) {
      this.focusNext = false;
      element.focus({ preventScroll: true });
    }
  }

  /** @param {KeyboardEvent} event */
  keyed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const onRow = event.target instanceof HTMLElement && event.target.dataset.row !== undefined;
    if (!onRow && event.target !== this.scroller) return;
    const rows = this.extent.rows;
    const at = this.active === null ? undefined : this.extent.index.get(this.active);
    const step = event.key === 'ArrowDown' || event.key === 'j' ? 1 : event.key === 'ArrowUp' || event.key === 'k' ? -1 : 0;
    if (step !== 0 && rows.length > 0) {
      event.preventDefault();
      const from = at === undefined ? this.extent.at((this.scroller?.scrollTop ?? 0) - HEAD + this.height - 24) + (step > 0 ? -1 : 1) : at;
      this.reveal(rows[Math.min(rows.length - 1, Math.max(0, from + step))].id, 'near');
    } else if (event.key === 'End') {
      event.preventDefault();
      this.active = rows.at(-1)?.id ?? null;
      this.focusNext = true;
      this.toEnd();
    } else if (onRow && at !== undefined) {
      this.props.onKey(event, rows[at]);
    }
  }

  /** @param {FocusEvent} event */
  focused(event) {
    const row = event.target instanceof Element ? event.target.closest('[data-row]') : null;
    const id = row instanceof HTMLElement ? row.dataset.row ?? null : null;
    if (id === null || id === this.active) return;
    this.active = id;
    this.forceUpdate();
  }

  /** An unfolded row is shown from its top. @param {Event} event */
  clicked(event) {
    const target = event.target instanceof Element ? event.target.closest('[aria-expanded], summary, .more') : null;
    const row = target?.closest('[data-row]');
    const id = row instanceof HTMLElement ? row.dataset.row : undefined;
    const at = id === undefined ? undefined : this.extent.index.get(id);
    if (id === undefined || at === undefined) return;
    this.take();
    this.unfolded = this.hold(id, at);
    this.anchor = [this.unfolded];
  }

  /** As much of an unfolded row as there is space for, and its head in any case. @param {Held} row @param {number} height */
  keepInSight({ id, offset }, height) {
    this.anchor = [{ id, offset: Math.min(offset, Math.max(MARGIN, this.height - height - MARGIN)) }];
  }

  /** @param {string} id @param {HTMLElement|null} element */
  drew(id, element) {
    const before = this.drawn.get(id);
    if (before === element) return;
    if (before) {
      this.observer.unobserve(before);
      // A focused row that scrolls out of sight must not take the keyboard with it.
      if (!element && before.contains(document.activeElement)) this.scroller?.focus({ preventScroll: true });
      this.drawn.delete(id);
    }
    if (!element) return;
    this.drawn.set(id, element);
    this.observer.observe(element);
  }

  render() {
    const { items, head, label, row, stamp } = this.props;
    const { extent } = this;
    // A key or a click may have brought something into sight, and be heard of before its scrolling is.
    this.take();
    extent.estimate = this.props.estimate;
    extent.set(items);
    const top = this.wantedTop() - HEAD;
    const first = items.length === 0 ? 0 : extent.at(top - BEYOND);
    const last = items.length === 0 ? -1 : extent.at(top + this.height + BEYOND);
    this.range = { first, last };
    const seen = items.slice(first, last + 1);
    const reachable = this.active !== null && seen.some((item) => item.id === this.active);
    return html`
      <div class="virtual" role="list" aria-label=${label} tabindex=${reachable ? -1 : 0} onScroll=${this.scrolled}
        onKeyDown=${this.keyed} onFocusIn=${this.focused} ref=${(/** @type {any} */ element) => { this.scroller = element; }}>
        <div class="virtual-head" role="presentation">${head}</div>
        <div role="presentation" style=${{ height: `${extent.top(first)}px` }}></div>
        ${seen.map((item, at) => html`
          <${RowHolder} key=${item.id} list=${this} item=${item} at=${first + at} row=${row} stamp=${stamp(item, first + at)}
            reachable=${item.id === this.active} />`)}
        <div role="presentation" style=${{ height: `${extent.total - extent.top(last + 1)}px` }}></div>
      </div>
    `;
  }
}

/**
 * One row, which is drawn again only when there is something new to see.
 * @extends {Component<{list: VirtualList, item: any, at: number, row: Props['row'], stamp: string, reachable: boolean}>}
 */
class RowHolder extends Component {
  constructor() {
    super();
    this.drew = (/** @type {HTMLElement|null} */ element) => this.props.list.drew(this.props.item.id, element);
  }

  /** @param {RowHolder['props']} next */
  shouldComponentUpdate({ at, stamp, reachable }) {
    return at !== this.props.at || stamp !== this.props.stamp || reachable !== this.props.reachable;
  }

  render() {
    const { item, at, row, reachable } = this.props;
    // How many there are is not known: more come at either end. −1 says so (WAI-ARIA 1.2, aria-setsize).
    return html`
      <div class="row" role="listitem" data-row=${item.id} tabindex=${reachable ? 0 : -1} aria-posinset=${at + 1} aria-setsize="-1"
        ref=${this.drew}>${row(item, at)}</div>`;
  }
}

// The window through which time is looked at: where it stands, how wide it is, and how pointers move it.

import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/ui.js';

/** @typedef {import('../model/scale.js').Scale} Scale */

/** The shortest stretch that can be looked at. */
const SHORTEST = 4;
/** The most that is shown while the newest is followed by hand. */
const LIVE_SPAN = 30_000;
/** What is shown at first: not all of a long day, but what happened last. */
const FIRST_SPAN = 60_000;

/** What part of the time is looked at, and how that changes. @param {Scale} scale */
export function useWindow(scale) {
  const [, draw] = useState(0);
  // Not in a state of its own for each: several turns of a wheel may come before the next is drawn, and each builds on the last.
  const state = useRef({ follow: true, span: FIRST_SPAN, from: 0 }).current;
  const latest = useRef(scale);
  latest.current = scale;
  const now = () => {
    const most = latest.current.length;
    const span = Math.min(state.span, most);
    // The end that is followed is the newest call's, with a little space behind it.
    const wanted = state.follow ? latest.current.end - 0.9 * span : state.from;
    return { most, span, x: Math.min(Math.max(0, wanted), most - span) };
  };
  const set = (/** @type {Partial<typeof state>} */ part) => {
    Object.assign(state, part);
    draw((times) => times + 1);
  };
  return {
    x: now().x, span: now().span, follow: state.follow,
    /** @param {number} to */
    move(to) {
      const { most, span } = now();
      // A reader at the end follows it.
      set({ from: to, span, follow: to >= Math.min(most, latest.current.end + 0.1 * span) - span });
    },
    /** @param {number} by how far, as a part of what is seen */
    shift(by) {
      const { x, span } = now();
      this.move(x + by * span);
    },
    /** @param {number} factor @param {number} [at] the place that stays where it is, from 0 at the left to 1; the end while that is followed */
    zoom(factor, at = state.follow ? 1 : 0.5) {
      const { most, span, x } = now();
      const next = Math.min(Math.max(span * factor, SHORTEST), most);
      set({ span: next, from: x + at * (span - next), follow: state.follow && at >= 1 });
    },
    fit() {
      set({ span: Infinity, from: 0, follow: false });
    },
    /** Looks at a stretch. @param {number} from @param {number} to */
    show(from, to) {
      set({ from, span: Math.max(SHORTEST, to - from), follow: false });
    },
    /** Follows the newest, close enough to see it move; or stands still. */
    live() {
      const { x, span } = now();
      if (state.follow) set({ from: x, span, follow: false });
      else set({ span: Math.min(state.span, LIVE_SPAN), follow: true });
    },
  };
}

/** @typedef {ReturnType<typeof useWindow>} Window */

/** The width of an element, as it changes. */
export function useSize() {
  const ref = useRef(/** @type {HTMLElement|null} */ (null));
  const [size, setSize] = useState({ width: 800, height: 400 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return /** @type {const} */ ([ref, size]);
}

/**
 * Drags the time sideways; with shift, chooses a stretch of it to look at; with two fingers, zooms.
 * @param {{current: HTMLElement|null}} ref @param {Window} window @param {number} width @param {number} labels how wide what stands before it is
 */
export function useDrag(ref, window, width, labels) {
  /** The stretch that is being chosen, in pixels. */
  const [brush, setBrush] = useState(/** @type {{from: number, to: number}|null} */ (null));
  const place = (/** @type {PointerEvent} */ event) => Math.min(width, Math.max(0, event.clientX - (ref.current?.getBoundingClientRect().left ?? 0) - labels));
  const from = useRef(/** @type {{px: number, y: number, x: number, top: number}|null} */ (null));
  const far = useRef(false);
  const pinch = usePinch(ref, window, width, labels);
  return {
    moved: () => far.current, brush,
    handlers: {
      onPointerDown(/** @type {PointerEvent} */ event) {
        far.current = false;
        if (pinch.down(event)) {
          far.current = true;
          from.current = null;
          return;
        }
        if (event.button !== 0 || !ref.current) return;
        if (event.shiftKey) {
          far.current = true;
          ref.current.setPointerCapture(event.pointerId);
          setBrush({ from: place(event), to: place(event) });
          return;
        }
        from.current = { px: event.clientX, y: event.clientY, x: window.x, top: ref.current.scrollTop };
      },
      onPointerMove(/** @type {PointerEvent} */ event) {
        if (pinch.move(event)) return;
        if (brush && event.buttons === 1) setBrush({ ...brush, to: place(event) });
        const start = from.current;
        if (!start || event.buttons !== 1 || !ref.current) return;
        const by = event.clientX - start.px;
        if (Math.abs(by) + Math.abs(event.clientY - start.y) > 4 && !far.current) {
          far.current = true;
          ref.current.setPointerCapture(event.pointerId);
        }
        if (!far.current) return;
        window.move(start.x - (by / width) * window.span);
        if (event.pointerType === 'mouse') ref.current.scrollTop = start.top - (event.clientY - start.y);
      },
      onPointerUp(/** @type {PointerEvent} */ event) {
        pinch.up(event);
        from.current = null;
        if (!brush) return;
        const [left, right] = [Math.min(brush.from, brush.to), Math.max(brush.from, brush.to)];
        setBrush(null);
        if (right - left > 4) window.show(window.x + (left / width) * window.span, window.x + (right / width) * window.span);
      },
      onPointerCancel(/** @type {PointerEvent} */ event) {
        pinch.up(event);
        from.current = null;
        setBrush(null);
      },
    },
  };
}

/**
 * Two fingers zoom: what is between them stays there.
 * @param {{current: HTMLElement|null}} ref @param {Window} window @param {number} width @param {number} labels
 */
function usePinch(ref, window, width, labels) {
  const fingers = useRef(/** @type {Map<number, number>} */ (new Map())).current;
  const apart = () => {
    const [one = 0, other = 0] = fingers.values();
    return Math.max(1, Math.abs(one - other));
  };
  return {
    /** @param {PointerEvent} event @returns {boolean} whether it is the second finger */
    down(event) {
      if (event.pointerType !== 'touch') return false;
      fingers.set(event.pointerId, event.clientX);
      if (fingers.size === 2) for (const id of fingers.keys()) ref.current?.setPointerCapture(id);
      return fingers.size === 2;
    },
    /** @param {PointerEvent} event @returns {boolean} whether two fingers move */
    move(event) {
      if (fingers.size !== 2 || !fingers.has(event.pointerId)) return false;
      const before = apart();
      fingers.set(event.pointerId, event.clientX);
      const [one = 0, other = 0] = fingers.values();
      const at = ((one + other) / 2 - (ref.current?.getBoundingClientRect().left ?? 0) - labels) / width;
      window.zoom(before / apart(), Math.min(1, Math.max(0, at)));
      return true;
    },
    /** @param {PointerEvent} event */
    up(event) {
      fingers.delete(event.pointerId);
    },
  };
}

/** Ctrl and the wheel, or a pinch, zooms; sideways or with shift it moves. @param {{current: HTMLElement|null}} ref @param {Window} window @param {number} labels @param {number} width */
export function useWheel(ref, window, labels, width) {
  const latest = useRef({ window, labels, width });
  latest.current = { window, labels, width };
  useEffect(() => {
    const element = ref.current;
    const wheel = (/** @type {WheelEvent} */ event) => {
      const now = latest.current;
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        const at = (event.clientX - (element?.getBoundingClientRect().left ?? 0) - now.labels) / now.width;
        now.window.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), Math.min(1, Math.max(0, at)));
      } else if (sideways !== 0) {
        now.window.shift(sideways / now.width);
      } else {
        return;
      }
      event.preventDefault();
    };
    // The page must not zoom or go back meanwhile, which a passive listener could not prevent.
    element?.addEventListener('wheel', wheel, { passive: false });
    return () => element?.removeEventListener('wheel', wheel);
  }, []);
}

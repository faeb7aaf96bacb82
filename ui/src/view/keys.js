import { useEffect, useRef } from '../../vendor/ui.js';
import { preference } from './theme.js';

/** @typedef {import('../app.js').Salon} Salon */

/**
 * Keys that work wherever nothing is being written.
 * @param {Salon} salon @param {{people: () => void, help: () => void, find: () => void, search: () => void, escape?: () => boolean}} does escape: whether there was something to close
 */
export function useKeys(salon, does) {
  const now = useRef(does);
  now.current = does;
  useEffect(() => {
    const key = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k' && !document.querySelector('dialog[open]')) {
        event.preventDefault();
        now.current.find();
        return;
      }
      if ((event.ctrlKey || event.metaKey) && event.shiftKey && !event.altKey && event.key.toLowerCase() === 'f' && !document.querySelector('dialog[open]')) {
        event.preventDefault();
        now.current.search();
        return;
      }
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === 'Escape' && !document.querySelector('dialog[open]') && now.current.escape?.()) return;
      if (isWriting(event.target) || document.querySelector('dialog[open]') || !areSingleKeysOn()) return;
      if (pressed(salon, now.current, event.key)) event.preventDefault();
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, [salon]);
}

/** @param {Salon} salon @param {{people: () => void, help: () => void}} does @param {string} key @returns {boolean} whether it was a key of ours */
function pressed(salon, does, key) {
  const focus = (/** @type {string} */ id) => document.getElementById(id)?.focus();
  switch (key) {
    case '/': focus('filter-text'); return true;
    case 'c': focus('composer'); return true;
    case 'p': does.people(); return true;
    case '?': does.help(); return true;
    case 'a': if (salon.visit) salon.open({ panel: 'asks' }); return true;
    case 't':
      if (salon.route.view !== 'lobby') {
        salon.go({ view: salon.route.view === 'room' ? 'timeline' : 'room', topic: salon.route.topic });
      }
      return true;
    default: return false;
  }
}

/** @param {EventTarget|null} target */
function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

/** Whether the person wants them. */
export function areSingleKeysOn() {
  return preference('keys', 'on') === 'on';
}

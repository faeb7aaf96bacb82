import { html, useEffect, useRef, useState } from '../../vendor/ui.js';
import { prefer, preference } from './theme.js';

/** @typedef {import('../app.js').Salon} Salon */

const KEYS = [
  ['Ctrl K', 'go to a room'],
  ['/', 'filter the room'],
  ['c', 'write a message'],
  ['p', 'people'],
  ['t', 'timeline and back'],
  ['a', 'questions to you'],
  ['?', 'these keys'],
  ['Esc', 'close what is open'],
  ['↑ ↓', 'in the transcript: the row before, the next'],
  ['Enter', 'on a row: unfold it'],
  ['r', 'on a message: reply'],
  ['i', 'on a row: inspect the envelope'],
  ['End', 'in the transcript: to the newest'],
];

/**
 * Keys that work wherever nothing is being written.
 * @param {Salon} salon @param {{people: () => void, help: () => void, find: () => void, escape?: () => boolean}} does escape: whether there was something to close
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

function areSingleKeysOn() {
  return preference('keys', 'on') === 'on';
}

/** The list of keys. @param {{onClose: () => void}} props */
export function KeysHelp({ onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [on, setOn] = useState(areSingleKeysOn());
  useEffect(() => { dialog.current?.showModal(); }, []);
  return html`
    <dialog class="dialog keys" ref=${dialog} onClose=${onClose} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl>${KEYS.map(([key, does]) => html`<div key=${key + does}><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
      <label><input type="checkbox" checked=${on} onChange=${(/** @type {any} */ event) => {
        prefer('keys', event.currentTarget.checked ? 'on' : 'off');
        setOn(event.currentTarget.checked);
      }} /> Single keys work outside of text fields</label>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  `;
}

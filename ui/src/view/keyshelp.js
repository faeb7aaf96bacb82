import { html, useState } from '../../vendor/ui.js';
import { useDialog } from './dialog.js';
import { areSingleKeysOn } from './keys.js';
import { prefer } from './theme.js';

const KEYS = [
  ['Ctrl K', 'go to a room'],
  ['Ctrl Shift F', 'search all rooms'],
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
  ['↑', 'in an empty message field: change your last message'],
  ['End', 'in the transcript: to the newest'],
];

/** The list of keys. @param {{onClose: () => void}} props */
export function KeysHelp({ onClose }) {
  const dialog = useDialog();
  const [on, setOn] = useState(areSingleKeysOn());
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

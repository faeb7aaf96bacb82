/** What one says of oneself in the people list: a word, a line of text, and for how long. */

import { html, useId, useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { callHost } from '../net/host.js';
import { useDialog, useSubmit } from './dialog.js';

/** @type {[string, string][]} */
const WORDS = [['', 'No status'], ['idle', 'Idle'], ['working', 'Working'], ['blocked', 'Blocked'], ['away', 'Away']];
/** @type {[number, string][]} in minutes */
const TIMES = [[0, 'Until I change it or leave'], [30, '30 minutes'], [60, '1 hour'], [240, '4 hours'], [1440, '1 day']];
const MAX_TEXT = 200;

/** @param {{onClose: () => void}} props */
export function StatusDialog({ onClose }) {
  const { room, peer } = useSalon();
  const dialog = useDialog();
  const now = room.people.get(room.me)?.status;
  const [word, setWord] = useState(now?.status ?? 'away');
  const [text, setText] = useState(now?.text ?? '');
  const [minutes, setMinutes] = useState(0);
  const id = useId();
  const { problem, busy, submit } = useSubmit(dialog, () => {
    const until = minutes > 0 ? { until: new Date(Date.now() + minutes * 60_000).toISOString() } : {};
    const words = text.trim() === '' ? {} : { text: text.trim() };
    return callHost(peer, 'presence.set', word === '' ? { status: null } : { status: word, ...words, ...until });
  });
  const options = (/** @type {[string|number, string][]} */ all, /** @type {string|number} */ chosen) =>
    all.map(([value, label]) => html`<option key=${value} value=${value} selected=${value === chosen}>${label}</option>`);
  return html`
    <dialog class="confirm" ref=${dialog} aria-labelledby=${`${id}-title`} onClose=${onClose}>
      <form onSubmit=${submit}>
        <h2 id=${`${id}-title`}>What are you doing?</h2>
        <div class="field"><div class="field-name"><label for=${`${id}-word`}>Status</label></div>
          <select id=${`${id}-word`} onChange=${(/** @type {any} */ event) => setWord(event.currentTarget.value)} autofocus>${options(WORDS, word)}</select></div>
        ${word !== '' && html`
          <div class="field"><div class="field-name"><label for=${`${id}-text`}>In your words (optional)</label></div>
            <input id=${`${id}-text`} type="text" maxlength=${MAX_TEXT} value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} /></div>
          <div class="field"><div class="field-name"><label for=${`${id}-time`}>For how long</label></div>
            <select id=${`${id}-time`} onChange=${(/** @type {any} */ event) => setMinutes(Number(event.currentTarget.value))}>${options(TIMES, minutes)}</select></div>`}
        ${problem && html`<p class="error-note" role="alert">${problem}</p>`}
        <div class="form-buttons">
          <button type="submit" class="primary" disabled=${busy}>Set status</button>
          <button type="button" onClick=${() => dialog.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>`;
}

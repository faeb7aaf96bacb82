/** Finds a room by its name, or enters a new one: Ctrl+K. */

import { html, useEffect, useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { isTopic, opens, roomName } from '../model/route.js';
import { count } from '../model/text.js';
import { useDialog } from './dialog.js';

/** @typedef {{topic: string, about: string, entered: boolean}} Choice */

const MAX_SHOWN = 50;

/** @param {{onClose: () => void}} props */
export function Switcher({ onClose }) {
  const salon = useSalon();
  const dialog = useDialog();
  const [typed, setTyped] = useState('');
  const [chosen, setChosen] = useState(0);
  const [known, setKnown] = useState(/** @type {import('../net/session.js').Topic[]} */ ([]));
  useEffect(() => {
    let gone = false;
    // Without the list the rooms of this tab can still be found.
    salon.gateway.topics().then((topics) => { if (!gone) setKnown(topics); }, () => {});
    return () => { gone = true; };
  }, []);
  const found = choices(salon, known, typed);
  const at = Math.min(chosen, found.length - 1);
  const enter = (/** @type {string|undefined} */ topic) => {
    if (topic === undefined) return;
    dialog.current?.close();
    salon.go({ view: 'room', topic });
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') setChosen((at + (event.key === 'ArrowDown' ? 1 : found.length - 1)) % Math.max(1, found.length));
    else if (event.key === 'Enter') enter(found[at]?.topic);
    else return;
    event.preventDefault();
  };
  return html`
    <dialog class="dialog switcher" ref=${dialog} onClose=${onClose} aria-label="Go to a room">
      <input type="text" role="combobox" aria-expanded="true" aria-controls="switcher-list" aria-label="Room" placeholder="Find or enter a room" autofocus
        aria-activedescendant=${found.length > 0 ? `switcher-${at}` : null} value=${typed} spellcheck=${false} autocomplete="off" onKeyDown=${key}
        onInput=${(/** @type {any} */ event) => { setTyped(event.currentTarget.value); setChosen(0); }} />
      <ul id="switcher-list" role="listbox" aria-label="Rooms">
        ${found.map((each, index) => html`
          <li key=${each.topic} id=${`switcher-${index}`} role="option" aria-selected=${index === at} onClick=${() => enter(each.topic)}>
            <b class="clipped">${roomName(each.topic)}</b> <span class="faint">${each.about}</span></li>`)}
      </ul>
      ${found.length === 0 && html`<p class="faint">No room of that name, and you may not enter one.</p>`}
    </dialog>`;
}

/** @param {import('../app.js').Salon} salon @param {import('../net/session.js').Topic[]} known @param {string} typed @returns {Choice[]} */
function choices(salon, known, typed) {
  const wanted = typed.trim();
  const patterns = salon.session?.topics ?? [];
  const entered = new Map(salon.visits.all().map((visit) => [visit.room.topic, visit]));
  const names = new Set([...entered.keys(), ...known.map(({ name }) => name), ...patterns.filter((name) => !name.endsWith('*'))]);
  const about = (/** @type {string} */ topic) => {
    const visit = entered.get(topic);
    const here = known.find(({ name }) => name === topic)?.participants ?? 0;
    return [visit && 'entered', visit && visit.room.unread > 0 && `${visit.room.unread} unread`, here > 0 && `${here} here`].filter(Boolean).join(', ');
  };
  const fits = [...names].filter((topic) => topic.toLowerCase().includes(wanted.toLowerCase()))
    .sort((a, b) => Number(entered.has(b)) - Number(entered.has(a)) || a.localeCompare(b));
  const found = fits.slice(0, MAX_SHOWN).map((topic) => ({ topic, about: about(topic), entered: entered.has(topic) }));
  const fresh = [wanted, `room:${wanted}`].find((topic) => isTopic(topic) && opens(patterns, topic));
  const exists = fresh === undefined || names.has(fresh) || names.has(`room:${wanted}`);
  return wanted === '' || exists ? found : [...found, { topic: fresh, about: `new room${fits.length > 0 ? '' : `, beside ${count(names.size, 'other')}`}`, entered: false }];
}

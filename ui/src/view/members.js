/** The members of a room with their roles, and the role of everybody else. */

import { html, useId, useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { GATEWAY } from '../model/envelope.js';
import { Name } from './who.js';

/** @typedef {import('../model/control.js').TopicSettings} TopicSettings */

/** The names of all roles of a topic. @param {TopicSettings} settings */
export function rolesIn({ roles = {} }) {
  return [...new Set(['owner', 'member', 'observer', ...Object.keys(roles)])];
}

/** @param {{draft: TopicSettings, onChange: (part: Partial<TopicSettings>) => void}} props */
export function Members({ draft, onChange }) {
  const { room } = useSalon();
  const { members = {}, default_role: otherwise = 'member' } = draft;
  const roles = rolesIn(draft);
  const [who, setWho] = useState('');
  const id = useId();
  const give = (/** @type {string} */ member, /** @type {string|undefined} */ role) => {
    const next = { ...members };
    if (role === undefined) delete next[member];
    else next[member] = role;
    onChange({ members: next });
  };
  const add = () => {
    if (who.trim() === '') return;
    give(who.trim(), members[who.trim()] ?? 'member');
    setWho('');
  };
  const options = roles.map((role) => html`<option key=${role} value=${role}>${role}</option>`);
  const others = [...room.people.values()].filter((person) => person.id !== GATEWAY && !(person.id in members));
  return html`
    <section class="settings-part"><h3>Members</h3>
      <ul class="allowed">${Object.entries(members).map(([member, role]) => html`
        <li key=${member}><span><${Name} id=${member} always /></span>
          <span class="bar"><select aria-label=${`Role of ${member}`} value=${role} onChange=${(/** @type {any} */ event) => give(member, event.currentTarget.value)}>${options}</select>
            <button type="button" class="small" aria-label=${`Remove ${member} from the members`} onClick=${() => give(member, undefined)}>✕</button></span></li>`)}
      </ul>
      <div class="bar"><input type="text" list=${`${id}-people`} value=${who} placeholder="Id of a participant" aria-label="Id of a new member" spellcheck=${false} autocomplete="off"
          onInput=${(/** @type {any} */ event) => setWho(event.currentTarget.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') { event.preventDefault(); add(); } }} />
        <datalist id=${`${id}-people`}>${others.map((person) => html`<option key=${person.id} value=${person.id}>${person.name ?? ''}</option>`)}</datalist>
        <button type="button" onClick=${add}>Add member</button></div>
      <div class="field"><div class="field-name"><label for=${id}>Role of everybody else</label></div>
        <select id=${id} value=${otherwise} onChange=${(/** @type {any} */ event) => onChange({ default_role: event.currentTarget.value })}>${options}</select></div>
    </section>`;
}

/** Stopping a room, and pausing and removing participants. */

import { html, useState } from '../../vendor/ui.js';
import { useRevision, useSalon } from '../app.js';
import { GATEWAY } from '../model/envelope.js';
import { fullName } from '../model/people.js';
import { roomName } from '../model/route.js';
import { callHost } from '../net/host.js';
import { may } from '../powers.js';
import { ReasonDialog } from './reason.js';

/** @param {string} reason */
const because = (reason) => (reason === '' ? {} : { reason });

/** @param {{onClose: () => void}} props */
export function StopDialog({ onClose }) {
  const { peer, room } = useSalon();
  return html`
    <${ReasonDialog} title=${`Stop everything in ${roomName(room.topic)}?`} act="Stop everything" onClose=${onClose}
      about=${html`<p>Everyone who is neither a person nor a moderator is paused until somebody resumes the room. Running calls of everyone but moderators are cancelled.</p>`}
      onDo=${(/** @type {string} */ reason) => callHost(peer, 'room.stop', because(reason))} />`;
}

const ACTS = {
  pause: { label: 'Pause', about: 'can read and answer, and nothing else, until the pause is ended. Its running calls are cancelled.', dangerous: false },
  resume: { label: 'End the pause', about: 'can act again.', dangerous: false },
  remove: { label: 'Remove', about: 'is disconnected, and cannot come back by any door until it is readmitted.', dangerous: true },
  readmit: { label: 'Readmit', about: 'can enter again.', dangerous: false },
};

/** What a moderator can do about a participant. @param {{id: string}} props */
export function ParticipantControl({ id }) {
  const { room, session, peer } = useSalon();
  useRevision(room);
  const [act, setAct] = useState(/** @type {keyof typeof ACTS|null} */ (null));
  const { settings } = room.control;
  const isPaused = settings?.paused?.includes(id) === true;
  const isRemoved = settings?.removed?.includes(id) === true;
  if (id === GATEWAY || !may(room, session, 'moderate')) {
    return isPaused || isRemoved ? html`<p class="aside">${isRemoved ? 'Removed from this room.' : 'Paused in this room.'}</p>` : null;
  }
  const offered = /** @type {(keyof typeof ACTS)[]} */ ([isPaused ? 'resume' : 'pause', isRemoved ? 'readmit' : 'remove']);
  const name = fullName(room.people, id);
  return html`
    <div class="form-buttons control-buttons" role="group" aria-label=${`Control ${name}`}>
      ${isPaused && html`<span class="badge-word">Paused</span>`}${isRemoved && html`<span class="badge-word">Removed</span>`}
      ${offered.map((each) => html`<button type="button" key=${each} class=${ACTS[each].dangerous ? 'small danger' : 'small'} onClick=${() => setAct(each)}>${ACTS[each].label}</button>`)}
    </div>
    ${act && html`
      <${ReasonDialog} title=${`${ACTS[act].label}: ${name}?`} act=${ACTS[act].label} dangerous=${ACTS[act].dangerous} onClose=${() => setAct(null)}
        about=${html`<p><b>${name}</b> ${ACTS[act].about}</p>`}
        onDo=${(/** @type {string} */ reason) => callHost(peer, `participant.${act}`, { participant: id, ...because(reason) })} />`}`;
}

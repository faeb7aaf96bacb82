/** What can be done with a chat message: change it, take it back, redact it, see who has got it. */

import { html, useEffect, useRef, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { isOwn } from '../model/envelope.js';
import { callHost } from '../net/host.js';
import { may } from '../powers.js';
import { MessageStatus } from './messagestatus.js';
import { ReasonDialog } from './reason.js';

/** @param {{envelope: import('../model/types.js').Envelope, onClose: () => void}} props */
export function MessageMenu({ envelope, onClose }) {
  const salon = useSalon();
  const { room, session, peer } = salon;
  const place = useRef(/** @type {HTMLElement|null} */ (null));
  const [asked, setAsked] = useState(/** @type {'status'|'redact'|null} */ (null));
  const mine = isOwn(envelope, room.me);
  const canRedact = !envelope.redacted && may(room, session, 'moderate');
  useEffect(() => { /** @type {HTMLElement|null} */ (place.current?.querySelector('button'))?.focus(); }, []);
  const retract = () => {
    onClose();
    peer.retract(envelope.id, envelope.to).catch((problem) => salon.say(`Not taken back: ${said(problem)}`, 'error'));
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    onClose();
  };
  return html`
    <div class="message-menu" role="group" aria-label="Message" ref=${place} onKeyDown=${keys}>
      ${mine && html`<button type="button" class="small" onClick=${() => { onClose(); salon.edit(envelope); }}>Edit</button>`}
      ${mine && html`<button type="button" class="small" onClick=${retract}>Take back</button>`}
      <button type="button" class="small" onClick=${() => setAsked('status')}>Who has got it</button>
      ${canRedact && html`<button type="button" class="small danger" onClick=${() => setAsked('redact')}>Redact…</button>`}
    </div>
    ${asked === 'status' && html`<${MessageStatus} id=${envelope.id} />`}
    ${asked === 'redact' && html`
      <${ReasonDialog} title="Redact this message?" act="Redact" onClose=${() => setAsked(null)}
        about=${html`<p>Its text is removed from the log for good, in every replay. Copies that were delivered already cannot be called back.</p>`}
        onDo=${async (/** @type {string} */ reason) => {
    await callHost(peer, 'message.redact', { id: envelope.id, ...(reason === '' ? {} : { reason }) });
    onClose();
  }} />`}`;
}

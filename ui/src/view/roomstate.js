import { html, useState } from '../../vendor/ui.js';
import { said, useRevision, useSalon } from '../app.js';
import { callHost } from '../net/host.js';
import { may, muteReason } from '../powers.js';

/** What keeps participants from acting here, and how to end that, for people who may. */
export function StateBanner() {
  const salon = useSalon();
  const { room, session, peer } = salon;
  useRevision(room);
  const [busy, setBusy] = useState(false);
  const { settings } = room.control;
  const act = async (/** @type {string} */ tool, /** @type {object} */ args) => {
    setBusy(true);
    await callHost(peer, tool, args).catch((error) => salon.say(said(error), 'error'));
    setBusy(false);
  };
  const why = muteReason(room, session);
  return html`
    ${settings?.stopped && html`
      <div class="banner bad" role="status">
        <span>This room is stopped. Everyone who is neither a person nor a moderator is paused.</span>
        ${may(room, session, 'moderate') && html`<button type="button" disabled=${busy} onClick=${() => void act('room.resume', {})}>Resume</button>`}
      </div>`}
    ${why !== '' && html`
      <div class="banner warn" role="status"><span>${why}</span>
        ${settings?.archived && may(room, session, 'manage') && html`
          <button type="button" disabled=${busy} onClick=${() => void act('topic.configure', { change: { archived: false } })}>Reopen</button>`}
      </div>`}`;
}

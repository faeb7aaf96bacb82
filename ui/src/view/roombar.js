/** What the bar above a room has for its control: its settings, and stopping everything. What state the room is in stands below the bar. */

import { html, useState } from '../../vendor/ui.js';
import { useSalon, useSlowRevision } from '../app.js';
import { may, muteReason } from '../powers.js';
import { GearIcon } from './icons.js';
import { lazy } from './lazy.js';

const StopDialog = lazy(async () => (await import('./moderate.js')).StopDialog, { sheet: 'doing', quiet: true });
const StateBanner = lazy(async () => (await import('./roomstate.js')).StateBanner, { quiet: true });

export function RoomTools() {
  const salon = useSalon();
  const { room, session } = salon;
  useSlowRevision(room);
  const [stopping, setStopping] = useState(false);
  const canStop = !room.control.settings?.stopped && may(room, session, 'moderate');
  return html`
    <button type="button" class="plain room-settings" aria-label="Settings of this room" title="Settings of this room" onClick=${() => salon.open({ panel: 'settings' })}><${GearIcon} /></button>
    ${canStop && html`<button type="button" class="danger stop-button" title="Pause everyone here who is not a person" onClick=${() => setStopping(true)}>Stop</button>`}
    ${stopping && html`<${StopDialog} onClose=${() => setStopping(false)} />`}`;
}

/** Says why nothing happens in a room that is stopped or archived, or in which the person is paused. */
export function RoomBanner() {
  const { room, session } = useSalon();
  useSlowRevision(room);
  const { settings } = room.control;
  return settings?.stopped || settings?.archived || muteReason(room, session) !== '' ? html`<${StateBanner} />` : null;
}

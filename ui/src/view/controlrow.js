import { html } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { changeText } from '../model/changes.js';
import { nameOf } from '../model/people.js';
import { clip, clock, moment } from '../model/text.js';
import { Who } from './who.js';

/** A change of the room's settings, and who made it. @param {{item: import('../model/types.js').ControlItem}} props */
export function ControlRow({ item: { envelope, before } }) {
  const salon = useSalon();
  const { settings, by, reason } = envelope.payload.params;
  const text = changeText(before, settings, (id) => nameOf(salon.room.people, id));
  return html`
    <div class="notice control" data-stop=${settings.stopped && !before?.stopped ? '' : null}>
      <${Who} id=${String(by)} />
      <span class="notice-text" dir="auto">${clip(text, 1000)}${reason ? html`: <q>${clip(reason, 1000)}</q>` : ''}</span>
      <button type="button" class="inspect" onClick=${() => salon.open({ panel: 'inspector', id: envelope.id })}>Inspect</button>
      <time datetime=${envelope.ts} title=${moment(envelope.at)}>${clock(envelope.at)}</time>
    </div>`;
}

/** The way to a conversation that nobody else can read. */

import { html, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { GATEWAY } from '../model/envelope.js';
import { nameOf } from '../model/people.js';
import { opens } from '../model/route.js';
import { callHost } from '../net/host.js';

/** Talks to somebody alone, where the person's token opens such a room. @param {{id: string}} props */
export function TalkAlone({ id }) {
  const salon = useSalon();
  const { room, session } = salon;
  const [busy, setBusy] = useState(false);
  // As `dm.open` names it: the ids in order.
  const topic = `dm:${[room.me, id].sort().join(',')}`;
  if (id === room.me || id === GATEWAY || room.topic === topic || !opens(session?.topics ?? [], topic)) return null;
  const open = async () => {
    setBusy(true);
    try {
      const opened = await callHost(salon.peer, 'dm.open', { with: [id] });
      salon.goTo(opened.topic);
    } catch (problem) {
      salon.say(`You cannot talk to ${id} alone: ${said(problem)}`, 'error');
    }
    setBusy(false);
  };
  return html`<button type="button" class="small talk-alone" title=${`A room that only ${nameOf(room.people, id)} and you can enter`} disabled=${busy}
    onClick=${() => void open()}>Talk alone<span class="unseen"> with ${id}</span></button>`;
}

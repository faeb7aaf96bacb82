/** How to let somebody into this room: its address, and the commands that make a token or bring a server. */

import { html, useEffect, useId, useRef, useState } from '../../vendor/ui.js';
import { command } from '../model/command.js';
import { hashOf, roomName } from '../model/route.js';
import { useSalon } from '../app.js';

/** @param {{onClose: () => void}} props */
export function InviteDialog({ onClose }) {
  const salon = useSalon();
  const { topic } = salon.room;
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [id, setId] = useState('');
  const field = useId();
  useEffect(() => { dialog.current?.showModal(); }, []);
  const who = id.trim() || 'NAME';
  const link = new URL(hashOf({ view: 'room', topic }), document.baseURI).href;
  return html`
    <dialog class="dialog invite" ref=${dialog} onClose=${onClose} aria-labelledby=${`${field}-title`}>
      <h2 id=${`${field}-title`}>Invite to ${roomName(topic)}</h2>
      <${Copied} name="Link to this room" text=${link} about="For somebody who has access to this room already." />
      <div class="field"><div class="field-name"><label for=${field}>Name of whom you invite</label></div>
        <input id=${field} type="text" value=${id} placeholder="bob" spellcheck=${false} autocomplete="off" autocapitalize="off"
          onInput=${(/** @type {any} */ event) => setId(event.currentTarget.value)} /></div>
      <${Copied} name="Token for a person" text=${command('token', '--topic', topic, '--id', who, '--kind', 'human')}
        about="Run it on the gateway's machine and send them the token with the link. It opens this room only." />
      <${Copied} name="An MCP server" text=${`${command('join', topic, '--as', who)} -- COMMAND`} about="Brings the server that COMMAND starts into this room." />
      <form method="dialog" class="form-buttons"><button type="submit">Close</button></form>
    </dialog>`;
}

/** @param {{name: string, text: string, about: string}} props */
function Copied({ name, text, about }) {
  const salon = useSalon();
  return html`
    <section aria-label=${name}>
      <h3>${name}</h3>
      <div class="bar"><code class="clipped">${text}</code><span class="spring"></span>
        <button type="button" class="small" onClick=${() => void salon.copy(text, 'Copied')}>Copy<span class="unseen"> ${name}</span></button></div>
      <p class="aside">${about}</p>
    </section>`;
}

/** How to let somebody into this room: its address, and the commands that make a token or bring a server. */

import { html, useId, useState } from '../../vendor/ui.js';
import { command } from '../model/command.js';
import { hashOf, roomName } from '../model/route.js';
import { moment } from '../model/text.js';
import { said, useSalon } from '../app.js';
import { useDialog } from './dialog.js';

/** @param {{topic: string, onClose: () => void}} props */
export function InviteDialog({ topic, onClose }) {
  const salon = useSalon();
  const dialog = useDialog();
  const [id, setId] = useState('');
  const field = useId();
  const who = id.trim() || 'NAME';
  const link = new URL(hashOf({ view: 'room', topic }), document.baseURI).href;
  return html`
    <dialog class="dialog invite" ref=${dialog} onClose=${onClose} aria-labelledby=${`${field}-title`}>
      <h2 id=${`${field}-title`}>Invite to ${roomName(topic)}</h2>
      <${Copied} name="Link to this room" text=${link} about="For somebody who has access to this room already." />
      <div class="field"><div class="field-name"><label for=${field}>Name of whom you invite</label></div>
        <input id=${field} type="text" value=${id} placeholder="bob" spellcheck=${false} autocomplete="off" autocapitalize="off"
          onInput=${(/** @type {any} */ event) => setId(event.currentTarget.value)} /></div>
      ${salon.session?.permissions?.includes('operator') && html`<${OneTimeLink} topic=${topic} id=${id.trim()} />`}
      <${Copied} name="Token for a person" text=${command('token', '--topic', topic, '--id', who, '--kind', 'human')}
        about="Run it on the gateway's machine and send them the token with the link. It opens this room only." />
      <${Copied} name="An MCP server" text=${`${command('join', topic, '--as', who)} -- COMMAND`} about="Brings the server that COMMAND starts into this room." />
      <form method="dialog" class="form-buttons"><button type="submit">Close</button></form>
    </dialog>`;
}

/** A link that signs one person in, once. @param {{topic: string, id: string}} props */
function OneTimeLink({ topic, id }) {
  const salon = useSalon();
  const [made, setMade] = useState(/** @type {{id: string, link: string, expires: string}|null} */ (null));
  const [problem, setProblem] = useState('');
  const make = async () => {
    setProblem('');
    try {
      const { fragment, expires } = await salon.gateway.invite({ topic, id });
      setMade({ id, link: new URL(`${fragment}&room=${encodeURIComponent(topic)}`, document.baseURI).href, expires });
    } catch (error) {
      setProblem(said(error));
    }
  };
  return html`
    <section aria-label="Invitation link">
      <h3>Invitation link</h3>
      ${made ? html`<${Copied} name=${`Link for ${made.id}`} text=${made.link} about=${`Signs one browser in as ${made.id}, for this room only. It works once, until ${moment(Date.parse(made.expires))}, or until the gateway restarts.`} />`
        : html`<p class="aside">Signs a browser in under this name, for this room only. It works once.</p>`}
      ${problem && html`<p class="error-note" role="alert">${problem}</p>`}
      <button type="button" disabled=${id === '' || made?.id === id} onClick=${() => void make()}>Make a link${id === '' ? '' : ` for ${id}`}</button>
    </section>`;
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

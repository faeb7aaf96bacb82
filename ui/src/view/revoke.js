/** Revoking tokens: one, those of a participant, or everybody's. */

import { html, useId, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { moment } from '../model/text.js';

export function Revoke() {
  const salon = useSalon();
  const [which, setWhich] = useState(/** @type {'participant'|'token'|'all'} */ ('participant'));
  const [name, setName] = useState('');
  const [told, setTold] = useState({ text: '', isBad: false });
  const id = useId();
  const revoke = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const asked = which === 'all' ? { all: true } : { [which]: name.trim() };
    if (which === 'all' && name.trim() !== 'everybody') {
      setTold({ text: 'Write everybody to confirm.', isBad: true });
      return;
    }
    try {
      const { before } = await salon.gateway.revoke(asked);
      setTold({ text: `Revoked: tokens issued up to ${moment(Date.parse(before))} are refused, and their connections are closed.`, isBad: false });
      setName('');
    } catch (error) {
      setTold({ text: said(error), isBad: true });
    }
  };
  const labels = { participant: 'Id of the participant', token: 'Id of the token (jti)', all: 'Write “everybody” to confirm' };
  return html`
    <section aria-label="Tokens">
      <h2>Revoke tokens</h2>
      <form class="revoke" onSubmit=${revoke}>
        <label for=${`${id}-which`}>Which</label>
        <select id=${`${id}-which`} value=${which} onChange=${(/** @type {any} */ event) => { setWhich(event.currentTarget.value); setTold({ text: '', isBad: false }); }}>
          <option value="participant">all tokens of a participant</option><option value="token">one token</option><option value="all">everybody's tokens</option></select>
        <label for=${id}>${labels[which]}</label>
        <input id=${id} type="text" spellcheck=${false} autocomplete="off" autocapitalize="off" value=${name} onInput=${(/** @type {any} */ event) => setName(event.currentTarget.value)} />
        <button type="submit" class="primary dangerous" disabled=${name.trim() === ''}>Revoke</button>
      </form>
      ${told.text && html`<p class=${told.isBad ? 'error-note' : 'aside'} role="status">${told.text}</p>`}
    </section>`;
}

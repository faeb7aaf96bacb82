/** A question before something that concerns others, with a field for the reason, which everybody can read. */

import { html, useId, useState } from '../../vendor/ui.js';
import { useDialog, useSubmit } from './dialog.js';

/**
 * @param {{title: string, about: any, act: string, dangerous?: boolean, children?: any, onDo: (reason: string) => Promise<unknown>, onClose: () => void}} props
 *   act: what the button says; onDo: rejects with what is shown
 */
export function ReasonDialog({ title, about, act, dangerous = true, children, onDo, onClose }) {
  const dialog = useDialog();
  const [reason, setReason] = useState('');
  const id = useId();
  const { problem, busy, submit } = useSubmit(dialog, () => onDo(reason.trim()));
  return html`
    <dialog class="confirm" ref=${dialog} aria-labelledby=${`${id}-title`} onClose=${onClose}>
      <form onSubmit=${submit}>
        <h2 id=${`${id}-title`}>${title}</h2>
        <div>${about}</div>
        ${children}
        <div class="field"><div class="field-name"><label for=${id}>Reason, for everybody to read (optional)</label></div>
          <input id=${id} type="text" maxlength="1000" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.currentTarget.value)} autofocus /></div>
        ${problem && html`<p class="error-note" role="alert">${problem}</p>`}
        <div class="form-buttons">
          <button type="submit" class=${dangerous ? 'primary dangerous' : 'primary'} disabled=${busy}>${act}</button>
          <button type="button" onClick=${() => dialog.current?.close()}>Cancel</button>
        </div>
      </form>
    </dialog>`;
}

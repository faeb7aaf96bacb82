/** The question before a tool is called, and the list of what need not be asked any more. */

import { html, useEffect, useId, useMemo, useState } from '../../vendor/ui.js';
import { parseExact, stringifyExact } from '../model/exact.js';
import { clip, count } from '../model/text.js';
import { useRevision, useSalon } from '../app.js';
import { useDialog } from './dialog.js';
import { Name } from './who.js';

/** @typedef {import('../model/rights.js').Pending} Pending */

const MAX_SHOWN = 20_000;
/** A key that is held, or a second click, must not answer a question that nobody has read. */
const PAUSE_MS = 400;

/** @param {{pending: Pending}} props */
export function ConfirmDialog({ pending }) {
  const { rights } = useSalon();
  const { participant, tool, args, warnings, dangerous } = pending;
  const [always, setAlways] = useState(false);
  const [ready, setReady] = useState(false);
  const shown = useMemo(() => pretty(args), [args]);
  const dialog = useDialog();
  const id = useId();
  useEffect(() => {
    const timer = setTimeout(() => setReady(true), PAUSE_MS);
    return () => clearTimeout(timer);
  }, []);
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!ready) return;
    if (always) rights.allow(pending);
    pending.settle(true);
  };
  const refuse = (/** @type {Event} */ event) => {
    event.preventDefault();
    pending.settle(false);
  };
  return html`
    <dialog class="confirm" ref=${dialog} aria-labelledby=${`${id}-title`} aria-describedby=${`${id}-what`} onCancel=${refuse}>
      <form onSubmit=${send}>
        <h2 id=${`${id}-title`} tabindex="-1" autofocus>Call ${clip(tool, 120)}?</h2>
        <p id=${`${id}-what`}><strong><${Name} id=${participant} always /></strong> will be asked to run it,
          in your name, and everybody in the room will see it.</p>
        ${warnings.map((warning) => html`<p class="warning" key=${warning}>${warning}</p>`)}
        <h3>Arguments</h3>
        <pre class="code" tabindex="0" aria-label="arguments">${clip(shown, MAX_SHOWN)}</pre>
        ${shown.length > MAX_SHOWN && html`
          <p class="warning">Not shown here, but sent: ${count(shown.length - MAX_SHOWN, 'more character')}.</p>`}
        <label class="check"><input type="checkbox" checked=${always}
          onChange=${(/** @type {any} */ event) => setAlways(event.currentTarget.checked)} />
          <span>Allow in this room: do not ask again for <code>${clip(tool, 120)}</code> of ${participant}</span></label>
        <div class="form-buttons">
          <button type="submit" class=${dangerous ? 'primary dangerous' : 'primary'} disabled=${!ready}>Call</button>
          <button type="button" onClick=${refuse}>Do not call</button>
        </div>
      </form>
    </dialog>`;
}

/** @param {string} args */
function pretty(args) {
  try {
    return stringifyExact(parseExact(args), 2);
  } catch {
    return args;
  }
}

/** What may be called in this room without asking, with a way to take it back. */
export function AllowedTools() {
  const { rights } = useSalon();
  useRevision(rights);
  if (rights.allowed.length === 0 && rights.patterns.length === 0) {
    return html`<p class="aside">You are asked before every tool call. The question has a box to allow a tool in this room.</p>`;
  }
  return html`
    <ul class="allowed">
      ${rights.allowed.map((one) => html`
        <li key=${`${one.participant}/${one.tool}`}>
          <span><code>${clip(one.tool, 120)}</code> of <${Name} id=${one.participant} always /></span>
          <button type="button" class="small" onClick=${() => rights.revoke(one)}>
            Ask again<span class="unseen"> before ${clip(one.tool, 120)}</span></button>
        </li>`)}
      ${rights.patterns.map((pattern) => html`
        <li key=${pattern}><span><code>${clip(pattern, 200)}</code></span><span class="aside">set by the gateway</span></li>`)}
    </ul>`;
}

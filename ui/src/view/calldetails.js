/** All of a call: its arguments, what was notified meanwhile, and the answer. */

import { html, useMemo } from '../../vendor/ui.js';
import { exactPayload, parseExact, stringifyExact } from '../model/exact.js';
import { noticed } from '../model/calls.js';
import { at } from '../model/raw.js';
import { oneLine } from '../model/threads.js';
import { clockSeconds, count } from '../model/text.js';
import { useSalon } from '../app.js';
import { JsonTree } from './json.js';
import { ResultView } from './result.js';

/** @typedef {import('../model/types.js').Call} Call */
/** @typedef {import('../model/types.js').Envelope} Envelope */

const MAX_NOTICES = 100;

/** @param {{call: Call}} props */
export function Details({ call }) {
  const { request, answer, notices } = call;
  const path = call.tool === undefined ? ['payload', 'params'] : ['payload', 'params', 'arguments'];
  const given = useMemo(() => exact(request, path), [request]);
  const error = useMemo(() => answer && exact(answer, ['payload', 'error']), [answer]);
  return html`
    <div class="call-details">
      <section aria-label="Arguments"><h4>Arguments</h4>
        ${given === undefined ? html`<p class="faint">none</p>` : html`<${JsonTree} value=${given} open=${2} />`}
      </section>
      ${notices.length > 0 && html`<${Notices} notices=${notices} />`}
      ${answer && html`
        <section aria-label=${call.error ? 'Error' : 'Result'}><h4>${call.error ? 'Error' : 'Result'}</h4>
          ${call.error ? html`<${JsonTree} value=${error ?? call.error} open=${2} />`
            : html`<${ResultView} result=${call.result} raw=${answer.raw} />`}
        </section>`}
    </div>
  `;
}

/** @param {{notices: Envelope[]}} props */
function Notices({ notices }) {
  const salon = useSalon();
  const left = notices.length - MAX_NOTICES;
  return html`
    <section aria-label="Notifications"><h4>Notifications</h4>
      ${left > 0 && html`<p class="faint">${count(left, 'earlier notice')} not shown</p>`}
      <ol class="notices">
        ${notices.slice(-MAX_NOTICES).map((notice) => html`
          <li key=${notice.id}>
            <time datetime=${notice.ts}>${clockSeconds(notice.at)}</time>
            <button type="button" class="link" onClick=${() => salon.open({ panel: 'inspector', id: notice.id })}>
              ${noticeLine(notice)}
            </button>
          </li>`)}
      </ol>
    </section>
  `;
}

/** @param {Envelope} notice */
function noticeLine(notice) {
  const { progress, total, message, reason } = exactPayload(notice)?.params ?? {};
  if (progress !== undefined) {
    const told = [stringifyExact(progress), total && `of ${stringifyExact(total)}`, typeof message === 'string' && message];
    return oneLine(told.filter(Boolean).join(' '));
  }
  return oneLine(typeof reason === 'string' ? `cancelled: ${reason}` : noticed(notice));
}

/** A part of an envelope with every digit as it was sent. @param {Envelope} envelope @param {string[]} path @returns {any} */
function exact(envelope, path) {
  const text = at(envelope.raw, path);
  try {
    return text === undefined ? undefined : parseExact(text);
  } catch {
    return JSON.parse(text ?? 'null');
  }
}

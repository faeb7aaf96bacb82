/** How much of a room's time and space its participants may take, and how long its log is kept. */

import { html, useId } from '../../vendor/ui.js';

/** @typedef {import('../model/control.js').TopicSettings} TopicSettings */

const DAY_MS = 24 * 60 * 60 * 1000;

/** @param {{draft: TopicSettings, onChange: (part: Partial<TopicSettings>) => void}} props */
export function Limits({ draft, onChange }) {
  const { limits = {}, retention = {} } = draft;
  const id = useId();
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {number|undefined} */ value, /** @type {(value: number|undefined) => void} */ set) => html`
    <div class="field"><div class="field-name"><label for=${`${id}-${name}`}>${label}</label></div>
      <input id=${`${id}-${name}`} type="number" min="1" step="any" value=${value ?? ''} placeholder="as the gateway" onInput=${(/** @type {any} */ event) => {
    const number = Number(event.currentTarget.value);
    set(number > 0 ? number : undefined);
  }} /></div>`;
  const whole = (/** @type {number|undefined} */ value) => (value === undefined ? undefined : Math.max(1, Math.round(value)));
  const limit = (/** @type {string} */ name) => (/** @type {number|undefined} */ value) => onChange({ limits: { ...limits, [name]: whole(value) } });
  const keep = (/** @type {string} */ name, scale = 1) => (/** @type {number|undefined} */ value) => onChange({ retention: { ...retention, [name]: value === undefined ? undefined : whole(value * scale) } });
  return html`
    <details class="settings-part"><summary>Limits and retention</summary>
      ${field('messages', 'Messages a minute, of each participant', limits.messages_per_minute, limit('messages_per_minute'))}
      ${field('calls', 'Calls a minute, of each agent', limits.calls_per_minute, limit('calls_per_minute'))}
      ${field('hops', 'Agents in a chain of calls', limits.hops, limit('hops'))}
      ${field('age', 'Keep messages for days', retention.max_age_ms === undefined ? undefined : +(retention.max_age_ms / DAY_MS).toFixed(3), keep('max_age_ms', DAY_MS))}
      ${field('entries', 'Keep at most so many messages', retention.max_entries, keep('max_entries'))}
    </details>`;
}

/** What becomes of calls in a room: the rules, in the order in which they count, and a form for another. */

import { html, useId, useState } from '../../vendor/ui.js';
import { ruleOf, ruleText } from '../model/rules.js';

/** @type {import('../model/rules.js').RuleDraft} */
const FRESH = { effect: 'hold', participant: '*', tool: '*', approvers: 'role:owner', needs: '1', minutes: '5', callers: '' };

/** @param {{rules: any[], roles: string[], onChange: (rules: any[]) => void}} props */
export function Rules({ rules, roles, onChange }) {
  const [draft, setDraft] = useState(FRESH);
  const id = useId();
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setDraft((before) => ({ ...before, [name]: event.currentTarget.value }));
  const field = (/** @type {keyof typeof FRESH} */ name, /** @type {string} */ label, /** @type {object} */ more = {}) => html`
    <div class="field"><div class="field-name"><label for=${`${id}-${name}`}>${label}</label></div>
      <input id=${`${id}-${name}`} type="text" spellcheck=${false} autocomplete="off" value=${draft[name]} onInput=${set(name)} ...${more} /></div>`;
  const add = () => {
    onChange([...rules, ruleOf(draft)]);
    setDraft(FRESH);
  };
  return html`
    <section class="settings-part"><h3>Rules for calls</h3>
      ${rules.length === 0 && html`<p class="aside">No rules: calls that a role allows are sent at once.</p>`}
      <ol class="rules">${rules.map((rule, at) => {
        const { effect, calls, details } = ruleText(rule);
        return html`<li key=${at}><span><b>${effect}</b> <code>${calls}</code>${details && html`<br /><span class="faint">${details}</span>`}</span>
          <button type="button" class="small" aria-label=${`Remove the rule for ${calls}`} onClick=${() => onChange(rules.filter((_, other) => other !== at))}>✕</button></li>`;
      })}</ol>
      <details class="new-rule"><summary>Add a rule</summary>
        <div class="field"><div class="field-name"><label for=${`${id}-effect`}>Calls are</label></div>
          <select id=${`${id}-effect`} value=${draft.effect} onChange=${set('effect')}>
            <option value="hold">held until somebody approves them</option><option value="allow">allowed</option><option value="deny">refused</option></select></div>
        ${field('participant', 'Of participant (* for any characters)')}
        ${field('tool', 'Tool (* for any characters)')}
        ${draft.effect === 'hold' && html`
          ${field('approvers', `Approvers: ids, or role:NAME (${roles.join(', ')})`)}
          ${field('needs', 'How many have to approve', { type: 'number', min: 1, max: 32 })}
          ${field('minutes', 'Expires after minutes', { type: 'number', min: 1, max: 10_080 })}`}
        ${field('callers', 'Only for calls of (ids or role:NAME; empty: everybody)')}
        <button type="button" onClick=${add}>Add rule</button>
      </details>
    </section>`;
}

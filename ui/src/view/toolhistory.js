/** A tool's earlier calls in this room, and arguments saved for it: each can be put into the form, or called again. */

import { html, useState } from '../../vendor/ui.js';
import { argumentsText } from '../model/calls.js';
import { exactPayload, parseExact, stringifyExact } from '../model/exact.js';
import { argumentsLine, outcomeLine } from '../model/reading.js';
import { clip, clockSeconds, count, duration, moment } from '../model/text.js';
import { useSalon } from '../app.js';

/** @typedef {import('../model/types.js').Call} Call */
/** @typedef {import('../model/saved.js').SavedArguments} SavedArguments */

/** How many calls are listed before somebody asks for more. */
const FIRST_SHOWN = 5;
const MAX_SHOWN = 50;
const MARKS = { running: '●', done: '✓', failed: '✗', cancelled: '⊘', abandoned: '⊘' };

/**
 * @param {object} props
 * @param {string} props.id whose tool
 * @param {string} props.tool
 * @param {SavedArguments} props.saved
 * @param {(value: any) => void} props.onUse puts arguments into the form
 * @param {(value: any, text: string) => void} props.onCall
 */
export function ToolHistory({ id, tool, saved, onUse, onCall }) {
  const { room } = useSalon();
  const [most, setMost] = useState(FIRST_SHOWN);
  const [, redraw] = useState(0);
  const calls = [...room.calls.values()].filter((call) => call.callee === id && call.tool === tool).slice(-MAX_SHOWN).reverse();
  const kept = saved.list();
  const remove = (/** @type {string} */ text) => {
    saved.remove(text);
    redraw((times) => times + 1);
  };
  return html`
    ${kept.length > 0 && html`
      <section class="tool-history" aria-label="Saved arguments"><h5>Saved arguments</h5>
        <ul>${kept.map((text) => html`<${Saved} key=${text} text=${text} onUse=${onUse} onCall=${onCall} onRemove=${() => remove(text)} />`)}</ul>
      </section>`}
    ${calls.length > 0 && html`
      <section class="tool-history" aria-label="Earlier calls"><h5>Earlier calls <span class="faint">${calls.length === MAX_SHOWN ? `${MAX_SHOWN} newest` : calls.length}</span></h5>
        <ul>${calls.slice(0, most).map((call) => html`<${Earlier} key=${call.id} call=${call} onUse=${onUse} onCall=${onCall} />`)}</ul>
        ${calls.length > most && html`<button type="button" class="more" onClick=${() => setMost(MAX_SHOWN)}>${count(calls.length - most, 'more call')}</button>`}
      </section>`}`;
}

/** @param {{text: string, onUse: (value: any) => void, onCall: (value: any, text: string) => void, onRemove: () => void}} props */
function Saved({ text, onUse, onCall, onRemove }) {
  const value = parsed(text);
  const line = clip(argumentsText(value) || 'no arguments', 160);
  return html`
    <li><span class="clipped" title=${clip(text, 500)}>${line}</span>
      <${Buttons} name=${line} onUse=${() => onUse(value)} onCall=${() => onCall(value, text)} />
      <button type="button" class="small plain" aria-label=${`Remove ${line}`} title="Remove" onClick=${onRemove}>✕</button></li>`;
}

/** @param {{call: Call, onUse: (value: any) => void, onCall: (value: any, text: string) => void}} props */
function Earlier({ call, onUse, onCall }) {
  const salon = useSalon();
  const given = () => exactPayload(call.request)?.params?.arguments ?? {};
  const line = argumentsLine(call) || 'no arguments';
  return html`
    <li data-state=${call.state}>
      <span class="mark" aria-hidden="true">${MARKS[call.state]}</span>
      <button type="button" class="link clipped" title=${`Show in the conversation: ${outcomeLine(call, 200)}`} onClick=${() => void salon.show(call.id)}>${line}<span class="unseen">, ${call.state}</span></button>
      <span class="faint">${call.ended === undefined ? '' : duration(call.ended - call.began)} <time title=${moment(call.began)}>${clockSeconds(call.began)}</time></span>
      <${Buttons} name=${line} onUse=${() => onUse(given())} onCall=${() => onCall(given(), stringifyExact(given()))} />
    </li>`;
}

/** @param {{name: string, onUse: () => void, onCall: () => void}} props */
function Buttons({ name, onUse, onCall }) {
  return html`
    <button type="button" class="small" title="Put these arguments into the form" onClick=${onUse}>Use<span class="unseen"> ${name}</span></button>
    <button type="button" class="small" title="Call it again with these arguments" onClick=${onCall}>Call again<span class="unseen"> with ${name}</span></button>`;
}

/** @param {string} text */
function parsed(text) {
  try {
    return parseExact(text);
  } catch {
    return {};
  }
}

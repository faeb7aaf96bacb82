/** A form made from a JSON Schema, with a way to write the JSON oneself. */

import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from '../../vendor/ui.js';
import { collect, draftFromText, readText } from '../model/collect.js';
import { ABSENT, changed, draftOf } from '../model/draft.js';
import { stringifyExact } from '../model/exact.js';
import { keep, kept as keptOf } from '../model/kept.js';
import { formOf } from '../model/schema.js';
import { secretsIn } from '../model/secrets.js';
import { clip, count, listed } from '../model/text.js';
import { Field } from './fields.js';

/** @typedef {import('../model/validate.js').Errors} Errors */
/** @typedef {import('../model/draft.js').Draft} Draft */
/** @typedef {{draft: Draft, text: string | null}} Filled */

/** @type {WeakMap<object, Filled>} what was filled in and not sent, for as long as what it is for exists */
const filled = new WeakMap();
/** @type {Errors} */
const NO_ERRORS = new Map();

/**
 * @param {object} props
 * @param {any} props.schema of an object
 * @param {unknown} [props.value] what to begin with
 * @param {(value: unknown, text: string) => void} props.onSubmit the value, in which numbers keep their digits (`Exact`), and its JSON;
 *   what was written as JSON arrives as it was written
 * @param {() => void} [props.onCancel]
 * @param {string} [props.submit] what the button says
 * @param {string} [props.cancel]
 * @param {boolean} [props.raw] whether JSON may be written instead
 * @param {boolean} [props.busy]
 * @param {object} [props.memory] what the form is for: closed and opened again for the same, it is as it was left
 * @param {string} [props.keepAs] under what it outlasts a reload, unless a secret is in it
 * @param {boolean} [props.sticky] whether its buttons stay in sight while it is scrolled
 * @param {boolean} [props.dangerous] whether the button is to look so
 * @param {{label: string, what?: string, act: (text: string, secrets: string[]) => void}[]} [props.actions] buttons that do something else with the value's JSON; what: the rest of the name, for screen readers;
 *   secrets: the titles of fields that look like one
 * @param {any} [props.children] more buttons
 */
export function SchemaForm(props) {
  const { schema, value, onSubmit, onCancel, submit = 'Call', cancel = 'Close', raw = true, busy = false, memory, keepAs, sticky = false, dangerous = false, actions = [], children } = props;
  const shape = useMemo(() => formOf(schema), [schema]);
  const kept = (memory && filled.get(memory)) ?? (keepAs === undefined ? undefined : /** @type {Filled|undefined} */ (keptOf(keepAs)));
  const [draft, setDraft] = useState(() => kept?.draft ?? draftOf(shape, value === undefined ? ABSENT : value));
  /** @type {[string | null, (text: string | null) => void]} null: the fields are shown */
  const [text, setText] = useState(kept?.text ?? null);
  const [tries, setTries] = useState(0);
  const [unfit, setUnfit] = useState('');
  const [secretsTried, setSecretsTried] = useState(false);
  const [risked, setRisked] = useState(false);
  const untouched = useRef(draft);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const id = useId();

  useEffect(() => {
    const first = tries > 0 && form.current?.querySelector('[aria-invalid="true"], .field-error');
    if (first instanceof HTMLElement) first.focus();
  }, [tries]);

  const outcome = useMemo(() => (text === null ? collect(shape, draft) : readText(schema, text)), [shape, draft, text]);
  // Mistakes are shown once the person has tried to send, and from then on at once.
  const errors = unfit ? new Map([['', unfit]]) : tries > 0 ? outcome.errors : NO_ERRORS;
  // MCP 2025-11-25, Elicitation, "Security Considerations": a form must not be used for sensitive information. Nothing stops a stranger.
  const secrets = useMemo(() => (outcome.errors.size > 0 ? [] : secretsIn(shape, outcome.value)), [shape, outcome]);
  // At once: the panel may be another one before the next frame, and takes the form with it.
  useLayoutEffect(() => {
    if (memory) filled.set(memory, { draft, text });
    if (keepAs !== undefined && draft !== untouched.current) keep(keepAs, secrets.length > 0 || text !== null ? undefined : { draft, text });
  }, [draft, text]);
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy) return;
    setUnfit('');
    if (outcome.errors.size > 0) setTries(tries + 1);
    else if (secrets.length > 0 && !risked) setSecretsTried(true);
    else {
      if (keepAs !== undefined) keep(keepAs, undefined);
      const made = outcome.value === ABSENT ? {} : outcome.value;
      onSubmit(made, stringifyExact(made));
    }
  };
  const hand = (/** @type {(text: string, secrets: string[]) => void} */ act) => {
    if (outcome.errors.size > 0) setTries(tries + 1);
    else act(stringifyExact(outcome.value === ABSENT ? {} : outcome.value), secrets);
  };
  const swap = () => {
    setUnfit('');
    setTries(0);
    if (text === null) {
      setText(stringifyExact(outcome.value === ABSENT ? {} : outcome.value, 2));
      return;
    }
    try {
      setDraft(draftFromText(shape, text));
      setText(null);
    } catch (error) {
      setUnfit(error instanceof Error ? error.message : String(error));
      setTries(tries + 1);
    }
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send(event);
  };
  const write = (/** @type {string} */ now) => {
    setUnfit('');
    setText(now);
  };
  const change = (/** @type {number[]} */ path, /** @type {(draft: Draft) => Draft} */ to) => setDraft((before) => changed(before, path, to));
  const empty = shape.kind === 'object' && shape.members().length === 0 && !shape.more;

  return html`
    <form class="schema-form" ref=${form} noValidate onSubmit=${send} onKeyDown=${keys}>
      ${text !== null ? html`<${RawField} id=${id} text=${text} errors=${errors} onText=${write} />`
        : empty ? html`<p class="aside">No arguments.</p>`
        : html`<${Field} shape=${shape} draft=${draft} id=${id} pointer="" path=${[]} errors=${errors} name="value"
            onChange=${change} />`}
      ${secretsTried && secrets.length > 0 && html`<${SecretsWarning} names=${secrets} risked=${risked} onRisk=${setRisked} />`}
      <p class="form-errors" role="alert">${errors.size > 0 && !unfit && `Not sent: ${count(errors.size, 'error')} above.`}</p>
      <div class=${sticky ? 'form-buttons sticky' : 'form-buttons'}>
        <button type="submit" class=${dangerous ? 'primary dangerous' : 'primary'} aria-disabled=${busy ? 'true' : undefined}>${submit}</button>
        ${children}
        ${onCancel && html`<button type="button" onClick=${onCancel}>${cancel}</button>`}
        ${actions.map(({ label, what, act }) => html`<button type="button" class="plain" key=${label} onClick=${() => hand(act)}>${label}${what && html`<span class="unseen"> ${what}</span>`}</button>`)}
        ${raw && html`<button type="button" class="plain" onClick=${swap}>${text === null ? 'Write JSON' : 'Use the form'}</button>`}
      </div>
    </form>`;
}

/** What is sent into a room is everybody's. @param {{names: string[], risked: boolean, onRisk: (risked: boolean) => void}} props */
function SecretsWarning({ names, risked, onRisk }) {
  const looks = names.length === 1 ? 'looks like a secret' : 'look like secrets';
  return html`
    <div class="warning" role="alert">
      <p>${!risked && 'Not sent: '}${clip(listed(names), 300)} ${looks}, and everybody in this room would read it.
        Use a room that only the two of you may enter, or ask for a web page where you can enter it.</p>
      <label class="check"><input type="checkbox" checked=${risked} onChange=${(/** @type {any} */ event) => onRisk(event.currentTarget.checked)} />
        <span>Send it although everybody in this room can read it</span></label>
    </div>`;
}

/** @param {{id: string, text: string, errors: Errors, onText: (text: string) => void}} props */
function RawField({ id, text, errors, onText }) {
  const wrong = [...errors].map(([pointer, message]) => (pointer ? `${pointer} ${message}` : message));
  return html`
    <div class="field">
      <div class="field-name"><label for=${id}>Arguments as JSON</label></div>
      <textarea class="code" rows=${Math.min(20, text.split('\n').length + 1)} id=${id} spellcheck=${false} value=${text}
        aria-invalid=${wrong.length > 0 ? 'true' : undefined} aria-describedby=${wrong.length > 0 ? `${id}-error` : `${id}-hint`}
        onInput=${(/** @type {any} */ event) => onText(event.currentTarget.value)}></textarea>
      ${wrong.length > 0
        ? html`<ul class="field-error" id=${`${id}-error`}>${wrong.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`
        : html`<p class="aside" id=${`${id}-hint`}>It is sent as it stands here, with every digit.</p>`}
    </div>`;
}

/**
 * The fields of a generated form, one component for each kind of shape. They hold nothing: the draft is the form's, and changes
 * are told by path. Whatever a field shows of the schema is text.
 */

import { html } from '../../vendor/ui.js';
import { NONE, NULL, filledIn, namePointer, withEntry, withMember, withVariant, withoutMember } from '../model/draft.js';
import { Exact } from '../model/exact.js';
import { MAX_PARTS } from '../model/flatten.js';
import { clip } from '../model/text.js';
import { at } from '../model/validate.js';

/** @typedef {import('../model/schema.js').Shape} Shape */
/** @typedef {import('../model/draft.js').Draft} Draft */
/** @typedef {import('../model/validate.js').Errors} Errors */

/**
 * @typedef {object} FieldProps
 * @property {Shape} shape
 * @property {Draft} draft
 * @property {string} id for the control; those of its hint and error are made from it
 * @property {string} pointer where its value stands
 * @property {number[]} path where its draft stands
 * @property {Errors} errors
 * @property {(path: number[], change: (draft: Draft) => Draft) => void} onChange
 * @property {string} [name] instead of the schema's title
 * @property {any} [action] stands beside the name
 */

const LONG = /text|message|content|body|prompt|code|script|sql|markdown|description/i;
/** By the format's name, which is a stranger's. */
const INPUT_TYPES = new Map([['email', 'email'], ['uri', 'url'], ['url', 'url'], ['date', 'date'], ['password', 'password']]);

/** @param {FieldProps} props @returns {any} */
export function Field(props) {
  if (props.draft.json) return html`<${Json} ...${props} />`;
  switch (props.shape.kind) {
    case 'text': return html`<${Text} ...${props} />`;
    case 'number': return html`<${NumberField} ...${props} />`;
    case 'boolean': return html`<${YesNo} ...${props} />`;
    case 'choice': return html`<${Choice} ...${props} />`;
    case 'several': return html`<${Several} ...${props} />`;
    case 'object': return html`<${Members} ...${props} />`;
    case 'list': return html`<${List} ...${props} />`;
    case 'union': return html`<${Union} ...${props} />`;
    case 'null': return html`<${Row} ...${props}><output id=${props.id} class="fixed">null</output><//>`;
    default: return html`<${Json} ...${props} />`;
  }
}

/** @param {FieldProps} props */
function told({ errors, pointer, shape, draft }) {
  const whole = draft.json || shape.kind === 'json' || shape.kind === 'several';
  return errors.get(pointer) ?? (whole ? within(errors, pointer) : undefined);
}

/** What is wrong further inside a value that one field holds as a whole. @param {Errors} errors @param {string} pointer */
function within(errors, pointer) {
  for (const [place, message] of errors) {
    if (place.startsWith(`${pointer}/`)) return `${place.slice(pointer.length + 1)} ${message}`;
  }
  return undefined;
}

/** What ties a control to its words. @param {FieldProps} props */
function described(props) {
  const wrong = told(props) !== undefined;
  const ids = [props.shape.description && `${props.id}-hint`, wrong && `${props.id}-error`].filter(Boolean);
  return {
    'id': props.id, 'aria-describedby': ids.length > 0 ? ids.join(' ') : undefined, 'aria-invalid': wrong ? 'true' : undefined,
    'aria-required': props.shape.required ? 'true' : undefined,
  };
}

/** @param {FieldProps} props */
const nameOf = ({ name, shape }) => name ?? (shape.title || 'value');

/** @param {FieldProps} props */
function Title(props) {
  // Entries and alternatives have names of their own, and are there because somebody added or chose them.
  const marked = props.shape.required && props.name === undefined;
  return html`${nameOf(props)}${marked && html`<span class="required" aria-hidden="true" title="required"> *</span>`}`;
}

/** @param {FieldProps} props */
function Words(props) {
  const wrong = told(props);
  return html`
    ${props.shape.description && html`<p class="aside" id=${`${props.id}-hint`} dir="auto">${props.shape.description}</p>`}
    ${wrong && html`<p class="field-error" id=${`${props.id}-error`} tabindex="-1">${wrong}</p>`}`;
}

/** A label, its control and what is to be said about it. @param {FieldProps & {children?: any}} props */
function Row(props) {
  return html`
    <div class="field">
      <div class="field-name"><label for=${props.id}><${Title} ...${props} /></label>${props.action}</div>
      ${props.children}
      <${Words} ...${props} />
    </div>`;
}

/** A group of controls under one name. @param {FieldProps & {children?: any}} props */
function Group(props) {
  const { 'aria-describedby': by } = described(props);
  return html`
    <fieldset class="field group" id=${props.id} aria-describedby=${by}>
      <legend><${Title} ...${props} /></legend>
      ${props.action && html`<div class="group-action">${props.action}</div>`}
      <${Words} ...${props} />
      ${props.children}
    </fieldset>`;
}

/** @param {FieldProps} props */
function typing({ onChange, path }) {
  return (/** @type {any} */ event) => {
    const text = event.currentTarget.value;
    onChange(path, (draft) => ({ ...draft, text }));
  };
}

/** @param {FieldProps} props */
function Text(props) {
  const { shape: { schema, title }, draft } = props;
  const type = INPUT_TYPES.get(schema.format);
  const short = type || schema.pattern || schema.format || schema.maxLength <= 80;
  if (short) {
    return html`<${Row} ...${props}>
      <input type=${type ?? 'text'} ...${described(props)} value=${draft.text} onInput=${typing(props)} autocomplete="off" dir="auto"
        placeholder=${example(schema)} />
    <//>`;
  }
  return html`<${Row} ...${props}>
    <textarea rows=${LONG.test(title) ? 3 : 1} ...${described(props)} value=${draft.text} onInput=${typing(props)} dir="auto"
      placeholder=${example(schema)}></textarea>
  <//>`;
}

/** @param {Record<string, any>} schema */
function example(schema) {
  const one = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
  return typeof one === 'string' || isNumber(one) ? `such as ${clip(String(one), 100)}` : undefined;
}

/** @param {unknown} value */
const isNumber = (value) => typeof value === 'number' || value instanceof Exact;

/** Not type="number", which would round what is typed. @param {FieldProps} props */
function NumberField(props) {
  const { shape: { integer, schema }, draft } = props;
  const { minimum, maximum } = schema;
  const range = isNumber(minimum) && isNumber(maximum) ? `${minimum} to ${maximum}`
    : isNumber(minimum) ? `${minimum} or more` : isNumber(maximum) ? `${maximum} or less` : example(schema);
  return html`<${Row} ...${props}>
    <input type="text" inputmode=${integer ? 'numeric' : 'decimal'} class="number" ...${described(props)} value=${draft.text}
      onInput=${typing(props)} autocomplete="off" spellcheck=${false} placeholder=${range} />
  <//>`;
}

/** @param {FieldProps} props */
function choosing({ onChange, path }) {
  return (/** @type {any} */ event) => {
    const index = Number(event.currentTarget.value);
    onChange(path, (draft) => ({ ...draft, index }));
  };
}

/** Two states where one must be true; where it can be left out, a third. @param {FieldProps} props */
function YesNo(props) {
  const { shape, draft, onChange, path } = props;
  const plain = !shape.nullable && draft.index !== NONE && (shape.required || 'default' in shape.schema);
  if (!plain) return html`<${Select} ...${props} labels=${['no', 'yes']} onChoose=${choosing(props)} />`;
  const toggle = (/** @type {any} */ event) => {
    const index = event.currentTarget.checked ? 1 : 0;
    onChange(path, (before) => ({ ...before, index }));
  };
  return html`
    <div class="field">
      <div class="field-name">
        <label class="check"><input type="checkbox" ...${described(props)} checked=${draft.index === 1} onChange=${toggle} />
          <span><${Title} ...${props} shape=${{ ...shape, required: false }} /></span></label>${props.action}
      </div>
      <${Words} ...${props} />
    </div>`;
}

/** @param {FieldProps & {labels: string[], onChoose: (event: any) => void}} props */
function Select(props) {
  const { shape, draft, labels, onChoose } = props;
  return html`<${Row} ...${props}>
    <select ...${described(props)} onChange=${onChoose} value=${String(draft.index)}>
      ${(!shape.required || draft.index === NONE) && html`<option value=${NONE}>${shape.required ? 'choose…' : 'not set'}</option>`}
      ${labels.map((label, index) => html`<option key=${index} value=${index}>${label}</option>`)}
      ${shape.nullable && html`<option value=${NULL}>null</option>`}
    </select>
  <//>`;
}

/** @param {FieldProps} props */
function Choice(props) {
  const { shape, draft } = props;
  const only = shape.options[0];
  if (shape.required && shape.options.length === 1 && only) {
    return html`<${Row} ...${props}><output id=${props.id} class="fixed">${only.label}</output><//>`;
  }
  const about = shape.options[draft.index]?.description;
  return html`
    <${Select} ...${props} labels=${shape.options.map((option) => option.label)} onChoose=${choosing(props)} />
    ${about && html`<p class="aside" dir="auto">${about}</p>`}`;
}

/** @param {FieldProps} props */
function Several(props) {
  const { shape, draft, onChange, path } = props;
  const pick = (/** @type {number} */ index, /** @type {boolean} */ on) => onChange(path, (before) => (
    { ...before, picked: shape.options.map((_, place) => (place === index ? on : before.picked[place] ?? false)) }));
  return html`<${Group} ...${props}>
    ${shape.options.map((option, index) => html`
      <label class="check" key=${index}>
        <input type="checkbox" checked=${draft.picked[index] ?? false}
          onChange=${(/** @type {any} */ event) => pick(index, event.currentTarget.checked)} />
        <span>${option.label}${option.description && html` <span class="aside">${option.description}</span>`}</span>
      </label>`)}
  <//>`;
}

/** @param {FieldProps} props */
function Json(props) {
  return html`<${Row} ...${props}>
    <textarea class="code" rows="3" spellcheck=${false} ...${described(props)} value=${props.draft.text} onInput=${typing(props)}
      placeholder="JSON"></textarea>
  <//>`;
}

/** An object: filled in by its members, once somebody wants it. @param {FieldProps} props */
function Members(props) {
  const { shape, draft, id, pointer, path, errors, onChange } = props;
  const members = () => shape.members().map(({ key, shape: member }, index) => {
    const part = draft.parts[index];
    return part && html`<${Field} key=${key} shape=${member} draft=${part} id=${`${id}-${index}`} pointer=${at(pointer, key)}
      path=${[...path, index]} errors=${errors} onChange=${onChange} />`;
  });
  const more = () => shape.more && html`<${MoreMembers} ...${props} />`;
  if (path.length === 0) return html`<${Words} ...${props} shape=${{ ...shape, description: '' }} />${members()}${more()}`;
  // What was not filled in by itself is to be filled in by hand, required or not.
  const optional = !shape.required || shape.nullable || !draft.on;
  const toggle = () => onChange(path, (before) => (before.on ? { ...before, on: false, parts: [], names: [], extra: [] } : filledIn(shape, before)));
  return html`<${Group} ...${props} action=${html`
    ${optional && html`<button type="button" class="small" aria-expanded=${draft.on} onClick=${toggle}>
      ${draft.on ? 'Leave out' : 'Fill in'}<span class="unseen"> ${nameOf(props)}</span></button>`}${props.action}`}>
    ${draft.on && members()}
    ${draft.on && more()}
    ${draft.on && draft.extra.length > 0 && html`
      <p class="aside">and what was written as JSON: ${clip(draft.extra.map(([key]) => key).join(', '), 500)}</p>`}
  <//>`;
}

/** Members that the schema does not name but allows: the person names them. @param {FieldProps} props */
function MoreMembers({ shape, draft, id, pointer, path, errors, onChange }) {
  const first = shape.members().length;
  const add = () => {
    onChange(path, (before) => withMember(shape, before));
    focusSoon(`${id}-name-${draft.names.length}`, `${id}-more`);
  };
  const remove = (/** @type {number} */ place) => {
    onChange(path, (before) => withoutMember(shape, before, place));
    focusSoon(`${id}-more`);
  };
  const rename = (/** @type {number} */ place, /** @type {string} */ name) => onChange(path, (before) => (
    { ...before, names: before.names.map((each, index) => (index === place ? name : each)) }));
  return html`
    ${draft.names.map((name, place) => {
      const part = draft.parts[first + place];
      const wrong = errors.get(namePointer(pointer, place));
      return part && html`
        <div class="more-member" key=${part.id}>
          <div class="field">
            <div class="field-name"><label for=${`${id}-name-${place}`}>Name of field ${place + 1}</label>
              <button type="button" class="small" onClick=${() => remove(place)}>Remove<span class="unseen"> field ${place + 1}</span></button></div>
            <input type="text" id=${`${id}-name-${place}`} value=${name} autocomplete="off" spellcheck=${false} aria-invalid=${wrong ? 'true' : undefined}
              aria-describedby=${wrong ? `${id}-name-${place}-error` : undefined} onInput=${(/** @type {any} */ event) => rename(place, event.currentTarget.value)} />
            ${wrong && html`<p class="field-error" id=${`${id}-name-${place}-error`} tabindex="-1">${wrong}</p>`}
          </div>
          <${Field} shape=${/** @type {() => Shape} */ (shape.more)()} draft=${part} id=${`${id}-${first + place}`} pointer=${at(pointer, name)}
            path=${[...path, first + place]} errors=${errors} onChange=${onChange} name=${`Value of ${name || `field ${place + 1}`}`} />
        </div>`;
    })}
    <button type="button" class="small add-member" id=${`${id}-more`} disabled=${draft.names.length >= MAX_PARTS} onClick=${add}>Add a field</button>`;
}

/** @param {FieldProps} props */
function List(props) {
  const { shape, draft, id, pointer, path, errors, onChange } = props;
  const name = nameOf(props);
  const add = () => {
    onChange(path, (before) => withEntry(shape, before));
    focusSoon(`${id}-${draft.parts.length}`, `${id}-add`);
  };
  const remove = (/** @type {number} */ place) => {
    onChange(path, (before) => ({ ...before, parts: before.parts.filter((_, index) => index !== place) }));
    focusSoon(`${id}-add`);
  };
  return html`<${Group} ...${props}>
    ${draft.parts.map((part, index) => html`
      <${Field} key=${part.id} shape=${shape.item()} draft=${part} id=${`${id}-${index}`} pointer=${`${pointer}/${index}`}
        path=${[...path, index]} errors=${errors} onChange=${onChange} name=${`${shape.item().title || name} ${index + 1}`}
        action=${html`<button type="button" class="small" onClick=${() => remove(index)}>
          Remove<span class="unseen"> ${name} ${index + 1}</span></button>`} />`)}
    ${draft.parts.length >= MAX_PARTS && html`<p class="aside">More entries than these can only be written as JSON.</p>`}
    <button type="button" class="small" id=${`${id}-add`} disabled=${draft.parts.length >= MAX_PARTS} onClick=${add}>
      Add<span class="unseen"> to ${name}</span></button>
  <//>`;
}

/** The list is redrawn first. @param {string[]} ids the first that can take the focus gets it */
function focusSoon(...ids) {
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const id of ids) {
      const found = document.getElementById(id);
      const within = found?.querySelector('input, select, textarea') ?? found?.querySelector('button');
      const control = found?.matches('input, select, textarea, button') ? found : within;
      if (control instanceof HTMLElement) return control.focus();
    }
    return undefined;
  }));
}

/** One of several shapes: first which, then what. @param {FieldProps} props */
function Union(props) {
  const { shape, draft, id, pointer, path, errors, onChange } = props;
  const variants = shape.variants();
  const chosen = variants[draft.index];
  const part = draft.parts[0];
  const choose = (/** @type {any} */ event) => {
    const index = Number(event.currentTarget.value);
    onChange(path, (before) => withVariant(shape, before, index));
  };
  return html`
    <div class="union">
      <${Select} ...${props} errors=${chosen ? new Map() : errors} labels=${variants.map(({ label }) => label)} onChoose=${choose} />
      ${chosen && part && html`<${Field} key=${draft.index} shape=${chosen.shape} draft=${part} id=${`${id}-v`} pointer=${pointer}
        path=${[...path, 0]} errors=${errors} onChange=${onChange} name=${`${nameOf(props)}: ${chosen.label}`} />`}
    </div>`;
}

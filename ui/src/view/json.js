import { html, useState } from '../../vendor/ui.js';
import { Exact } from '../model/exact.js';
import { clip } from '../model/text.js';

/** How many members of one object or list are shown at first, and how many each time somebody asks for more. */
const PAGE = 50;
const MAX_TEXT = 2000;

/**
 * A JSON value as a tree that opens level by level. Numbers may be `Exact`, so that every digit is shown.
 * @param {{value: any, open?: number}} props open: how many levels are open at first
 */
export function JsonTree({ value, open = 1 }) {
  return html`<div class="json"><${Value} value=${value} open=${open} /></div>`;
}

/** @param {{value: any, name?: string, open: number}} props @returns {any} */
function Value({ value, name, open }) {
  const key = name === undefined ? null : html`<span class="json-key">${clip(name, 200)}</span>: `;
  if (value === null || typeof value !== 'object' || value instanceof Exact) {
    return html`<div class="json-row">${key}<${Leaf} value=${value} /></div>`;
  }
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const [opened, closed] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (size === 0) return html`<div class="json-row">${key}${opened}${closed}</div>`;
  return html`<${Branch} ...${{ value, head: key, open, size, opened, closed }} />`;
}

/** @param {{value: any, head: any, open: number, size: number, opened: string, closed: string}} props */
function Branch({ value, head, open, size, opened, closed }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(PAGE);
  const many = Array.isArray(value) ? value.slice(0, most).entries() : Object.entries(value).slice(0, most);
  // What is folded is not drawn at all: a large value costs nothing until it is looked at.
  return html`
    <details open=${isOpen} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
      <summary>${head}${opened}<span class="json-size">${isOpen ? '' : ` ${size} `}</span>${isOpen ? '' : closed}</summary>
      ${isOpen && html`
        <div class="json-inner">
          ${[...many].map(([key, each]) => html`<${Value} key=${key} name=${String(key)} value=${each} open=${open - 1} />`)}
          ${size > most && html`
            <button type="button" class="more" onClick=${() => setMost(most + 10 * PAGE)}>${size - most} more</button>`}
        </div>
        <div>${closed}</div>`}
    </details>
  `;
}

/** @param {{value: any}} props */
function Leaf({ value }) {
  const [all, setAll] = useState(false);
  if (typeof value !== 'string') {
    const type = value === null ? 'null' : value instanceof Exact ? 'number' : typeof value;
    return html`<span class=${`json-${type}`}>${String(value)}</span>`;
  }
  const long = value.length > MAX_TEXT && !all;
  return html`
    <span class="json-string" dir="auto">${JSON.stringify(long ? clip(value, MAX_TEXT) : value)}</span>
    ${long && html`
      <button type="button" class="more" onClick=${() => setAll(true)}>${value.length - MAX_TEXT} more characters</button>`}
  `;
}

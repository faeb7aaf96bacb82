/**
 * What somebody answered, by what it is: text, Markdown, pictures, sound, resources, structured data. All of it comes from strangers:
 * nothing becomes markup, pictures and sound are `data:` addresses of types that cannot run, and links open only http and https.
 */

import { createContext, html, useContext, useId, useMemo, useState } from '../../vendor/ui.js';
import { cellText, looksLikeMarkdown, mediaAddress, tablesOf } from '../model/content.js';
import { Exact, canonical, parseExact, stringifyExact } from '../model/exact.js';
import { at, isObject } from '../model/raw.js';
import { clip, count } from '../model/text.js';
import { JsonTree } from './json.js';
import { Markdown } from './markdown.js';

const MAX_BLOCKS = 100;
const MAX_PLAIN = 20_000;
const ROWS = 50;

/** Whether pictures wait for a click: those of a question come without the person's asking. */
export const HeldPictures = createContext(false);

/** @typedef {(uri: string) => void} Read asks the answer's owner for a resource */

/**
 * @param {object} props
 * @param {any} props.result of `tools/call`, `resources/read`, `prompts/get`, or anything else
 * @param {string} [props.raw] the answer envelope's text, so that numbers keep their digits
 * @param {Read} [props.onRead] makes links to resources readable
 */
export function ResultView({ result, raw, onRead }) {
  const exact = useMemo(() => exactResult(result, raw), [result, raw]);
  if (!isObject(exact)) return html`<${JsonTree} value=${exact} />`;
  if (Array.isArray(exact.contents)) {
    return html`<${Blocks} blocks=${exact.contents.map((resource) => ({ type: 'resource', resource }))} onRead=${onRead} />`;
  }
  if (Array.isArray(exact.messages)) return html`
    ${typeof exact.description === 'string' && html`<p class="aside" dir="auto">${exact.description}</p>`}
    <${Messages} messages=${exact.messages} onRead=${onRead} />`;
  if (!Array.isArray(exact.content) && exact.structuredContent === undefined) return html`<${Structured} value=${exact} />`;
  return html`<${ToolResult} result=${exact} onRead=${onRead} />`;
}

/** @param {any} result @param {string | undefined} raw */
function exactResult(result, raw) {
  const text = raw === undefined ? undefined : at(raw, ['payload', 'result']);
  if (text === undefined) return result;
  try {
    return parseExact(text);
  } catch {
    return result;
  }
}

/** @param {{result: Record<string, any>, onRead?: Read}} props */
function ToolResult({ result, onRead }) {
  const structured = result.structuredContent;
  const blocks = Array.isArray(result.content) ? result.content : [];
  // Many servers say the same twice, for programs and as text: once is enough.
  const told = useMemo(() => {
    if (structured === undefined) return blocks;
    const text = canonical(structured);
    return blocks.filter((block) => !(block?.type === 'text' && says(block.text, text)));
  }, [result]);
  return html`
    <div class=${result.isError === true ? 'result is-error' : 'result'}>
      ${result.isError === true && html`<p class="error-note"><strong>The tool reports an error.</strong></p>`}
      ${told.length > 0 && html`<${Blocks} blocks=${told} onRead=${onRead} />`}
      ${structured !== undefined && html`<${Structured} value=${structured} />`}
      ${told.length === 0 && structured === undefined && html`<p class="aside">The answer is empty.</p>`}
    </div>`;
}

/** @param {unknown} text @param {string} value canonical */
function says(text, value) {
  const read = typeof text === 'string' ? json(text) : undefined;
  return read !== undefined && canonical(read) === value;
}

/** @param {string} text @returns {unknown} undefined where it is no JSON object or list */
function json(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** @param {{blocks: any[], onRead?: Read}} props */
function Blocks({ blocks, onRead }) {
  const [all, setAll] = useState(false);
  const shown = all ? blocks : blocks.slice(0, MAX_BLOCKS);
  return html`
    ${shown.map((block, index) => html`<${ContentView} key=${index} content=${block} onRead=${onRead} />`)}
    ${shown.length < blocks.length && html`
      <button type="button" class="more" onClick=${() => setAll(true)}>${count(blocks.length - shown.length, 'more part')}</button>`}`;
}

/**
 * What a conversation says, message by message.
 * @param {{messages: any[], onRead?: Read}} props
 */
export function Messages({ messages, onRead }) {
  return html`
    <ol class="messages">
      ${messages.slice(0, MAX_BLOCKS).map((message, index) => html`
        <li key=${index} data-role=${message?.role === 'assistant' ? 'assistant' : 'user'}>
          <span class="role">${clip(words(message?.role ?? 'somebody'), 40)}</span>
          <div><${Blocks} blocks=${Array.isArray(message?.content) ? message.content : [message?.content]} onRead=${onRead} /></div>
        </li>`)}
      ${messages.length > MAX_BLOCKS && html`<li class="aside">${count(messages.length - MAX_BLOCKS, 'message')} more, not shown</li>`}
    </ol>`;
}

/**
 * One part of an answer.
 * @param {{content: any, onRead?: Read}} props
 * @returns {any}
 */
export function ContentView({ content, onRead }) {
  if (typeof content === 'string') return html`<${TextView} text=${content} />`;
  switch (content?.type) {
    case 'text': return html`<${TextView} text=${words(content.text)} />`;
    case 'image':
    case 'audio': return html`<${Media} type=${content.type} data=${content.data} mime=${content.mimeType} />`;
    case 'resource': return html`<${Resource} resource=${content.resource} />`;
    case 'resource_link': return html`<${ResourceLink} link=${content} onRead=${onRead} />`;
    default: return html`<${JsonTree} value=${content} />`;
  }
}

/** @param {{text: string, mime?: string}} props */
function TextView({ text, mime = '' }) {
  const value = useMemo(() => (mime === '' || mime.includes('json') ? json(text) : undefined), [text, mime]);
  const written = useMemo(() => value === undefined && isMarkdown(text, mime), [text, mime, value]);
  const rich = value !== undefined ? 'data' : written ? 'formatted' : '';
  const [plain, setPlain] = useState(false);
  const swap = rich && html`
    <button type="button" class="plain small swap" onClick=${() => setPlain(!plain)}>${plain ? `Show ${rich}` : 'Show as text'}</button>`;
  if (rich === '' || plain) return html`<${Plain} text=${text} />${swap}`;
  return html`${value === undefined ? html`<${Markdown} text=${text} />` : html`<${Structured} value=${value} />`}${swap}`;
}

/** @param {string} text @param {string} mime */
const isMarkdown = (text, mime) => mime.startsWith('text/markdown') || (mime === '' && looksLikeMarkdown(text));

/** @param {{text: string}} props */
function Plain({ text }) {
  const [all, setAll] = useState(false);
  const long = text.length > MAX_PLAIN && !all;
  return html`
    <div class="plain-text" dir="auto">${long ? clip(text, MAX_PLAIN) : text}</div>
    ${long && html`
      <button type="button" class="more" onClick=${() => setAll(true)}>${count(text.length - MAX_PLAIN, 'more character')}</button>`}`;
}

/** What a stranger says, if it is words. @param {unknown} value */
const words = (value) => (typeof value === 'string' ? value : value === undefined || value === null ? '' : stringifyExact(value));

/** @param {{type: 'image'|'audio', data: unknown, mime: unknown, name?: string}} props */
function Media({ type, data, mime, name }) {
  const [broken, setBroken] = useState(false);
  const [held, setHeld] = useState(useContext(HeldPictures));
  const address = useMemo(() => mediaAddress(type, mime, data), [type, mime, data]);
  const label = name || (type === 'image' ? 'picture in the answer' : 'sound in the answer');
  if (!address || broken) {
    return html`<p class="aside">${type === 'image' ? 'A picture' : 'A sound'} that cannot be shown (${clip(words(mime), 60)}).
      ${typeof data === 'string' && html` <${Save} data=${data} name=${name ?? type} />`}</p>`;
  }
  if (type === 'image' && held) {
    return html`<button type="button" class="small" onClick=${() => setHeld(false)}>Show the picture (${size(address.length)})</button>`;
  }
  if (type === 'audio') return html`<audio controls src=${address} aria-label=${label} onError=${() => setBroken(true)}></audio>`;
  return html`<img class="picture" src=${address} alt=${label} decoding="async" onError=${() => setBroken(true)} />`;
}

/** @param {number} base64 how many characters */
const size = (base64) => count(Math.floor(base64 * 3 / 4), 'byte');

/** @param {{resource: any}} props */
function Resource({ resource }) {
  const uri = words(resource?.uri);
  const mime = words(resource?.mimeType);
  return html`
    <figure class="resource">
      <figcaption><code>${clip(uri, 300)}</code>${mime && html` <span class="faint">${clip(mime, 60)}</span>`}</figcaption>
      ${typeof resource?.text === 'string' ? html`<${TextView} text=${resource.text} mime=${mime} />`
        : typeof resource?.blob === 'string' ? html`<${Blob_} blob=${resource.blob} mime=${mime} uri=${uri} />`
        : html`<${JsonTree} value=${resource} />`}
    </figure>`;
}

/** @param {{blob: string, mime: string, uri: string}} props */
function Blob_({ blob, mime, uri }) {
  if (mime.startsWith('image/')) return html`<${Media} type="image" data=${blob} mime=${mime} name=${uri} />`;
  if (mime.startsWith('audio/')) return html`<${Media} type="audio" data=${blob} mime=${mime} name=${uri} />`;
  return html`<p><${Save} data=${blob} name=${uri} /></p>`;
}

/** @param {{data: string, name: string}} props */
function Save({ data, name }) {
  const pure = useMemo(() => data.replace(/\s+/g, ''), [data]);
  const file = name.split(/[/?#]/).filter(Boolean).pop() ?? 'resource';
  // As bytes of no type: a page from a stranger is saved, never opened as one of ours.
  return html`<a download=${clip(file, 100)} href=${`data:application/octet-stream;base64,${pure}`}>Save</a>
    <span class="faint"> about ${size(pure.length)}</span>`;
}

/** @param {{link: any, onRead?: Read}} props */
function ResourceLink({ link, onRead }) {
  const uri = words(link.uri);
  const web = /^https?:\/\//i.test(uri);
  return html`
    <div class="resource-link">
      <div><strong>${clip(words(link.title ?? link.name ?? uri), 200)}</strong>
        ${link.mimeType && html` <span class="faint">${clip(words(link.mimeType), 60)}</span>`}</div>
      <div>${web ? html`<a href=${uri} target="_blank" rel="noopener noreferrer">${clip(uri, 300)}</a>`
        : html`<code>${clip(uri, 300)}</code>`}</div>
      ${link.description && html`<p class="aside" dir="auto">${clip(words(link.description), 1000)}</p>`}
      ${onRead && html`
        <button type="button" class="small" onClick=${() => onRead(uri)}>Read<span class="unseen"> ${clip(uri, 100)}</span></button>`}
    </div>`;
}

/**
 * Data as a table where it is one, else as a tree.
 * @param {{value: unknown}} props
 */
export function Structured({ value }) {
  const tables = useMemo(() => tablesOf(value), [value]);
  const [tree, setTree] = useState(false);
  if (!tables) return html`<${JsonTree} value=${value} open=${2} />`;
  return html`
    ${tree ? html`<${JsonTree} value=${value} open=${2} />` : tables.map((one) => html`<${Table} key=${one.name} ...${one} />`)}
    <button type="button" class="plain small swap" onClick=${() => setTree(!tree)}>${tree ? 'Show as table' : 'Show as tree'}</button>`;
}

/** @param {{table: import('../model/content.js').Table, name: string}} props */
function Table({ table, name }) {
  const [most, setMost] = useState(ROWS);
  const id = useId();
  const left = table.rows.length - most;
  return html`
    <div class="scroll-x" tabindex="0" role="region" aria-labelledby=${id}>
      <table class="data">
        <caption id=${id}>${clip(name, 100) || 'data'}, ${count(table.rows.length, 'row')}</caption>
        <thead><tr>${table.columns.map((column) => html`<th scope="col" key=${column}>${clip(column, 100)}</th>`)}</tr></thead>
        <tbody>${table.rows.slice(0, most).map((row, index) => html`
          <tr key=${index}>${row.map((cell, place) => html`<${Cell} key=${place} value=${cell} />`)}</tr>`)}</tbody>
      </table>
    </div>
    ${left > 0 && html`<button type="button" class="more" onClick=${() => setMost(most + 10 * ROWS)}>${count(left, 'more row')}</button>`}`;
}

/** @param {{value: unknown}} props */
function Cell({ value }) {
  const number = typeof value === 'number' || value instanceof Exact;
  return html`<td class=${number ? 'number' : ''} dir="auto">${clip(cellText(value), 500)}</td>`;
}

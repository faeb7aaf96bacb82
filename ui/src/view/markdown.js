import { html, h, useEffect, useMemo, useState } from '../../vendor/ui.js';
import { hiddenHost, textOf } from '../model/links.js';
import { parse, parsePlain } from '../model/markdown.js';
import { beginning, count } from '../model/text.js';
import { useSalon } from '../app.js';

/** @typedef {import('../model/markdown.js').Block} Block */
/** @typedef {import('../model/inline.js').Inline} Inline */

/**
 * What somebody wrote: Markdown, or plain text with its links and mentions. Made of elements and text, never of markup.
 * @param {{text: string, plain?: boolean}} props
 */
export function Markdown({ text, plain = false }) {
  const [all, setAll] = useState(false);
  const start = useMemo(() => beginning(text), [text]);
  const rest = text.length - start.length;
  const shown = all ? text : start;
  // What is remembered is what the text says, never elements: those keep the tree around them as it was when they were first drawn.
  const said = useMemo(() => (plain ? { words: parsePlain(shown) } : { blocks: parse(shown) }), [shown, plain]);
  return html`
    <div class=${plain ? 'prose plain' : 'prose'} dir="auto">${said.words ? said.words.map(inline) : said.blocks.map(block)}</div>
    ${rest > 0 && html`
      <button type="button" class="more" aria-expanded=${all} onClick=${() => setAll(!all)}>
        ${all ? 'Show less' : `Show ${count(rest, 'more character')}`}
      </button>`}
  `;
}

/** @param {Block} node @returns {any} */
function block(node) {
  switch (node.type) {
    case 'paragraph':
      return h('p', null, node.children.map(inline));
    case 'heading':
      // Below the page's own headings, and still a heading for screen readers.
      return h(`h${Math.min(6, node.level + 2)}`, null, node.children.map(inline));
    case 'fence':
      return html`<${Code} lang=${node.lang} text=${node.text} />`;
    case 'quote':
      return html`<blockquote>${node.blocks.map(block)}</blockquote>`;
    case 'list': {
      const items = node.items.map((item) => html`<li>${tight(item)}</li>`);
      return node.ordered ? html`<ol start=${node.start}>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case 'table':
      return html`
        <div class="scroll-x" tabindex="0" role="region" aria-label="table"><table>
          <thead><tr>${node.head.map((cell, at) => html`<th data-align=${node.align[at]}>${cell.map(inline)}</th>`)}</tr></thead>
          <tbody>${node.rows.map((row) => html`
            <tr>${row.map((cell, at) => html`<td data-align=${node.align[at]}>${cell.map(inline)}</td>`)}</tr>`)}
          </tbody>
        </table></div>`;
    default:
      return html`<hr />`;
  }
}

/** @param {Block[]} item the first paragraph of a list's item needs no space of its own */
function tight(item) {
  const [first, ...rest] = item;
  return first?.type === 'paragraph' ? [first.children.map(inline), rest.map(block)] : item.map(block);
}

/** @param {Inline} node @returns {any} */
function inline(node) {
  switch (node.type) {
    case 'text':
      return node.text;
    case 'break':
      return html`<br />`;
    case 'code':
      return html`<code>${node.text}</code>`;
    case 'mention':
      return html`<${Mention} id=${node.id} />`;
    case 'link': {
      const host = hiddenHost(textOf(node.children), node.href);
      return html`
        <a href=${node.href} title=${node.href} target="_blank" rel="noopener noreferrer"><bdi>${node.children.map(inline)}</bdi>${
          host && html` <span class="link-host">(${host})</span>`}</a>`;
    }
    default:
      return h(node.type, null, node.children.map(inline));
  }
}

/** What colours code; loaded with the first code that names its language. @type {typeof import('../model/highlight.js').highlight|null} */
let highlight = null;

/** The parts of code in their colours; all of it in none until it is known how. @param {string} text @param {string} lang */
function useHighlighted(text, lang) {
  const [isKnown, setKnown] = useState(highlight !== null);
  useEffect(() => {
    if (isKnown || lang === '') return;
    import('../model/highlight.js').then((module) => {
      highlight = module.highlight;
      setKnown(true);
    }, () => {});
  }, [lang]);
  return useMemo(() => (isKnown && highlight ? highlight(text, lang) : [{ token: '', text }]), [text, lang, isKnown]);
}

/** A block of code, with a way to take it along. @param {{lang: string, text: string}} props */
function Code({ lang, text }) {
  const salon = useSalon();
  const parts = useHighlighted(text, lang);
  return html`
    <div class="code-block">
      <pre tabindex="0" aria-label=${lang ? `code, ${lang}` : 'code'}><code>${parts.map((part) => (part.token === '' ? part.text : html`<span data-token=${part.token}>${part.text}</span>`))}</code></pre>
      <button type="button" class="small copy-code" onClick=${() => void salon.copy(text, 'Copied')}>Copy<span class="unseen"> the code</span></button>
    </div>`;
}

/** @param {{id: string}} props */
function Mention({ id }) {
  const { room } = useSalon();
  if (!room.people.has(id)) return `@${id}`;
  return html`<span class=${id === room.me ? 'mention me' : 'mention'}>@${id}</span>`;
}

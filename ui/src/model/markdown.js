// Markdown as a tree of plain data: no HTML goes in, none comes out. Whatever is not understood stays text.
// Invariant: linear in the length of any text; nesting is bounded.
// Deliberately absent: HTML, reference links, images (they become links), setext headings.

import { Inlines } from './inline.js';

/** @typedef {import('./inline.js').Meter} Meter */
/** @typedef {import('./inline.js').Inline} Inline */
/**
 * @typedef {{type:'paragraph', children:Inline[]} | {type:'heading', level:number, children:Inline[]}
 *   | {type:'fence', lang:string, text:string} | {type:'quote', blocks:Block[]} | {type:'rule'}
 *   | {type:'list', ordered:boolean, start:number, items:Block[][]}
 *   | {type:'table', align:string[], head:Inline[][], rows:Inline[][][]}} Block
 */

const MAX_LEVELS = 8;
const MAX_COLUMNS = 24;

const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const FENCE = /^( {0,3})(`{3,}|~{3,})/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( *)([-*+]|\d{1,9}[.)])( |$)/;

/**
 * The blocks of a text.
 * @param {string} text
 * @param {Meter} [meter]
 * @returns {Block[]}
 */
export function parse(text, meter = { steps: 0 }) {
  return blocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'), 0, meter);
}

/**
 * A text that is no Markdown: only its links and mentions are found.
 * @param {string} text
 * @param {Meter} [meter]
 * @returns {Inline[]}
 */
export function parsePlain(text, meter = { steps: 0 }) {
  return new Inlines(text, meter, false).run();
}

/** @param {string[]} lines @param {number} level @param {Meter} meter @returns {Block[]} */
function blocks(lines, level, meter) {
  /** @type {Block[]} */
  const out = [];
  /** @type {string[]} */
  let paragraph = [];
  const flush = () => {
    if (paragraph.length > 0) out.push({ type: 'paragraph', children: inline(paragraph.join('\n'), meter) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    meter.steps += line.length + 1;
    if (isBlank(line)) {
      flush();
      at += 1;
      continue;
    }
    const taken = level < MAX_LEVELS ? block(lines, at, level, meter, paragraph.length > 0) : null;
    if (taken) {
      flush();
      out.push(taken.block);
      at = taken.next;
    } else {
      paragraph.push(line.trim());
      at += 1;
    }
  }
  flush();
  return out;
}

/**
 * The block that begins at a line, where it is no paragraph.
 * @param {string[]} lines @param {number} at @param {number} level @param {Meter} meter @param {boolean} within a paragraph
 * @returns {{block:Block, next:number} | null}
 */
function block(lines, at, level, meter, within) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (heading) {
    const text = withoutTrailing(line.slice(heading[0].length).trim(), '#');
    return { block: { type: 'heading', level: heading[1].length, children: inline(text, meter) }, next: at + 1 };
  }
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence, meter);
  if (isRule(line)) return { block: { type: 'rule' }, next: at + 1 };
  if (QUOTE.test(line)) {
    const inner = [];
    let next = at;
    for (; next < lines.length && QUOTE.test(lines[next]); next += 1) {
      meter.steps += lines[next].length + 1;
      inner.push(lines[next].replace(QUOTE, ''));
    }
    return { block: { type: 'quote', blocks: blocks(inner, level + 1, meter) }, next };
  }
  const marker = MARKER.exec(line);
  // Only a list that begins with 1 may interrupt a paragraph: a year at the start of a line is no list.
  const listed = marker && (!within || !isNumber(marker[2]) || marker[2].slice(0, -1) === '1');
  if (listed) return list(lines, at, marker, level, meter);
  return table(lines, at, meter);
}

/** @param {string[]} lines @param {number} at @param {RegExpExecArray} fence @param {Meter} meter */
function fenced(lines, at, fence, meter) {
  const [, indent, mark] = fence;
  const body = [];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    meter.steps += line.length + 1;
    const end = FENCE.exec(line);
    if (end && end[2][0] === mark[0] && end[2].length >= mark.length && isBlank(line.slice(end[0].length))) break;
    body.push(line.startsWith(indent) ? line.slice(indent.length) : line);
  }
  const lang = lines[at].slice(fence[0].length).trim().slice(0, 40);
  return { block: /** @type {Block} */ ({ type: 'fence', lang, text: body.join('\n') }), next: next + 1 };
}

/** @param {string[]} lines @param {number} at @param {RegExpExecArray} first @param {number} level @param {Meter} meter */
function list(lines, at, first, level, meter) {
  const ordered = isNumber(first[2]);
  const base = first[1].length;
  /** @type {Block[][]} */
  const items = [];
  let next = at;
  while (next < lines.length) {
    const marker = MARKER.exec(lines[next]);
    if (!marker || isNumber(marker[2]) !== ordered || isRule(lines[next])) break;
    if (marker[1].length > base + 1 || marker[1].length < base) break;
    const width = marker[0].length;
    const inner = [lines[next].slice(width)];
    meter.steps += lines[next].length + 1;
    for (next += 1; next < lines.length; next += 1) {
      const line = lines[next];
      const indent = indentOf(line);
      meter.steps += line.length + 1;
      const before = lines[next - 1];
      if (isBlank(line)) {
        if (isBlank(before)) break;
      } else if (indent < base + 2 && (isBlank(before) || begins(line))) {
        break;
      }
      inner.push(line.slice(Math.min(indent, width)));
    }
    items.push(blocks(inner, level + 1, meter));
    while (next < lines.length && isBlank(lines[next])) next += 1;
  }
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  return { block: /** @type {Block} */ ({ type: 'list', ordered, start, items }), next };
}

/** @param {string[]} lines @param {number} at @param {Meter} meter @returns {{block:Block, next:number} | null} */
function table(lines, at, meter) {
  if (at + 1 >= lines.length || !lines[at].includes('|') || !lines[at + 1].includes('-')) return null;
  meter.steps += lines[at].length + lines[at + 1].length;
  const align = cells(lines[at + 1]).map(alignment);
  const head = cells(lines[at]);
  if (align.includes('') || align.length !== head.length || align.length > MAX_COLUMNS) return null;
  const rows = [];
  let next = at + 2;
  for (; next < lines.length && lines[next].includes('|'); next += 1) {
    meter.steps += lines[next].length;
    const row = cells(lines[next]).slice(0, align.length);
    rows.push(row.map((cell) => inline(cell, meter)));
  }
  return { block: { type: 'table', align, head: head.map((cell) => inline(cell, meter)), rows }, next };
}

/** @param {string} line */
function cells(line) {
  let text = line.trim();
  if (text.startsWith('|')) text = text.slice(1);
  if (text.endsWith('|') && !text.endsWith('\\|')) text = text.slice(0, -1);
  const out = [''];
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\' && text[at + 1] === '|') out[out.length - 1] += text[++at];
    else if (text[at] === '|') out.push('');
    else out[out.length - 1] += text[at];
  }
  return out.map((cell) => cell.trim());
}

/** @param {string} cell the word for a column, or nothing if this is no line under a table's head */
function alignment(cell) {
  if (!/^:?-+:?$/.test(cell)) return '';
  if (cell.endsWith(':')) return cell.startsWith(':') ? 'center' : 'right';
  return 'left';
}

/** @param {string} line */
const isBlank = (line) => line.trim() === '';
/** @param {string} mark */
const isNumber = (mark) => mark.length > 1;
/** @param {string} line */
const begins = (line) => HEADING.test(line) || FENCE.test(line) || QUOTE.test(line) || MARKER.test(line);

/** @param {string} line */
function indentOf(line) {
  let at = 0;
  while (line[at] === ' ') at += 1;
  return at;
}

/** @param {string} line */
function isRule(line) {
  const text = line.trim();
  const mark = text[0];
  if (text.length < 3 || (mark !== '-' && mark !== '*' && mark !== '_')) return false;
  for (const char of text) if (char !== mark && char !== ' ') return false;
  return text.replaceAll(' ', '').length >= 3;
}

/** @param {string} text @param {string} mark */
function withoutTrailing(text, mark) {
  let end = text.length;
  while (end > 0 && text[end - 1] === mark) end -= 1;
  return end === 0 || text[end - 1] === ' ' ? text.slice(0, end).trim() : text;
}

/** @param {string} text @param {Meter} meter */
const inline = (text, meter) => new Inlines(text, meter, true).run();

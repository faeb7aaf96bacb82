// Markdown as a tree of plain data: no HTML goes in, none comes out. Whatever is not understood stays text.
// Invariant: linear in the length of the text, whoever wrote it; nesting is bounded.
// Deliberately absent: HTML, reference links, images (they become links), setext headings.

/** @typedef {{steps:number}} Meter  counts the work done, for the tests */
/**
 * @typedef {{type:'text', text:string} | {type:'code', text:string} | {type:'break'} | {type:'mention', id:string}
 *   | {type:'em'|'strong'|'del', children:Inline[]} | {type:'link', href:string, children:Inline[]}} Inline
 */
/**
 * @typedef {{type:'paragraph', children:Inline[]} | {type:'heading', level:number, children:Inline[]}
 *   | {type:'fence', lang:string, text:string} | {type:'quote', blocks:Block[]} | {type:'rule'}
 *   | {type:'list', ordered:boolean, start:number, items:Block[][]}
 *   | {type:'table', align:string[], head:Inline[][], rows:Inline[][][]}} Block
 */

const MAX_LEVELS = 8;
const MAX_FRAMES = 24;
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

const SPECIAL = /[\\`*_~[\]!@\nh]/;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;
const ID = /[A-Za-z0-9._:~@-]/;

/**
 * One left-to-right pass. What is open is a stack of frames; a frame that is never closed becomes text again.
 */
class Inlines {
  /** @param {string} text @param {Meter} meter @param {boolean} marked whether it is Markdown */
  constructor(text, meter, marked) {
    this.text = text;
    this.meter = meter;
    this.marked = marked;
    this.at = 0;
    /** @type {{mark:string, children:Inline[]}[]} */
    this.frames = [{ mark: '', children: [] }];
    /** @type {Map<number, number[]> | null} the runs of backticks by their length, the last first */
    this.ticks = null;
    /** @type {Map<number, number> | null} for each opening parenthesis where it closes, within a word */
    this.closing = null;
  }

  run() {
    const { text } = this;
    let plain = '';
    while (this.at < text.length) {
      this.meter.steps += 1;
      const char = text[this.at];
      const from = this.at;
      const node = SPECIAL.test(char) ? this.special(char, plain) : null;
      if (node === null) {
        plain += char;
        this.at = from + 1;
      } else if (typeof node === 'string') {
        plain += node;
      } else {
        plain = '';
        if (node !== true) this.push(node);
      }
    }
    this.put(plain);
    while (this.frames.length > 1) this.flatten();
    return this.frames[0].children;
  }

  /**
   * What stands at a special character: nothing special, other text, a node, or true when frames were changed. Whoever changes frames or
   * answers with a node has put the text before it in its place first.
   * @param {string} char @param {string} plain @returns {Inline | string | true | null}
   */
  special(char, plain) {
    const { text, at, marked } = this;
    if (char === '\n') return marked ? this.after(plain, { type: 'break' }, at + 1) : null;
    if (char === 'h') return this.address(plain);
    if (char === '@') return this.mention(plain);
    if (!marked) return null;
    if (char === '\\') {
      if (!PUNCTUATION.test(text[at + 1] ?? '')) return null;
      this.at = at + 2;
      return text[at + 1];
    }
    if (char === '`') return this.code(plain);
    if (char === '[' || (char === '!' && text[at + 1] === '[')) {
      if (this.frames.length > MAX_FRAMES) return null;
      this.put(plain);
      const mark = char === '[' ? '[' : '![';
      this.frames.push({ mark, children: [] });
      this.at = at + mark.length;
      return true;
    }
    if (char === ']') return this.link(plain);
    return char === '!' ? null : this.emphasis(char, plain);
  }

  /** @param {string} plain @param {Inline} node @param {number} next */
  after(plain, node, next) {
    this.put(plain);
    this.at = next;
    return node;
  }

  /** @param {string} plain */
  code(plain) {
    const { text, at } = this;
    let size = 1;
    while (text[at + size] === '`') size += 1;
    this.meter.steps += size;
    this.ticks ??= this.runs();
    const places = this.ticks.get(size) ?? [];
    while (places.length > 0 && places[places.length - 1] <= at) places.pop();
    const end = places[places.length - 1];
    if (end === undefined) {
      this.at = at + size;
      return text.slice(at, at + size);
    }
    let inner = text.slice(at + size, end).replaceAll('\n', ' ');
    if (inner.length > 2 && inner.startsWith(' ') && inner.endsWith(' ')) inner = inner.slice(1, -1);
    return this.after(plain, { type: 'code', text: inner }, end + size);
  }

  runs() {
    /** @type {Map<number, number[]>} */
    const runs = new Map();
    for (const { index, 0: run } of this.text.matchAll(/`+/g)) {
      const places = runs.get(run.length);
      if (places) places.push(index);
      else runs.set(run.length, [index]);
    }
    for (const places of runs.values()) places.reverse();
    this.meter.steps += this.text.length;
    return runs;
  }

  /** @param {string} plain */
  link(plain) {
    const { text, at, frames } = this;
    const place = frames.findLastIndex((frame) => frame.mark.endsWith('['));
    if (place < 1) return null;
    this.put(plain);
    while (frames.length > place + 1) this.flatten();
    const close = text[at + 1] === '(' ? (this.closing ??= this.parentheses()).get(at + 1) : undefined;
    const href = close === undefined ? null : safeHref(text.slice(at + 2, close));
    if (href === null || close === undefined) {
      this.flatten();
      this.put(']');
      this.at = at + 1;
      return true;
    }
    const frame = frames.pop();
    this.at = close + 1;
    const children = frame ? withoutLinks(frame.children) : [];
    return /** @type {Inline} */ ({ type: 'link', href, children: children.length > 0 ? children : [{ type: 'text', text: href }] });
  }

  parentheses() {
    const closing = new Map();
    /** @type {number[]} */
    let open = [];
    for (let at = 0; at < this.text.length; at += 1) {
      const char = this.text[at];
      if (char === '(') open.push(at);
      else if (char === ')' && open.length > 0) closing.set(open.pop(), at);
      else if (char === ' ' || char === '\n') open = [];
    }
    this.meter.steps += this.text.length;
    return closing;
  }

  /** @param {string} char @param {string} plain */
  emphasis(char, plain) {
    const { text, at, frames } = this;
    let size = 1;
    while (text[at + size] === char) size += 1;
    this.meter.steps += size;
    const next = at + size;
    this.at = next;
    if (size > 3 || (char === '~' && size !== 2)) return text.slice(at, next);
    const before = text[at - 1] ?? ' ';
    const behind = text[next] ?? ' ';
    const opens = /\S/.test(behind) && !(char === '_' && WORD.test(before));
    const closes = /\S/.test(before) && !(char === '_' && WORD.test(behind));
    this.put(plain);
    let left = size;
    while (closes && left > 0) {
      const bracket = frames.findLastIndex((frame) => frame.mark.endsWith('['));
      const place = frames.findLastIndex((frame) => frame.mark[0] === char && frame.mark.length <= left);
      if (place <= Math.max(bracket, 0)) break;
      while (frames.length > place + 1) this.flatten();
      const frame = frames.pop();
      if (!frame) break;
      left -= frame.mark.length;
      const type = char === '~' ? 'del' : frame.mark.length === 2 ? 'strong' : 'em';
      this.push({ type, children: frame.children });
    }
    if (opens && left > 0 && frames.length <= MAX_FRAMES) {
      if (left > 1) frames.push({ mark: char + char, children: [] });
      if (left !== 2) frames.push({ mark: char, children: [] });
    } else {
      this.put(char.repeat(left));
    }
    return /** @type {true} */ (true);
  }

  /** @param {string} plain */
  address(plain) {
    const { text, at } = this;
    if (!(text.startsWith('https://', at) || text.startsWith('http://', at)) || WORD.test(text[at - 1] ?? ' ')) return null;
    let end = at;
    while (end < text.length && !/[\s<>"`\]]/.test(text[end])) end += 1;
    this.meter.steps += end - at;
    let last = end;
    const trailing = text.slice(at, end).includes('(') ? /[.,;:!?'*_~]/ : /[.,;:!?'*_~)]/;
    while (last > at && trailing.test(text[last - 1])) last -= 1;
    const address = text.slice(at, last);
    const href = safeHref(address);
    if (href === null) {
      this.at = end;
      return text.slice(at, end);
    }
    return this.after(plain, { type: 'link', href, children: [{ type: 'text', text: address }] }, last);
  }

  /** @param {string} plain */
  mention(plain) {
    const { text, at } = this;
    if (WORD.test(text[at - 1] ?? ' ') || !/[A-Za-z0-9_]/.test(text[at + 1] ?? '')) return null;
    let end = at + 1;
    while (end - at <= 128 && ID.test(text[end] ?? '')) end += 1;
    this.meter.steps += end - at;
    while (/[.:~@-]/.test(text[end - 1])) end -= 1;
    return this.after(plain, { type: 'mention', id: text.slice(at + 1, end) }, end);
  }

  /** Takes the topmost frame back: its mark was only text. */
  flatten() {
    const frame = this.frames.pop();
    if (!frame) return;
    this.put(frame.mark);
    this.meter.steps += frame.children.length;
    for (const child of frame.children) this.push(child);
  }

  /** @param {string} text */
  put(text) {
    if (text !== '') this.push({ type: 'text', text });
  }

  /** @param {Inline} node */
  push(node) {
    const { children } = this.frames[this.frames.length - 1];
    const last = children[children.length - 1];
    if (node.type === 'text' && last?.type === 'text') last.text += node.text;
    else children.push(node);
  }
}

/** @param {Inline[]} children @returns {Inline[]} a link within a link is only its text */
function withoutLinks(children) {
  return children.flatMap((child) => {
    if (child.type === 'link') return withoutLinks(child.children);
    return 'children' in child ? [{ ...child, children: withoutLinks(child.children) }] : [child];
  });
}

/**
 * An address that may be followed from here, or null.
 * @param {string} text
 * @returns {string | null}
 */
export function safeHref(text) {
  return text.length <= 2048 && /^(?:https?:\/\/[^\s/]|mailto:[^\s@]+@)[^\s"<>\p{Cc}]*$/iu.test(text) ? text : null;
}

// What stands within a line of Markdown: emphasis, code, links, mentions. One pass, linear in the length of the text, whoever wrote it.

/** @typedef {{steps:number}} Meter  counts the work done, for the tests */
/**
 * @typedef {{type:'text', text:string} | {type:'code', text:string} | {type:'break'} | {type:'mention', id:string}
 *   | {type:'em'|'strong'|'del', children:Inline[]} | {type:'link', href:string, children:Inline[]}} Inline
 */

const MAX_FRAMES = 24;
const SPECIAL = /[\\`*_~[\]!@\nh]/;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;
// The characters of participant ids without spaces, slashes and those that often follow a mention in a sentence.
const ID = /[A-Za-z0-9._:~@!#$+=|-]/;
// Another mention follows: `@alice+@bob`.
const NEXT_MENTION = /[+=|,!#$]@/y;

/**
 * One left-to-right pass. What is open is a stack of frames; a frame that is never closed becomes text again.
 */
export class Inlines {
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
   * What stands at a special character: nothing special, other text, a node, or true when frames were changed. A function that changes frames or
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
    while (end - at <= 128 && ID.test(text[end] ?? '')) {
      NEXT_MENTION.lastIndex = end;
      if (NEXT_MENTION.test(text)) break;
      end += 1;
    }
    this.meter.steps += end - at;
    while (/[.:~@!#$+=|-]/.test(text[end - 1])) end -= 1;
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

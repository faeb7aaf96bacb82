/**
 * Whether a text matches a stranger's pattern, in time that is bounded whatever the pattern is. The browser's own engine goes back and
 * tries again, which some patterns make last for ever; this one keeps all places in the pattern where the text may have come to and goes
 * once over the text. It only checks the syntax with the browser's engine and never runs it on more than one character.
 * Looking around and referring back cannot be done this way: such patterns are not judged.
 */

/** @typedef {(chars: string[], at: number) => boolean} Test at a place of the text */
/**
 * @typedef {{type: 'one', test: Test} | {type: 'look', test: Test} | {type: 'all', parts: Node[]} | {type: 'any', parts: Node[]}
 *   | {type: 'many', part: Node, least: number, most: number}} Node
 */
/** @typedef {{test?: Test, takes: boolean, next: number[]}} State no test: it goes on at once */
/** @typedef {{states: State[], start: number, end: number}} Program */

const LONGEST_PATTERN = 500;
const LONGEST_TEXT = 500;
const MAX_STATES = 1000;
const MAX_KEPT = 200;
/** How many states count as one step of what a check may cost. */
const STATES_OF_STEP = 20;

/** @type {Map<string, Program | undefined>} */
const programs = new Map();

/**
 * @param {string} pattern
 * @returns {Program | undefined} undefined where it cannot be judged here
 */
function programOf(pattern) {
  if (pattern.length > LONGEST_PATTERN) return undefined;
  if (!programs.has(pattern)) {
    if (programs.size >= MAX_KEPT) programs.clear();
    programs.set(pattern, compiled(pattern));
  }
  return programs.get(pattern);
}

/** @param {string} pattern */
function compiled(pattern) {
  try {
    // Whatever this takes is well formed, which the parser below relies on.
    RegExp(pattern, 'u');
    return build(new Parser(pattern).whole());
  } catch {
    return undefined;
  }
}

/** @param {string} pattern @returns {boolean} whether `matches` can judge it */
export function isJudged(pattern) {
  return programOf(pattern) !== undefined;
}

/**
 * @param {string} pattern
 * @param {string} text
 * @param {{left: number}} [steps] what it may cost together with others
 * @returns {boolean | undefined} undefined where that is not known: the pattern is not judged here, or it would cost too much
 */
export function matches(pattern, text, steps = { left: Infinity }) {
  const program = text.length > LONGEST_TEXT ? undefined : programOf(pattern);
  if (!program) return undefined;
  const { states, start, end } = program;
  const chars = [...text];
  /** @type {number[]} the states that wait for a character */
  let now = [];
  for (let at = 0; at <= chars.length; at += 1) {
    // A match may begin anywhere.
    const open = [start, ...now];
    const seen = new Set();
    now = [];
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      if (seen.has(state)) continue;
      seen.add(state);
      if (state === end) return true;
      const { test, takes, next } = states[state];
      if (test && !((!takes || at < chars.length) && test(chars, at))) continue;
      if (takes) now.push(...next);
      else open.push(...next);
    }
    steps.left -= Math.ceil(seen.size / STATES_OF_STEP);
    if (steps.left < 0) return undefined;
  }
  return false;
}

/** @param {Node} whole @returns {Program} */
function build(whole) {
  /** @type {State[]} */
  const states = [];
  const add = (/** @type {State} */ state) => {
    if (states.length >= MAX_STATES) throw new RangeError('too many states');
    return states.push(state) - 1;
  };
  /** @param {Node} node @param {number} next @returns {number} where it begins */
  const put = (node, next) => {
    switch (node.type) {
      case 'one': return add({ test: node.test, takes: true, next: [next] });
      case 'look': return add({ test: node.test, takes: false, next: [next] });
      case 'all': return node.parts.reduceRight((after, part) => put(part, after), next);
      case 'any': return add({ takes: false, next: node.parts.map((part) => put(part, next)) });
      default: return repeat(node.part, node.least, node.most, next);
    }
  };
  /** @param {Node} part @param {number} least @param {number} most @param {number} next */
  const repeat = (part, least, most, next) => {
    let after = next;
    if (most === Infinity) {
      after = add({ takes: false, next: [next] });
      states[after].next.push(put(part, after));
    }
    for (let times = least; times < most && most !== Infinity; times += 1) after = add({ takes: false, next: [next, put(part, after)] });
    for (let times = 0; times < least; times += 1) {
      // What takes no state would be put as often as the pattern says, for nothing.
      const before = states.length;
      after = put(part, after);
      if (states.length === before) break;
    }
    return after;
  };
  const end = add({ takes: false, next: [] });
  return { states, start: put(whole, end), end };
}

/** @param {string} char */
const isWord = (char) => char !== undefined && /^\w$/.test(char);
/** @type {Test} */
const atBoundary = (chars, at) => isWord(chars[at - 1]) !== isWord(chars[at]);

/** Reads a pattern that is well formed. */
class Parser {
  /** @param {string} pattern */
  constructor(pattern) {
    this.chars = [...pattern];
    this.at = 0;
  }

  /** @returns {Node} */
  whole() {
    const parts = [this.sequence()];
    while (this.chars[this.at] === '|') {
      this.at += 1;
      parts.push(this.sequence());
    }
    return parts.length === 1 ? parts[0] : { type: 'any', parts };
  }

  /** @returns {Node} */
  sequence() {
    /** @type {Node[]} */
    const parts = [];
    while (this.at < this.chars.length && this.chars[this.at] !== '|' && this.chars[this.at] !== ')') parts.push(this.repeated(this.atom()));
    return { type: 'all', parts };
  }

  /** @param {Node} part @returns {Node} */
  repeated(part) {
    const [, sign, first, comma, last] = /^(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/.exec(this.rest(40)) ?? [];
    if (sign === undefined && first === undefined) return part;
    this.at += sign !== undefined ? 1 : this.chars.indexOf('}', this.at) + 1 - this.at;
    if (this.chars[this.at] === '?') this.at += 1;
    if (sign !== undefined) return { type: 'many', part, least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Infinity };
    const least = Number(first);
    return { type: 'many', part, least, most: !comma ? least : last === '' ? Infinity : Number(last) };
  }

  /** @param {number} length */
  rest(length) {
    return this.chars.slice(this.at, this.at + length).join('');
  }

  /** @returns {Node} */
  atom() {
    const char = this.chars[this.at];
    if (char === '(') return this.group();
    if (char === '^' || char === '$') {
      this.at += 1;
      return { type: 'look', test: char === '^' ? (_, at) => at === 0 : (chars, at) => at === chars.length };
    }
    if (char === '\\' && /[bB]/.test(this.chars[this.at + 1])) {
      const wanted = this.chars[this.at + 1] === 'b';
      this.at += 2;
      return { type: 'look', test: (chars, at) => atBoundary(chars, at) === wanted };
    }
    return this.one();
  }

  /** @returns {Node} */
  group() {
    const [open] = /^\((?:\?:|\?<[^=!][^>]*>|(?!\?))/.exec(this.rest(LONGEST_PATTERN)) ?? [];
    if (open === undefined) throw new SyntaxError('looking around is not done here');
    this.at += [...open].length;
    const inner = this.whole();
    this.at += 1;
    return inner;
  }

  /** What stands for one character. @returns {Node} */
  one() {
    const source = this.source();
    this.at += [...source].length;
    if (source.length === 1 && !/[.\\[]/.test(source)) return { type: 'one', test: (chars, at) => chars[at] === source };
    const set = RegExp(`^${source}$`, 'u');
    return { type: 'one', test: (chars, at) => set.test(chars[at]) };
  }

  source() {
    const text = this.rest(LONGEST_PATTERN);
    if (text[0] === '[') return /^\[(?:[^\]\\]|\\.)*\]/su.exec(text)?.[0] ?? '';
    if (text[0] !== '\\') return this.chars[this.at];
    if (/^\\[1-9k]/.test(text)) throw new SyntaxError('referring back is not done here');
    const pair = /^\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}/.exec(text);
    return (pair ?? /^\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[a-zA-Z]|.)/su.exec(text))?.[0] ?? '';
  }
}

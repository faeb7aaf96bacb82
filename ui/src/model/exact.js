/**
 * JSON without loss. What a person types, or a participant answers, may hold numbers that a double cannot: 2^53 + 1, 1.0, 1e400.
 * `parseExact` keeps those as their own text, `stringifyExact` writes that text again.
 * Stricter than JSON.parse in what the gateway would refuse: a key that stands twice, a lone surrogate, too deep nesting.
 */

import { RawJson, at as partAt, isObject } from './raw.js';

/** @typedef {import('./types.js').Envelope} Envelope */

/** As deep as the gateway takes an envelope; what is in one is nested a little less. */
const DEEPEST = 64;

/** A piece of JSON that is kept as it was written. */
export class Exact extends RawJson {
  /** The nearest value that JavaScript has. */
  get value() {
    return JSON.parse(this.text);
  }

  /** For JSON.stringify, which rounds: use `stringifyExact`. */
  toJSON() {
    return this.value;
  }

  toString() {
    return this.text;
  }
}

/**
 * @param {string} text the text of a JSON number
 * @returns {number | Exact} a number where none of the text is lost by it
 */
export function exactNumber(text) {
  const value = Number(text);
  return JSON.stringify(value) === text ? value : new Exact(text);
}

/**
 * @param {unknown} value
 * @param {number} [indent] blanks for each level; on one line without
 * @returns {string}
 */
export function stringifyExact(value, indent = 0) {
  return write(value, indent, '') ?? 'null';
}

/**
 * @param {unknown} value
 * @param {number} indent
 * @param {string} before the blanks that lines of this level begin with
 * @returns {string | undefined} nothing for what JSON does not have
 */
function write(value, indent, before) {
  if (value instanceof RawJson) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = before + ' '.repeat(indent);
  const [open, gap, close] = indent ? [`\n${inner}`, `,\n${inner}`, `\n${before}`] : ['', ',', ''];
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[${open}${value.map((item) => write(item, indent, inner) ?? 'null').join(gap)}${close}]`;
  }
  /** @type {string[]} */
  const members = [];
  for (const [key, member] of Object.entries(value)) {
    const text = write(member, indent, inner);
    if (text !== undefined) members.push(`${JSON.stringify(key)}:${indent ? ' ' : ''}${text}`);
  }
  return members.length === 0 ? '{}' : `{${open}${members.join(gap)}${close}}`;
}

/**
 * @param {string} text
 * @returns {any} numbers that would be rounded are `Exact`
 * @throws {SyntaxError} that says where, and what is wrong there
 */
export function parseExact(text) {
  const reader = new Reader(text);
  const value = reader.value(1);
  reader.blanks();
  if (reader.at < text.length) reader.fail('nothing more was expected');
  return value;
}

/** Only these can be written otherwise than JSON.parse and JSON.stringify do: long ones, and those with a point or an exponent. */
const UNEVEN = /\d{16}|\d[.eE]/;

/** @type {WeakMap<Envelope, any>} */
const payloads = new WeakMap();

/**
 * What an envelope says, with every digit.
 * @param {Envelope} envelope
 * @returns {any} its payload, in which numbers that would be rounded are `Exact`
 */
export function exactPayload(envelope) {
  if (!UNEVEN.test(envelope.raw)) return envelope.payload;
  if (!payloads.has(envelope)) payloads.set(envelope, readAgain(envelope));
  return payloads.get(envelope);
}

/** @param {Envelope} envelope */
function readAgain({ raw, payload }) {
  try {
    return parseExact(partAt(raw, ['payload']) ?? 'null') ?? payload;
  } catch {
    // Nested too deep, or half a character: then as JavaScript reads it.
    return payload;
  }
}

/**
 * @param {Record<string, unknown>} object
 * @param {string} key which may be `__proto__`, and is then a key like others
 * @param {unknown} value
 */
export function put(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const WORDS = /** @type {const} */ ([['true', true], ['false', false], ['null', null]]);

/**
 * @param {string} source of a JSON string
 * @returns {string | undefined}
 */
function read(source) {
  try {
    return JSON.parse(source);
  } catch {
    return undefined;
  }
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /**
   * @param {string} why
   * @returns {never}
   */
  fail(why) {
    const lines = this.text.slice(0, this.at).split('\n');
    throw new SyntaxError(`line ${lines.length}, column ${(lines[lines.length - 1]?.length ?? 0) + 1}: ${why}`);
  }

  blanks() {
    while (' \t\n\r'.includes(this.text[this.at] ?? 'end')) this.at += 1;
  }

  /** @param {string} sign */
  take(sign) {
    this.blanks();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  /** @param {RegExp} pattern sticky */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  /**
   * @param {number} depth
   * @returns {unknown}
   */
  value(depth) {
    this.blanks();
    if (depth > DEEPEST) this.fail(`nested deeper than ${DEEPEST} levels`);
    const sign = this.text[this.at];
    if (sign === '{') return this.object(depth);
    if (sign === '[') return this.array(depth);
    if (sign === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (!this.text.startsWith(word, this.at)) continue;
      this.at += word.length;
      return value;
    }
    const number = this.match(NUMBER);
    if (number === undefined) this.fail(sign === undefined ? 'the text ends too early' : 'a JSON value was expected');
    return exactNumber(number);
  }

  /** @returns {string} */
  string() {
    const start = this.at;
    let end = start + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === '\\' ? 2 : 1;
    const value = read(this.text.slice(start, end + 1));
    if (value === undefined) this.fail('this text has no end, or a character in it must be escaped');
    if (LONE.test(value)) this.fail('half of a surrogate pair stands alone');
    this.at = end + 1;
    return value;
  }

  /** @param {number} depth */
  array(depth) {
    /** @type {unknown[]} */
    const items = [];
    this.at += 1;
    if (this.take(']')) return items;
    do items.push(this.value(depth + 1)); while (this.take(','));
    if (!this.take(']')) this.fail('`,` or `]` was expected');
    return items;
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Record<string, unknown>} */
    const members = {};
    this.at += 1;
    if (this.take('}')) return members;
    do {
      this.blanks();
      const start = this.at;
      if (this.text[start] !== '"') this.fail('a key in double quotes was expected');
      const key = this.string();
      if (Object.hasOwn(members, key)) {
        this.at = start;
        this.fail(`the key ${JSON.stringify(key)} stands twice`);
      }
      if (!this.take(':')) this.fail('`:` was expected');
      put(members, key, this.value(depth + 1));
    } while (this.take(','));
    if (!this.take('}')) this.fail('`,` or `}` was expected');
    return members;
  }
}

/**
 * @param {unknown} value
 * @returns {number | bigint} NaN for a text that is not a number
 */
export function comparable(value) {
  if (typeof value === 'number') return value;
  if (!(value instanceof Exact)) return NaN;
  return /^-?\d{1,1000}$/.test(value.text) ? BigInt(value.text) : Number(value.text);
}

/**
 * @param {unknown} value
 * @returns {string} the same for values that are equal as JSON
 */
export function canonical(value) {
  if (value instanceof Exact) return String(comparable(value));
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join()}}`;
}

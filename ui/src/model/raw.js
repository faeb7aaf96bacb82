// JSON as text: finds the parts of it without reading their values, so that every digit stays as it was written.
// The text must be valid JSON, which `JSON.parse` or the gateway has found out before.

/** JSON that goes out as it stands. See `stringify`. */
export class RawJson {
  /** @param {string} text valid JSON */
  constructor(text) {
    this.text = text;
  }
}

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof RawJson);

/** Like `JSON.stringify`, with every `RawJson` in its place. @param {any} value @returns {string} */
export function stringify(value) {
  if (value instanceof RawJson) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(stringify).join(',')}]`;
  if (typeof value.toJSON === 'function') return JSON.stringify(value);
  const entries = Object.entries(value).filter(([, each]) => each !== undefined && typeof each !== 'function');
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${stringify(each)}`).join(',')}}`;
}

/** The members of an object, as text; none where it is no object. @param {string} text @returns {Map<string, string>} */
export function members(text) {
  const found = new Map();
  let at = blank(text, 0);
  if (text[at] !== '{') return found;
  at = blank(text, at + 1);
  while (at < text.length && text[at] === '"') {
    const key = end(text, at);
    const from = blank(text, blank(text, key) + 1);
    const to = end(text, from);
    found.set(JSON.parse(text.slice(at, key)), text.slice(from, to));
    at = blank(text, to);
    if (text[at] !== ',') break;
    at = blank(text, at + 1);
  }
  return found;
}

/** The elements of an array, as text; none where it is no array. @param {string} text @returns {string[]} */
export function elements(text) {
  /** @type {string[]} */
  const found = [];
  let at = blank(text, 0);
  if (text[at] !== '[') return found;
  at = blank(text, at + 1);
  while (at < text.length && text[at] !== ']') {
    const to = end(text, at);
    found.push(text.slice(at, to));
    at = blank(text, to);
    if (text[at] !== ',') break;
    at = blank(text, at + 1);
  }
  return found;
}

/** What stands at a path of names within objects, as text. @param {string} text @param {string[]} path */
export function at(text, path) {
  /** @type {string|undefined} */
  let part = text;
  for (const name of path) {
    if (part === undefined) return undefined;
    part = members(part).get(name);
  }
  return part;
}

/** The place after blanks. @param {string} text @param {number} at */
function blank(text, at) {
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return at;
}

/** The place after the value that begins here. @param {string} text @param {number} at */
function end(text, at) {
  const first = text[at];
  if (first === '"') return endOfString(text, at);
  if (first !== '{' && first !== '[') {
    while (at < text.length && !',]} \n\r\t'.includes(text[at])) at += 1;
    return at;
  }
  for (let depth = 0; at < text.length; at += 1) {
    const c = text[at];
    if (c === '"') at = endOfString(text, at) - 1;
    else if (c === '{' || c === '[') depth += 1;
    else if (c === '}' || c === ']') {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return text.length;
}

/** The place after the string that begins here. @param {string} text @param {number} at */
function endOfString(text, at) {
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
  }
  return text.length;
}

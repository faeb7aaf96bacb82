/**
 * Whether a value fits a JSON Schema, said in words for the person who wrote it. Not a complete validator: it finds what people get
 * wrong, and what it does not know it lets pass, because the participant judges in the end.
 * The schema is a stranger's: it can cost a bounded number of steps, and no pattern of its may hang the page.
 */

import { Exact, canonical, comparable } from './exact.js';
import { matches } from './pattern.js';
import { isObject } from './raw.js';
import { flatten, newWork } from './flatten.js';
import { typesOf } from './schema.js';
import { clip, count } from './text.js';

/** @typedef {Map<string, string>} Errors by JSON pointer; the first found counts */

/** @typedef {{steps: {left: number}, work: import('./flatten.js').Work}} Cost what checking may still cost; beyond it everything passes */

const MAX_STEPS = 20_000;
const MAX_DEPTH = 100;
const LONGEST_SHOWN = 200;

/** @returns {Cost} */
export const newCost = () => ({ steps: { left: MAX_STEPS }, work: newWork() });

/**
 * @param {any} schema
 * @param {unknown} value of `parseExact` or a form
 * @param {any} [root] what references point into
 * @param {string} [pointer] where the value stands
 * @param {Cost} [cost] shared with other checks
 * @returns {Errors}
 */
export function validate(schema, value, root = schema, pointer = '', cost = newCost()) {
  /** @type {Errors} */
  const errors = new Map();
  walk({ root, errors, cost, depth: 0 }, schema, value, pointer);
  return errors;
}

/** @typedef {{root: any, errors: Errors, cost: Cost, depth: number}} Walk */

/**
 * @param {Walk} walk_
 * @param {any} schema
 * @param {unknown} value
 * @param {string} pointer
 */
function walk(walk_, schema, value, pointer) {
  const { steps, work } = walk_.cost;
  steps.left -= 1;
  if (steps.left < 0 || walk_.depth > MAX_DEPTH) return;
  const inner = { ...walk_, depth: walk_.depth + 1 };
  if (schema === false) {
    note(walk_.errors, pointer, 'is not allowed here');
    return;
  }
  const flat = flatten(schema, walk_.root, work);
  if (!flat) return;
  for (const word of ['anyOf', 'oneOf']) {
    if (Array.isArray(flat[word]) && flat[word].length > 0) alternatives(inner, flat[word], value, pointer);
  }
  const wrong = problem(flat, value, steps);
  if (wrong) note(walk_.errors, pointer, wrong);
  else if (Array.isArray(value)) items(inner, flat, value, pointer);
  else if (isObject(value) && !(value instanceof Exact)) members(inner, flat, value, pointer);
}

/** @param {Errors} errors @param {string} pointer @param {string} message */
function note(errors, pointer, message) {
  if (!errors.has(pointer)) errors.set(pointer, message);
}

/** @param {Walk} walk_ @param {any[]} schemas @param {unknown} value @param {string} pointer */
function alternatives(walk_, schemas, value, pointer) {
  /** @type {Errors | undefined} */
  let nearest;
  for (const schema of schemas) {
    /** @type {Errors} */
    const errors = new Map();
    walk({ ...walk_, errors }, schema, value, pointer);
    if (errors.size === 0) return;
    if (!nearest || errors.size < nearest.size) nearest = errors;
  }
  if (schemas.length === 1 && nearest) nearest.forEach((message, at) => note(walk_.errors, at, message));
  else note(walk_.errors, pointer, 'fits none of the alternatives');
}

/** @param {Walk} walk_ @param {Record<string, any>} schema @param {unknown[]} value @param {string} pointer */
function items(walk_, schema, value, pointer) {
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : Array.isArray(schema.items) ? schema.items : [];
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  value.forEach((item, index) => {
    const one = index < first.length ? first[index] : rest;
    if (one !== undefined) walk(walk_, one, item, `${pointer}/${index}`);
  });
}

/** @param {Walk} walk_ @param {Record<string, any>} schema @param {Record<string, unknown>} value @param {string} pointer */
function members(walk_, schema, value, pointer) {
  const known = isObject(schema.properties) ? schema.properties : {};
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (typeof name === 'string' && !Object.hasOwn(value, name)) note(walk_.errors, at(pointer, name), 'is required');
  }
  for (const [key, member] of Object.entries(value)) {
    if (Object.hasOwn(known, key)) walk(walk_, known[key], member, at(pointer, key));
    else if (!isObject(schema.patternProperties)) {
      if (schema.additionalProperties === false) note(walk_.errors, at(pointer, key), 'is not known here');
      else if (isObject(schema.additionalProperties)) walk(walk_, schema.additionalProperties, member, at(pointer, key));
    }
  }
}

/**
 * @param {string} pointer
 * @param {string} key
 */
export function at(pointer, key) {
  return `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/**
 * What is wrong with a value itself, not with what is in it.
 * @param {Record<string, any>} schema without references
 * @param {unknown} value
 * @param {{left: number}} [steps] what patterns may cost
 * @returns {string | undefined}
 */
export function problem(schema, value, steps = { left: MAX_STEPS }) {
  const types = typesOf(schema);
  if (types.length > 0 && 'type' in schema && !types.some((type) => hasType(value, type))) return `must be ${article(types)}`;
  if ('const' in schema || Array.isArray(schema.enum) || schema.uniqueItems === true) {
    const text = textOf(value);
    if (!affords(steps, text)) return undefined;
    const wanted = 'const' in schema ? textOf(schema.const) : text;
    if (!affords(steps, wanted)) return undefined;
    if (wanted !== text) return `must be ${clip(wanted, LONGEST_SHOWN)}`;
    if (Array.isArray(schema.enum) && !listed(schema.enum).has(text)) return 'must be one of the values listed';
  }
  if (typeof value === 'string') return affords(steps, value) ? textProblem(schema, value, steps) : undefined;
  if (hasType(value, 'number')) return numberProblem(schema, value);
  if (Array.isArray(value)) return listProblem(schema, value);
  return undefined;
}

/** Long texts cost more to look at than short ones. @param {{left: number}} steps @param {string} text */
function affords(steps, text) {
  steps.left -= text.length >> 8;
  return steps.left >= 0;
}

/** @type {WeakMap<object, string>} */
const texts = new WeakMap();

/** The canonical text of a value that does not change, made once. @param {unknown} value */
function textOf(value) {
  if (typeof value !== 'object' || value === null) return canonical(value);
  const known = texts.get(value) ?? canonical(value);
  texts.set(value, known);
  return known;
}

/** @type {WeakMap<unknown[], Set<string>>} */
const lists = new WeakMap();

/** The canonical texts of a list that does not change. @param {unknown[]} list */
function listed(list) {
  const known = lists.get(list) ?? new Set(list.map(canonical));
  lists.set(list, known);
  return known;
}

const ARTICLES = /** @type {Record<string, string>} */ ({
  string: 'text', number: 'a number', integer: 'a whole number', boolean: 'true or false', object: 'an object', array: 'a list',
  null: 'null',
});

/** @param {string[]} types */
const article = (types) => types.map((type) => ARTICLES[type] ?? type).join(' or ');

/** @param {unknown} value @param {string} type */
function hasType(value, type) {
  switch (type) {
    case 'null': return value === null;
    case 'array': return Array.isArray(value);
    case 'object': return isObject(value) && !(value instanceof Exact);
    case 'number': return typeof value === 'number' || value instanceof Exact;
    case 'integer': return typeof comparable(value) === 'bigint' || Number.isInteger(comparable(value));
    default: return typeof value === type;
  }
}

/** @param {unknown} one @param {unknown} other */
export function same(one, other) {
  return canonical(one) === canonical(other);
}

/** A limit that a schema sets, as a plain number; one that none can break where it sets none. @param {unknown} value @param {number} none */
const limit = (value, none) => (typeof value === 'number' || value instanceof Exact ? Number(value) : none);

/** @param {Record<string, any>} schema @param {string} text @param {{left: number}} steps */
function textProblem(schema, text, steps) {
  const least = limit(schema.minLength, 0);
  const most = limit(schema.maxLength, Infinity);
  const length = least > 0 || most < Infinity ? [...text].length : 0;
  if (least > length) return `needs at least ${count(least, 'character')}`;
  if (most < length) return `may have at most ${count(most, 'character')}, and has ${length}`;
  if (typeof schema.pattern === 'string' && matches(schema.pattern, text, steps) === false) {
    return `must match ${clip(schema.pattern, LONGEST_SHOWN)}`;
  }
  const format = FORMATS.get(schema.format);
  if (format && !format.test(text)) return `must be ${format.name}`;
  return undefined;
}

/** @param {Record<string, any>} schema @param {unknown} value */
function numberProblem(schema, value) {
  const number = comparable(value);
  if (typeof number === 'number' && !Number.isFinite(number)) return undefined;
  if (comparable(schema.minimum) > number) return `must be ${schema.minimum} or more`;
  if (comparable(schema.maximum) < number) return `must be ${schema.maximum} or less`;
  // True and false, which an old draft of the specification has here, are no numbers.
  const { exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  if (comparable(above) >= number) return `must be more than ${above}`;
  if (comparable(below) <= number) return `must be less than ${below}`;
  const unit = comparable(schema.multipleOf);
  if (unit > 0 && !isMultiple(number, unit)) return `must be a multiple of ${schema.multipleOf}`;
  return undefined;
}

/** @param {number | bigint} number @param {number | bigint} unit */
function isMultiple(number, unit) {
  if (typeof number === 'bigint' || typeof unit === 'bigint') {
    const whole = [number, unit].every((one) => typeof one === 'bigint' || Number.isSafeInteger(one));
    return !whole || BigInt(number) % BigInt(unit) === 0n;
  }
  const times = number / unit;
  return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

/** @param {Record<string, any>} schema @param {unknown[]} value */
function listProblem(schema, value) {
  const least = limit(schema.minItems, 0);
  const most = limit(schema.maxItems, Infinity);
  if (least > value.length) return `needs at least ${count(least, 'entry', 'entries')}`;
  if (most < value.length) return `may have at most ${count(most, 'entry', 'entries')}`;
  if (schema.uniqueItems === true && new Set(value.map(canonical)).size < value.length) return 'must not have the same entry twice';
  return undefined;
}

/** By name; a Map, since the name is a stranger's. @type {Map<unknown, {name: string, test: (text: string) => boolean}>} */
const FORMATS = new Map(Object.entries({
  email: { name: 'an e-mail address', test: (text) => text.length <= 320 && /^[^\s@]+@[^\s@]+$/.test(text) },
  uri: { name: 'an address such as https://example.org/', test: (text) => /^[a-z][a-z0-9+.-]*:\S+$/i.test(text) },
  url: { name: 'an address such as https://example.org/', test: (text) => URL.canParse(text) },
  date: { name: 'a date such as 2026-01-31', test: isDate },
  time: { name: 'a time such as 13:45:00Z', test: isTime },
  'date-time': {
    name: 'a date and time such as 2026-01-31T13:45:00Z',
    test: (text) => /^.{10}[tT ]/.test(text) && isDate(text.slice(0, 10)) && isTime(text.slice(11)),
  },
  uuid: { name: 'a UUID', test: (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) },
  ipv4: {
    name: 'an IPv4 address',
    test: (text) => /^(\d{1,3}\.){3}\d{1,3}$/.test(text) && text.split('.').every((part) => Number(part) < 256),
  },
}));

/** @param {string} text */
function isDate(text) {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** @param {string} text */
function isTime(text) {
  return /^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)$/.test(text);
}

// The value that a draft makes, with what is wrong with it; and drafts from JSON that a person wrote. Pure.

import { Exact, exactNumber, parseExact, put } from './exact.js';
import { isObject } from './raw.js';
import { ABSENT, NONE, NULL, draftOf, namePointer } from './draft.js';
import { at, newCost, problem, same, validate } from './validate.js';

/** @typedef {import('./draft.js').Draft} Draft */
/** @typedef {import('./schema.js').Shape} Shape */
/** @typedef {import('./validate.js').Errors} Errors */
/** @typedef {import('./validate.js').Cost} Cost */

/**
 * @param {Shape} shape
 * @param {Draft} draft
 * @returns {{value: unknown, errors: Errors}} `ABSENT` where nothing was filled in
 */
export function collect(shape, draft) {
  /** @type {Errors} */
  const errors = new Map();
  return { value: take(shape, draft, '', { errors, cost: newCost() }), errors };
}

/** @typedef {{errors: Errors, cost: Cost}} Taking */

/** @param {Shape} shape @param {Draft} draft @param {string} pointer @param {Taking} taking @returns {unknown} */
function take(shape, draft, pointer, taking) {
  const { errors, cost } = taking;
  const value = draft.json ? readJson(draft.text, pointer, errors) : read(shape, draft, pointer, taking);
  if (errors.has(pointer)) return value;
  if (value === ABSENT) {
    if (shape.required && shape.nullable) return null;
    if (shape.required) errors.set(pointer, shape.kind === 'choice' || shape.kind === 'union' ? 'choose one' : 'is required');
    return ABSENT;
  }
  if (value === null && shape.nullable) return null;
  if (shape.kind === 'json' || draft.json) {
    validate(shape.schema, value, shape.root, pointer, cost).forEach((message, place) => errors.set(place, message));
  } else if (shape.kind !== 'union' && shape.kind !== 'choice') {
    const wrong = problem(shape.schema, value, cost.steps);
    if (wrong) errors.set(pointer, wrong);
  }
  return value;
}

/** @param {Shape} shape @param {Draft} draft @param {string} pointer @param {Taking} taking @returns {unknown} */
function read(shape, draft, pointer, taking) {
  const { errors } = taking;
  switch (shape.kind) {
    case 'text': return draft.text !== '' || mayBeEmpty(shape) ? draft.text : ABSENT;
    case 'number': return readNumber(draft.text.trim(), pointer, errors);
    case 'json': return readJson(draft.text, pointer, errors);
    case 'null': return null;
    case 'boolean': return draft.index === NULL ? null : draft.index === NONE ? ABSENT : draft.index === 1;
    case 'choice': return draft.index === NULL ? null : shape.options[draft.index]?.value ?? (draft.index in shape.options ? null : ABSENT);
    case 'several': {
      const picked = shape.options.filter((_, index) => draft.picked[index]).map((option) => option.value);
      return picked.length > 0 || shape.required ? picked : ABSENT;
    }
    case 'list': {
      const items = draft.parts.map((part, index) => take(shape.item(), part, `${pointer}/${index}`, taking));
      return items.length > 0 || (shape.required && !shape.nullable) ? items : ABSENT;
    }
    case 'union': return readUnion(shape, draft, pointer, taking);
    case 'object': return readObject(shape, draft, pointer, taking);
    default: return ABSENT;
  }
}

/** An empty text is no text, unless the schema itself offers it. @param {Shape} shape */
function mayBeEmpty({ schema }) {
  return schema.default === '';
}

/** @param {string} text @param {string} pointer @param {Errors} errors */
function readNumber(text, pointer, errors) {
  if (text === '') return ABSENT;
  if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return exactNumber(text);
  errors.set(pointer, 'must be a number, such as 12 or -0.5');
  return text;
}

/** @param {string} text @param {string} pointer @param {Errors} errors */
function readJson(text, pointer, errors) {
  if (text.trim() === '') return ABSENT;
  try {
    return parseExact(text);
  } catch (error) {
    errors.set(pointer, `is not JSON: ${error instanceof Error ? error.message : error}`);
    return text;
  }
}

/** @param {Shape} shape @param {Draft} draft @param {string} pointer @param {Taking} taking */
function readUnion(shape, draft, pointer, taking) {
  if (draft.index === NULL) return null;
  const variant = shape.variants()[draft.index];
  const part = draft.parts[0];
  return variant && part ? take(variant.shape, part, pointer, taking) : ABSENT;
}

/** @param {Shape} shape @param {Draft} draft @param {string} pointer @param {Taking} taking */
function readObject(shape, draft, pointer, taking) {
  if (!draft.on) return ABSENT;
  /** @type {Record<string, unknown>} */
  const object = {};
  shape.members().forEach(({ key, shape: member }, index) => {
    const part = draft.parts[index];
    const value = part ? take(member, part, at(pointer, key), taking) : ABSENT;
    if (value !== ABSENT) put(object, key, value);
  });
  draft.extra.forEach(([key, value]) => put(object, key, value));
  readNamed(shape, draft, pointer, taking).forEach(([key, value]) => put(object, key, value));
  return object;
}

/** The members that the person has named. @param {Shape} shape @param {Draft} draft @param {string} pointer @param {Taking} taking @returns {[string, unknown][]} */
function readNamed(shape, draft, pointer, taking) {
  const members = shape.members();
  const more = shape.more?.();
  const taken = new Set(members.map(({ key }) => key));
  if (!more) return [];
  return draft.names.flatMap((name, place) => {
    if (name === '') taking.errors.set(namePointer(pointer, place), 'needs a name');
    else if (taken.has(name)) taking.errors.set(namePointer(pointer, place), 'is there already');
    taken.add(name);
    const part = draft.parts[members.length + place];
    const value = part ? take(more, part, at(pointer, name), taking) : ABSENT;
    return value === ABSENT ? [] : [/** @type {[string, unknown]} */ ([name, value])];
  });
}

/**
 * What was written as JSON, in the form's fields.
 * @param {Shape} shape
 * @param {string} text
 * @returns {Draft} that makes the same value, or one with more in it that the person then sees
 * @throws {Error} where the text is not JSON, or has values that the fields cannot show
 */
export function draftFromText(shape, text) {
  const value = text.trim() === '' ? {} : parseExact(text);
  const draft = draftOf(withoutDefaults(shape), value);
  if (!isKept(value, collect(shape, draft).value)) throw new Error('what is written here does not fit into the fields');
  return draft;
}

/**
 * @param {unknown} value
 * @param {unknown} made
 * @returns {boolean} whether all that is in one is also in the other
 */
function isKept(value, made) {
  if (!isObject(value) || !isObject(made) || value instanceof Exact || made instanceof Exact) return same(value, made);
  return Object.entries(value).every(([key, member]) => Object.hasOwn(made, key) && isKept(member, made[key]));
}

/** Defaults are for beginning with; a text that leaves something out means it. @param {Shape} shape @returns {Shape} */
function withoutDefaults(shape) {
  const { default: _, ...schema } = shape.schema;
  return {
    ...shape, schema,
    members: () => shape.members().map(({ key, shape: member }) => ({ key, shape: withoutDefaults(member) })),
    more: shape.more && (() => withoutDefaults(/** @type {() => Shape} */ (shape.more)())),
    item: () => withoutDefaults(shape.item()),
    variants: () => shape.variants().map((variant) => ({ ...variant, shape: withoutDefaults(variant.shape) })),
  };
}

/**
 * Looks at what was written as JSON without changing a character of it.
 * @param {any} schema
 * @param {string} text
 * @returns {{value: Exact | undefined, errors: Errors}}
 */
export function readText(schema, text) {
  /** @type {Errors} */
  let errors = new Map();
  try {
    const value = parseExact(text);
    if (!isObject(value)) errors.set('', 'must be an object: { … }');
    else errors = validate(schema, value);
    return { value: errors.size === 0 ? new Exact(text) : undefined, errors };
  } catch (error) {
    errors.set('', error instanceof Error ? error.message : String(error));
    return { value: undefined, errors };
  }
}

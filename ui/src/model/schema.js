/**
 * What a form for a JSON Schema looks like: a tree of shapes, one for each field. The schema comes from a stranger, so
 * whatever is not understood (remote references, tuples, endless nesting) becomes a field for JSON, never an error.
 * Pure: no DOM. What fields hold is in draft.js, whether a value fits in validate.js.
 */

import { stringifyExact } from './exact.js';
import { MAX_PARTS, flatten, merge, newWork } from './flatten.js';
import { isJudged } from './pattern.js';
import { isObject } from './raw.js';
import { clip } from './text.js';

/** @typedef {{label: string, value: unknown, description?: string}} Option */
/** @typedef {{key: string, shape: Shape}} Member */
/** @typedef {{label: string, shape: Shape}} Variant */

/**
 * One field.
 * @typedef {object} Shape
 * @property {'text'|'number'|'boolean'|'choice'|'several'|'object'|'list'|'union'|'null'|'json'} kind
 * @property {any} schema without references
 * @property {any} root where its references point into
 * @property {string} title
 * @property {string} description
 * @property {boolean} required
 * @property {boolean} nullable
 * @property {boolean} integer for `number`
 * @property {Option[]} options for `choice` and `several`
 * @property {() => Member[]} members for `object`; made when needed, since schemas may contain themselves
 * @property {(() => Shape) | null} more for `object`: what members are that the schema does not name; null where it allows none, or does not say
 * @property {() => Shape} item for `list`
 * @property {() => Variant[]} variants for `union`
 * @property {number} depth
 * @property {Work} work what reading the whole schema may still cost
 */
/** @typedef {import('./flatten.js').Work} Work */

/** Deeper than this a form helps nobody. */
const DEEPEST = 10;
/** Words of a stranger's, which a reference can bring to many places. */
const LONGEST_TITLE = 200;
const LONGEST_DESCRIPTION = 2000;
const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];
const TYPE_NAMES = /** @type {Record<string, string>} */ ({
  string: 'text', number: 'number', integer: 'whole number', boolean: 'yes or no', object: 'object', array: 'list', null: 'null',
});

const NUMBER_WORDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
/** What says something about members that are not named. */
const OPEN_WORDS = ['additionalProperties', 'patternProperties', 'propertyNames', 'unevaluatedProperties', 'minProperties', '$ref', 'allOf',
  'anyOf', 'oneOf'];

/**
 * @param {Record<string, any>} schema
 * @returns {string[]} the types a value may have; empty where the schema does not say
 */
export function typesOf(schema) {
  const named = Array.isArray(schema.type) ? schema.type : [schema.type];
  const types = [...new Set(named)].filter((type) => TYPES.includes(type));
  if (types.length > 0) return types;
  if (isObject(schema.properties)) return ['object'];
  if (isObject(schema.items)) return ['array'];
  if (['minLength', 'maxLength', 'pattern', 'format'].some((word) => word in schema)) return ['string'];
  if (NUMBER_WORDS.some((word) => word in schema)) return ['number'];
  return [];
}

/**
 * The values to choose from, where a schema lists them: `enum` (with `enumNames`), `const`, or alternatives that each are a `const`.
 * @param {Record<string, any>} schema
 * @param {any} root
 * @param {Work} work
 * @returns {Option[] | undefined}
 */
function optionsOf(schema, root, work) {
  if ('const' in schema) return [option(schema.const)];
  if (Array.isArray(schema.enum) && schema.enum.length > 0) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return isLong(schema.enum) ? undefined : schema.enum.map((value, index) => option(value, names[index]));
  }
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (!Array.isArray(alternatives) || alternatives.length === 0 || isLong(alternatives)) return undefined;
  const flat = alternatives.map((one) => flatten(one, root, work));
  if (!flat.every((one) => one && 'const' in one)) return undefined;
  return flat.map((one) => option(one?.const, one?.title, one?.description));
}

/** @param {unknown} list @returns {list is unknown[]} too much of something for a form */
export const isLong = (list) => Array.isArray(list) && list.length > MAX_PARTS;

/**
 * @param {unknown} value
 * @param {unknown} [title]
 * @param {unknown} [description]
 * @returns {Option}
 */
function option(value, title, description) {
  const label = typeof title === 'string' && title ? title : typeof value === 'string' ? value : stringifyExact(value);
  return { label: clip(label, LONGEST_TITLE), value, description: clip(words(description), LONGEST_DESCRIPTION) };
}

/** @param {unknown} value */
const words = (value) => (typeof value === 'string' ? value : '');

/**
 * @param {any} schema
 * @param {{root?: any, key?: string, required?: boolean, depth?: number, work?: Work}} [place] where it stands
 * @returns {Shape}
 */
export function shapeOf(schema, { root = schema, key = '', required = true, depth = 0, work = newWork() } = {}) {
  const flat = depth > DEEPEST ? undefined : flatten(schema, root, work);
  const of = flat ?? (isObject(schema) ? schema : {});
  // A title that a reference brought along is the same in many places: the name says more.
  const title = words(isObject(schema) && schema.title) || key || words(of.title);
  /** @type {Shape} */
  const shape = {
    kind: 'json', schema: of, root, required, title: clip(title, LONGEST_TITLE), description: clip(words(of.description), LONGEST_DESCRIPTION),
    nullable: false, integer: false, options: [], members: () => [], more: null, item: () => shape, variants: () => [], depth, work,
  };
  if (flat) settle(shape, flat);
  return shape;
}

/**
 * Finds out which kind of field a schema wants.
 * @param {Shape} shape
 * @param {Record<string, any>} schema
 */
function settle(shape, schema) {
  const options = optionsOf(schema, shape.root, shape.work);
  if (options) {
    shape.kind = 'choice';
    shape.options = options;
    return;
  }
  if (isLong(schema.enum)) {
    // Texts can still be typed as they are.
    if (schema.enum.every((one) => typeof one === 'string')) shape.kind = 'text';
    return;
  }
  const alternatives = Array.isArray(schema.anyOf) ? schema.anyOf : schema.oneOf;
  if (isLong(alternatives)) return;
  const types = typesOf(schema);
  if (Array.isArray(alternatives) && alternatives.length > 0 && !isObject(schema.properties)) {
    settleAlternatives(shape, schema, alternatives);
    return;
  }
  const solid = types.filter((type) => type !== 'null');
  shape.nullable = solid.length < types.length && solid.length > 0;
  if (solid.length > 1 && !(solid.length === 2 && solid.includes('number') && solid.includes('integer'))) {
    const one = (/** @type {string} */ type) => ({ label: TYPE_NAMES[type] ?? type, schema: { ...schema, type, title: undefined } });
    settleVariants(shape, solid.map(one));
    return;
  }
  settleType(shape, schema, solid.includes('number') ? 'number' : solid[0] ?? types[0]);
}

/**
 * `anyOf` and `oneOf`: with one alternative beside null it is that one, which may be left empty.
 * @param {Shape} shape
 * @param {Record<string, any>} schema
 * @param {any[]} alternatives
 */
function settleAlternatives(shape, schema, alternatives) {
  const { anyOf: _any, oneOf: _one, ...base } = schema;
  const { root, work } = shape;
  const flat = alternatives.map((one) => flatten(one, root, work));
  const solid = flat.filter((one) => !(one && one.type === 'null'));
  const nullable = solid.length < flat.length;
  if (solid.length === 0) {
    shape.kind = 'null';
  } else if (solid.length === 1 && solid[0]) {
    const merged = merge(solid[0], base, work);
    shape.schema = merged ?? schema;
    if (merged && (shape.depth += 1) <= DEEPEST) settle(shape, merged);
    shape.description ||= clip(words(shape.schema.description), LONGEST_DESCRIPTION);
  } else {
    settleVariants(shape, solid.map((one, index) => ({
      label: clip(words(one?.title), LONGEST_TITLE) || TYPE_NAMES[typesOf(one ?? {})[0] ?? ''] || `alternative ${index + 1}`,
      schema: one && merge(base, { ...one, title: undefined, description: one.description }, work),
    })));
  }
  shape.nullable ||= nullable;
}

/**
 * @param {Shape} shape
 * @param {{label: string, schema: any}[]} variants
 */
function settleVariants(shape, variants) {
  shape.kind = 'union';
  shape.variants = once(() => distinct(variants).map(({ label, schema }) => ({
    label, shape: shapeOf(schema, { root: shape.root, key: label, required: true, depth: shape.depth + 1, work: shape.work }),
  })));
}

/**
 * @param {{label: string, schema: any}[]} variants
 * @returns {{label: string, schema: any}[]} with numbers where two have the same name
 */
function distinct(variants) {
  const seen = new Set();
  return variants.map(({ label, schema }, index) => {
    const name = seen.has(label) ? `${label} (${index + 1})` : label;
    seen.add(label);
    return { label: name, schema };
  });
}

/**
 * @param {Shape} shape
 * @param {Record<string, any>} schema
 * @param {string | undefined} type
 */
function settleType(shape, schema, type) {
  const { root, depth, work } = shape;
  if (type === 'string') settleText(shape, schema);
  if (type === 'boolean' || type === 'null') shape.kind = type;
  if (type === 'number' || type === 'integer') {
    shape.kind = 'number';
    shape.integer = type === 'integer';
  }
  const more = type === 'object' ? moreOf(schema) : undefined;
  const named = isObject(schema.properties) ? schema.properties : more && {};
  if (type === 'object' && named && Object.keys(named).length <= MAX_PARTS) {
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    shape.kind = 'object';
    if (more) shape.more = once(() => shapeOf(more, { root, required: true, depth: depth + 1, work }));
    shape.members = once(() => Object.entries(named).map(([key, member]) => (
      { key, shape: shapeOf(member, { root, key, required: required.has(key), depth: depth + 1, work }) })));
  }
  if (type === 'array' && isObject(schema.items) && !Array.isArray(schema.prefixItems)) {
    const items = flatten(schema.items, root, work);
    const options = items && optionsOf(items, root, work);
    shape.kind = options ? 'several' : items && isLong(items.enum) ? 'json' : 'list';
    shape.options = options ?? [];
    shape.item = once(() => shapeOf(schema.items, { root, required: true, depth: depth + 1, work }));
  }
}

/** A value of any type, the ones that need no JSON first. */
const ANY_VALUE = { type: ['string', 'number', 'boolean', 'object', 'array', 'null'] };

/**
 * @param {Record<string, any>} schema of an object
 * @returns {any} the schema of members that it does not name; undefined where there are none, or their names are restricted too
 */
function moreOf({ additionalProperties: more, patternProperties, propertyNames }) {
  if (patternProperties !== undefined || propertyNames !== undefined) return undefined;
  if (more === true) return ANY_VALUE;
  return isObject(more) ? more : undefined;
}

/**
 * @param {Shape} shape
 * @param {Record<string, any>} schema
 */
function settleText(shape, schema) {
  shape.kind = 'text';
  if (typeof schema.pattern !== 'string' || isJudged(schema.pattern)) return;
  shape.description = `${shape.description} It must match ${clip(schema.pattern, LONGEST_TITLE)}, which is not checked here.`.trim();
}

/**
 * @template T
 * @param {() => T} make
 * @returns {() => T}
 */
function once(make) {
  /** @type {{value: T} | undefined} */
  let made;
  return () => (made ??= { value: make() }).value;
}

/**
 * What a tool's arguments look like. A tool without properties takes none.
 * @param {any} schema of a tool, a prompt or a question
 * @returns {Shape}
 */
export function formOf(schema) {
  const shape = shapeOf(isObject(schema) ? schema : { type: 'object' });
  const plain = isObject(shape.schema) && typesOf(shape.schema).every((type) => type === 'object');
  if (shape.kind === 'json' && plain && !isOpen(shape.schema)) shape.kind = 'object';
  return shape;
}

/**
 * @param {Record<string, any>} schema
 * @returns {boolean} whether it says something about members that it does not name
 */
function isOpen(schema) {
  return OPEN_WORDS.some((word) => word in schema && schema[word] !== false);
}

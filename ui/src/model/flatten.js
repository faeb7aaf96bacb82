// One schema out of those that it refers to: follows `$ref` and folds `allOf`, at a bounded cost. Pure.

import { isObject } from './raw.js';

/** @typedef {{left: number}} Work shared by all that is done for one form or one check; below zero nothing more is done */

const MAX_HOPS = 16;
/** What following references and folding `allOf` may cost. */
const MAX_WORK = 100_000;
/** More members, options, alternatives or entries than this are no form any more: the field is one for JSON. */
export const MAX_PARTS = 200;

/** @returns {Work} */
export const newWork = () => ({ left: MAX_WORK });

/**
 * @param {any} root the schema that the reference stands in
 * @param {string} ref
 * @returns {any} undefined where it points outside the schema, or at nothing
 */
function lookUp(root, ref) {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  let at = root;
  for (const part of ref.slice(2).split('/')) {
    const key = unescapePart(part);
    if (key === undefined || typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

/** @param {string} part */
function unescapePart(part) {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return undefined;
  }
}

/**
 * Follows `$ref` and folds `allOf` into one schema.
 * @param {any} schema
 * @param {any} root
 * @param {Work} work
 * @param {number} [hops]
 * @returns {Record<string, any> | undefined} undefined where that cannot be done, or costs too much
 */
export function flatten(schema, root, work, hops = 0) {
  work.left -= 1;
  if (schema === true) return {};
  if (!isObject(schema) || hops > MAX_HOPS || work.left < 0) return undefined;
  if (typeof schema.$ref === 'string') {
    const { $ref, ...beside } = schema;
    work.left -= $ref.length;
    const target = work.left < 0 ? undefined : flatten(lookUp(root, $ref), root, work, hops + 1);
    const both = target && merge(target, beside, work);
    return both && flatten(both, root, work, hops + 1);
  }
  if (!Array.isArray(schema.allOf)) return schema;
  const { allOf, ...rest } = schema;
  if (allOf.length > MAX_PARTS) return undefined;
  /** @type {Record<string, any> | undefined} */
  let whole = {};
  for (const part of allOf) {
    const flat = flatten(part, root, work, hops + 1);
    whole = flat && merge(whole, flat, work);
    if (!whole) return undefined;
  }
  return merge(whole, rest, work);
}

/**
 * @param {Record<string, any>} one
 * @param {Record<string, any>} other what it says last counts
 * @param {Work} work
 * @returns {Record<string, any> | undefined} undefined where it costs too much
 */
export function merge(one, other, work) {
  work.left -= sizeOf(one) + sizeOf(other);
  if (work.left < 0) return undefined;
  const both = { ...one, ...other };
  if (isObject(one.properties) && isObject(other.properties)) both.properties = { ...one.properties, ...other.properties };
  if (Array.isArray(one.required) && Array.isArray(other.required)) both.required = [...one.required, ...other.required];
  return both;
}

/** What merging it costs. @param {Record<string, any>} schema */
function sizeOf({ properties, required, ...rest }) {
  return 1 + Object.keys(rest).length + (isObject(properties) ? Object.keys(properties).length : 0) + (Array.isArray(required) ? required.length : 0);
}

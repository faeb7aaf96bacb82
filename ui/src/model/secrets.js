// Which of the values in a form are secrets. A room has no private answers: every envelope is delivered to everybody who may enter. Pure.

import { isObject } from './raw.js';

/** @typedef {import('./schema.js').Shape} Shape */

/** How deep objects are looked into. */
const MAX_DEPTH = 4;
const SECRET = /(?:^|_)(?:password|passwd|passphrase|passcode|secret|api_?key|private_?key|secret_?key|access_token|credentials?)$/;

/** @param {string} key @param {any} schema */
function isSecret(key, schema) {
  if (schema?.format === 'password' || schema?.writeOnly === true) return true;
  return SECRET.test(key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').replace(/[^A-Za-z0-9]+/g, '_').toLowerCase());
}

/**
 * The titles of the secrets that a value has.
 * @param {Shape} shape @param {unknown} value @param {number} [depth]
 * @returns {string[]}
 */
export function secretsIn(shape, value, depth = 0) {
  if (shape.kind !== 'object' || !isObject(value) || depth > MAX_DEPTH) return [];
  return shape.members().flatMap(({ key, shape: member }) => {
    const given = value[key];
    if (given === undefined || given === null || given === '') return [];
    return isSecret(key, member.schema) ? [member.title || key] : secretsIn(member, given, depth + 1);
  });
}

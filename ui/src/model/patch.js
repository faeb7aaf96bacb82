// The difference of two JSON objects as a merge patch (RFC 7396). Pure.

import { isObject } from './raw.js';

/**
 * @param {Record<string, any>} before @param {Record<string, any>} now undefined members are removed
 * @returns {Record<string, any>} what changes `before` into `now`; empty where they are alike
 */
export function mergePatch(before, now) {
  /** @type {Record<string, any>} */
  const patch = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(now)])) {
    const [old, value] = [before[key], now[key]];
    if (JSON.stringify(old) === JSON.stringify(value)) continue;
    if (value === undefined) patch[key] = null;
    else patch[key] = isObject(old) && isObject(value) ? mergePatch(old, value) : value;
  }
  return patch;
}

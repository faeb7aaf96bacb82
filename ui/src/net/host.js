// Calls of the gateway's own tools, by which a room is controlled.

import { GATEWAY } from '../model/envelope.js';

/**
 * Calls a tool of the gateway's. What it refuses is thrown, in its words.
 * @param {import('./peer.js').Peer} peer @param {string} tool @param {object} [args]
 * @returns {Promise<any>} its structured result
 */
export async function callHost(peer, tool, args = {}) {
  const result = await peer.request(GATEWAY, 'tools/call', { name: tool, arguments: args });
  if (result?.isError === true) {
    const text = Array.isArray(result.content) ? result.content.map((/** @type {any} */ block) => block?.text ?? '').join(' ') : '';
    throw new Error(text || `The gateway refuses ${tool}.`);
  }
  return result?.structuredContent ?? {};
}

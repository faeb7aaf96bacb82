// Where a link leads, for readers who see only its text. Pure.

import { clean } from './names.js';

/** @typedef {import('./inline.js').Inline} Inline */

/** What reads as an address, or as the name of a host. */
const ADDRESS = /:\/\/|[\p{L}\p{N}_-]\.\p{L}{2,}/u;

/**
 * The host that a link leads to, where its text lets one think of another; empty where the text is true, or only words.
 * @param {string} text @param {string} href
 */
export function hiddenHost(text, href) {
  const to = parsed(href);
  if (!to) return '';
  const host = to.protocol === 'mailto:' ? to.pathname : to.host;
  // A name before the host reads like one, and letters of other alphabets like ours.
  if (to.username || to.password || /(?:^|\.)xn--/.test(to.hostname)) return host;
  const plain = clean(text);
  if (!ADDRESS.test(plain)) return '';
  if (to.protocol === 'mailto:') return plain.replace(/^mailto:/i, '') === host ? '' : host;
  const said = parsed(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`);
  return said?.host === host && !said.username ? '' : host;
}

/** @param {string} address */
function parsed(address) {
  try {
    return new URL(address);
  } catch {
    return null;
  }
}

/** What a reader sees of a link. @param {Inline[]} nodes @returns {string} */
export function textOf(nodes) {
  return nodes.map((node) => {
    if (node.type === 'text' || node.type === 'code') return node.text;
    if (node.type === 'mention') return `@${node.id}`;
    return 'children' in node ? textOf(node.children) : ' ';
  }).join('');
}

// Files that a chat message links to. Pure.

/** @typedef {{id: string, name: string, type: string, size?: number, isPicture: boolean}} LinkedFile */

/** What browsers show without running anything. Not SVG, which has scripts. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
/** How many are shown of one message. */
const MAX_FILES = 16;

/** The files of the room that a message links to. @param {import('./types.js').Envelope} envelope @returns {LinkedFile[]} */
export function filesOf(envelope) {
  const content = (envelope.edited ?? envelope).payload?.params?.content;
  if (!Array.isArray(content) || envelope.retracted || envelope.redacted) return [];
  return content.slice(0, MAX_FILES).flatMap((block) => {
    const [, id] = /^salon-file:\/\/([0-9A-Za-z-]{1,64})$/.exec(typeof block?.uri === 'string' ? block.uri : '') ?? [];
    if (block?.type !== 'resource_link' || id === undefined) return [];
    const type = typeof block.mimeType === 'string' ? block.mimeType : '';
    return [{
      id, type, name: typeof block.name === 'string' && block.name !== '' ? block.name : 'file', isPicture: PICTURES.includes(type),
      ...(typeof block.size === 'number' ? { size: block.size } : {}),
    }];
  });
}

/** The block that links to a file. @param {import('../net/upload.js').Uploaded} file */
export function linkTo({ uri, name, mime_type: mimeType, size }) {
  return { type: 'resource_link', uri, name, mimeType, size };
}

/** `812 bytes`, `3.4 kB`, `12 MB`. @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  const [unit, scale] = bytes < 1e6 ? ['kB', 1e3] : bytes < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  return `${(bytes / scale).toFixed(bytes / scale < 10 ? 1 : 0)} ${unit}`;
}

// Puts a file into a room, and says how far it is. `fetch` does not tell that of what it sends.

import { HttpProblem } from './session.js';

/** A file in a room, as a message names it. @typedef {{uri: string, name: string, mime_type: string, size: number}} Uploaded */

/**
 * @param {string} topic @param {File} file @param {{onProgress: (part: number) => void, signal: AbortSignal}} how part: from 0 to 1
 * @returns {Promise<Uploaded>}
 */
export function upload(topic, file, { onProgress, signal }) {
  const request = new XMLHttpRequest();
  return new Promise((resolve, reject) => {
    request.open('POST', `v0/topics/${encodeURIComponent(topic)}/files?${new URLSearchParams({ name: file.name || 'file' })}`);
    request.setRequestHeader('content-type', file.type || 'application/octet-stream');
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
    request.onload = () => {
      const told = parsed(request.responseText);
      if (request.status === 201 && typeof told?.uri === 'string') resolve(told);
      else reject(new HttpProblem(request.status, String(told?.code ?? 'unknown'), String(told?.error ?? `The gateway answered with ${request.status}.`)));
    };
    request.onerror = () => reject(new HttpProblem(0, 'unreachable', 'The gateway cannot be reached.'));
    request.onabort = () => reject(signal.reason);
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

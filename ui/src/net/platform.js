// What a connection needs of the browser.

/**
 * Handed over, so that tests can be it.
 * @typedef {object} Platform
 * @property {(url: string) => WebSocket} socket
 * @property {() => number} now
 * @property {() => number} random from 0 to 1
 * @property {(fn: () => void, ms: number) => any} later
 * @property {(timer: any) => void} never
 */

/** @returns {Platform} */
export function browser() {
  return {
    socket: (path) => new WebSocket(new URL(path, document.baseURI.replace(/^http/, 'ws'))),
    now: () => Date.now(),
    random: () => Math.random(),
    later: (fn, ms) => setTimeout(fn, ms),
    never: (timer) => clearTimeout(timer),
  };
}

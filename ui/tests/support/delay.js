// A way to the gateway that takes time: everything, WebSockets included, arrives half a round trip later, and a connection needs a round trip to be made.
// The browser's own emulation delays requests over HTTP only.

import { createServer, connect } from 'node:net';

/**
 * @param {number} port of the gateway @param {number} roundTrip in milliseconds
 * @returns {Promise<{url: string, close: () => Promise<void>}>}
 */
export async function delayed(port, roundTrip) {
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.setNoDelay(true);
    far.setNoDelay(true);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => { sockets.delete(socket); });
    }
    const made = Date.now() + roundTrip;
    const carry = (/** @type {import('node:net').Socket} */ from, /** @type {import('node:net').Socket} */ to) => {
      let last = Promise.resolve();
      const later = (/** @type {() => void} */ act) => {
        const due = Math.max(made, Date.now()) + roundTrip / 2;
        last = last.then(() => new Promise((resolve) => setTimeout(resolve, due - Date.now()))).then(act);
      };
      from.on('data', (bytes) => later(() => to.write(bytes)));
      from.on('close', () => later(() => to.destroy()));
    };
    carry(near, far);
    carry(far, near);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

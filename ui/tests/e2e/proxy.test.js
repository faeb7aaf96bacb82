import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { after, before, test } from 'node:test';
import { launch, Visitor } from '../support/browser.js';
import { Gateway } from '../support/gateway.js';

const BELOW = '/salon';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** A proxy that has the gateway below a path, takes that path away, and has other things elsewhere. @param {() => number} port */
async function proxy(port) {
  /** @type {string[]} */
  const strays = [];
  const inner = (/** @type {import('node:http').IncomingMessage} */ asked) => {
    const { method, headers, url = '' } = asked;
    if (!url.startsWith(`${BELOW}/`)) {
      strays.push(url);
      return null;
    }
    return request({ host: '127.0.0.1', port: port(), method, headers, path: url.slice(BELOW.length) });
  };
  const server = createServer((asked, answer) => {
    const onward = inner(asked);
    if (!onward) {
      answer.writeHead(404).end();
      return;
    }
    onward.on('response', (got) => {
      answer.writeHead(got.statusCode ?? 502, got.headers);
      got.pipe(answer);
    }).on('error', () => answer.destroy());
    asked.pipe(onward);
  });
  server.on('upgrade', (asked, socket, begun) => {
    const onward = inner(asked);
    if (!onward) {
      socket.destroy();
      return;
    }
    onward.on('upgrade', (got, other, first) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${Object.entries(got.headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
      for (const each of [socket, other]) each.on('error', () => each.destroy());
      // What came in one piece with the head is no part of the sockets any more.
      socket.write(first);
      other.write(begun);
      socket.pipe(other).pipe(socket);
    }).on('response', () => socket.destroy()).on('error', () => socket.destroy()).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port: own } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { strays, url: `http://127.0.0.1:${own}${BELOW}`, close: () => { server.closeAllConnections(); server.close(); } };
}

test('the page works below a path that a proxy takes away', async (t) => {
  const behind = { port: 0 };
  const front = await proxy(() => behind.port);
  t.after(front.close);
  const gateway = await Gateway.start({ args: ['--http-public-url', front.url], user: 'alice' });
  behind.port = gateway.port;
  t.after(() => gateway.stop());
  assert.ok(gateway.link?.startsWith(`${front.url}/#code=`), gateway.link ?? 'no link');
  // Whoever looks at what was asked for looks at the proxy.
  const alice = await Visitor.come(browser, /** @type {any} */ ({ url: front.url, written: gateway.written }));
  t.after(() => alice.context.close().catch(() => {}));
  await alice.page.goto(gateway.link);
  await alice.page.getByRole('heading', { name: 'Rooms' }).waitFor();
  const [cookie] = await alice.context.cookies(`${front.url}/`);
  assert.equal(cookie.path, BELOW);
  await alice.enter('room:a');
  await alice.say('hello from below');
  await alice.page.locator('article.chat').filter({ hasText: 'hello from below' }).waitFor();
  await alice.page.reload();
  await alice.live();
  await alice.page.locator('article.chat').filter({ hasText: 'hello from below' }).waitFor();
  assert.ok(alice.page.url().startsWith(`${front.url}/#/room/`));
  assert.deepEqual(front.strays.filter((url) => url !== '/favicon.ico'), [], 'nothing was asked for beside it');
  await alice.leave();
});

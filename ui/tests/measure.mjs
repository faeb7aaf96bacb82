// Measures the page in a real browser, and prints the tables of docs/how-to/web.md: frames a second while envelopes come, and the time to the first
// message at several round trips. Nothing is asserted: times depend on the machine.
//
//   SALON_BIN=… node ui/tests/measure.mjs [frames|first]
//
// Run it on a machine that does nothing else, with a release build for what users get (`cargo build --release`).

import { cpus } from 'node:os';
import { launch, Visitor } from './support/browser.js';
import { chat, Gateway } from './support/gateway.js';
import { stage } from './support/stage.js';

/** How long frames are counted, in milliseconds. */
const COUNTED = 8000;
const RATES = [20, 200];
const ROUND_TRIPS = [0, 100, 300];
const only = process.argv[2];

const browser = await launch();
const gateway = await Gateway.start();
try {
  console.log(`${cpus().length} × ${cpus()[0].model.trim()}, Chromium ${browser.version()}`);
  if (only !== 'first') await frames();
  if (only !== 'frames') await firstMessage();
} finally {
  await browser.close();
  await gateway.stop();
}

/** Frames a second while agents call each other and talk. */
async function frames() {
  console.log('\n| envelopes/s | view | frames/s | longest frame, ms | main thread busy, % of a core |\n|--:|---|--:|--:|--:|');
  for (const rate of RATES) {
    for (const [name, view] of [['transcript', ''], ['timeline', '/timeline']]) {
      const topic = `room:frames-${rate}-${name}`;
      const alice = await Visitor.come(browser, gateway);
      await alice.signIn('alice');
      await alice.enter(topic, view);
      const cast = await stage(browser, gateway, topic, { a: {}, b: {} });
      await cast.evaluate(async (each) => {
        const { a, b } = /** @type {any} */ (window).stage.actors;
        b.offer('work', '', {}, () => 'done');
        await a.enter();
        await b.enter();
        let sent = 0;
        const begin = performance.now();
        // Half of it chat, half of it calls with their answers.
        setInterval(() => {
          for (; sent < ((performance.now() - begin) / 1000) * each; sent += 4) {
            void a.say(`message **${sent}**`, { markdown: true });
            void b.say(`answer ${sent}`);
            void a.call('b', 'work', { sent });
          }
        }, 20);
      }, rate);
      await alice.page.locator(view === '' ? 'article.call' : '.tl-bar').first().waitFor();
      const session = await alice.context.newCDPSession(alice.page);
      // CPU time, not time: a busy machine changes it little.
      await session.send('Performance.enable', { timeDomain: 'threadTicks' });
      const busy = async () => (await session.send('Performance.getMetrics')).metrics.find((metric) => metric.name === 'TaskDuration')?.value ?? 0;
      const [before, since] = [await busy(), performance.now()];
      const { many, longest } = await alice.page.evaluate((ms) => new Promise((resolve) => {
        const begin = performance.now();
        let [drawn, last, worst] = [0, begin, 0];
        const frame = (/** @type {number} */ now) => {
          worst = Math.max(worst, now - last);
          last = now;
          drawn += 1;
          if (now - begin > ms) resolve({ many: (drawn / (now - begin)) * 1000, longest: worst });
          else requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
      }), COUNTED);
      const share = (await busy() - before) / ((performance.now() - since) / 1000);
      console.log(`| ${rate} | ${name} | ${Math.round(many)} | ${Math.round(longest)} | ${Math.round(100 * share)} |`);
      await cast.context().close();
      await alice.context.close();
    }
  }
}

/** From going to a room's address to its last message being there. */
async function firstMessage() {
  const topic = 'room:first';
  const token = await gateway.token('bob');
  for (let at = 0; at < 50; at += 1) await gateway.post(topic, token, chat(`m${at}`, 'bob', `message ${at} of fifty`));
  console.log('\n| round trip, ms | first visit, ms | second visit, ms | requests, second visit |\n|--:|--:|--:|--:|');
  for (const latency of ROUND_TRIPS) {
    const alice = await Visitor.come(browser, gateway);
    const signIn = await alice.context.request.post(`${gateway.url}/v0/session`, {
      data: { token: await gateway.token('alice', { kind: 'human' }) }, headers: { origin: gateway.url },
    });
    if (!signIn.ok()) throw new Error(`not signed in: ${signIn.status()} ${await signIn.text()}`);
    const session = await alice.context.newCDPSession(alice.page);
    await session.send('Network.enable');
    await session.send('Network.emulateNetworkConditions', { offline: false, latency, downloadThroughput: -1, uploadThroughput: -1 });
    const visit = async () => {
      await alice.page.goto('about:blank');
      alice.asked.length = 0;
      const begin = performance.now();
      await alice.page.goto(`${gateway.url}/#/room/${topic}`);
      await alice.page.locator('article.chat', { hasText: 'message 49 of fifty' }).waitFor();
      return Math.round(performance.now() - begin);
    };
    const first = await visit();
    const second = await visit();
    const asked = await alice.page.evaluate(() => performance.getEntriesByType('resource').filter((entry) => /** @type {any} */ (entry).transferSize > 0).length);
    // The document and the WebSocket are not among the resources.
    console.log(`| ${latency} | ${first} | ${second} | ${asked + 2} |`);
    await alice.context.close();
  }
}

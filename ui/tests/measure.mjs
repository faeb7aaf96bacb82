// Measures the page in a real browser, and prints the tables of docs/how-to/web.md: frames a second while envelopes come, the time to the first
// message at several round trips, what a visit weighs, and memory over ten thousand envelopes. Nothing is asserted: times depend on the machine.
//
//   SALON_BIN=… node ui/tests/measure.mjs [frames|first|weight|memory] [--out DIR]
//
// Run it on a machine that does nothing else, with a release build for what users get (`cargo build --release`). With `--out` the tables are written to
// DIR/summary.md too.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { launch, Visitor } from './support/browser.js';
import { delayed } from './support/delay.js';
import { chat, Gateway } from './support/gateway.js';
import { stage } from './support/stage.js';

/** How long frames are counted, in milliseconds. */
const COUNTED = 8000;
const RATES = [20, 200];
const ROUND_TRIPS = [0, 100, 300];
const { values: { out }, positionals: [only] } = parseArgs({ options: { out: { type: 'string' } }, allowPositionals: true });
/** @type {string[]} */
const told = [];

const browser = await launch();
const gateway = await Gateway.start();
try {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
  tell(`The page, measured with \`ui/tests/measure.mjs\` at ${commit}, ${new Date().toISOString().slice(0, 16)}Z: ${cpus().length} × ${cpus()[0].model.trim()}, `
    + `Chromium ${browser.version()}, a ${process.env.SALON_BIN?.includes('/release/') ? 'release' : 'debug'} build. Load average before it: ${loadavg()[0].toFixed(1)}.`);
  const parts = { weight, first: firstMessage, frames, memory };
  for (const [name, measure] of Object.entries(parts)) if (only === undefined || only === name) await measure();
} finally {
  await browser.close();
  await gateway.stop();
  if (out !== undefined) {
    mkdirSync(out, { recursive: true });
    writeFileSync(join(out, 'summary.md'), `${told.join('\n')}\n`);
  }
}

/** @param {string} text */
function tell(text) {
  console.log(text);
  told.push(text);
}

/** What a visit to a room takes over the wire, and how much of it the second one takes again. */
async function weight() {
  tell('\n| visit | files asked for | bytes with headers | bytes as written |\n|---|--:|--:|--:|');
  const alice = await Visitor.come(browser, gateway);
  await alice.signIn('alice');
  for (const visit of ['first', 'second']) {
    if (visit === 'second') await alice.page.reload();
    await alice.enter('room:weight');
    await alice.page.waitForLoadState('networkidle');
    const { asked, sent, written } = await alice.page.evaluate(() => {
      const entries = /** @type {PerformanceResourceTiming[]} */ ([...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]);
      const ours = entries.filter((entry) => entry.initiatorType === 'navigation' || entry.name.includes('/ui/'));
      return { asked: ours.filter((entry) => entry.transferSize > 0).length, sent: ours.reduce((sum, entry) => sum + entry.transferSize, 0), written: ours.reduce((sum, entry) => sum + entry.decodedBodySize, 0) };
    });
    tell(`| ${visit} | ${asked} | ${sent} | ${written} |`);
  }
  await alice.context.close();
}

/** What the page keeps while ten thousand messages come. */
async function memory() {
  const topic = 'room:memory';
  const alice = await Visitor.come(browser, gateway);
  await alice.signIn('alice');
  await alice.enter(topic);
  const cast = await stage(browser, gateway, topic, { bob: {} });
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.bob.enter());
  const session = await alice.context.newCDPSession(alice.page);
  tell('\n| envelopes | heap after a collection, MB |\n|--:|--:|');
  for (let many = 0; many <= 10_000; many += 2500) {
    for (let at = many - 2500; many > 0 && at < many; at += 100) {
      await cast.evaluate(async (first) => {
        const { bob } = /** @type {any} */ (window).stage.actors;
        await Promise.all(Array.from({ length: 100 }, (_, n) => bob.say(`message **${first + n}**, \`code\` and @alice`, { markdown: true })));
      }, at);
      await alice.page.waitForFunction((text) => document.querySelector('.virtual')?.textContent?.includes(text), `message ${at + 99},`);
    }
    for (let times = 0; times < 2; times += 1) await session.send('HeapProfiler.collectGarbage');
    tell(`| ${many} | ${((await session.send('Runtime.getHeapUsage')).usedSize / 1e6).toFixed(1)} |`);
  }
  await cast.context().close();
  await alice.context.close();
}

/** Frames a second while agents call each other and talk. */
async function frames() {
  tell('\n| envelopes/s | view | frames/s | longest frame, ms | main thread busy, % of a core |\n|--:|---|--:|--:|--:|');
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
      tell(`| ${rate} | ${name} | ${Math.round(many)} | ${Math.round(longest)} | ${Math.round(100 * share)} |`);
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
  tell('\n| round trip, ms | first visit, ms | second visit, ms | requests, second visit |\n|--:|--:|--:|--:|');
  for (const latency of ROUND_TRIPS) {
    const alice = await Visitor.come(browser, gateway);
    const way = await delayed(gateway.port, latency);
    const signIn = await alice.context.request.post(`${way.url}/v0/session`, {
      data: { token: await gateway.token('alice', { kind: 'human' }) }, headers: { origin: way.url },
    });
    if (!signIn.ok()) throw new Error(`not signed in: ${signIn.status()} ${await signIn.text()}`);
    const visit = async () => {
      await alice.page.goto('about:blank');
      alice.asked.length = 0;
      const begin = performance.now();
      await alice.page.goto(`${way.url}/#/room/${topic}`);
      await alice.page.locator('article.chat', { hasText: 'message 49 of fifty' }).waitFor();
      return Math.round(performance.now() - begin);
    };
    const first = await visit();
    const second = await visit();
    const asked = await alice.page.evaluate(() => performance.getEntriesByType('resource').filter((entry) => /** @type {any} */ (entry).transferSize > 0).length);
    // The document and the WebSocket are not among the resources.
    tell(`| ${latency} | ${first} | ${second} | ${asked + 2} |`);
    await alice.context.close();
    await way.close();
  }
}

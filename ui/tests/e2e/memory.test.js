import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { entered } from '../support/entered.js';

const ROOM = 'room:memory';
/** What one more message may keep: its text, its parsed form and its row, but no elements. */
const MAX_BYTES_PER_MESSAGE = 2000;

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('ten thousand messages keep what they say and nothing that was drawn', { timeout: 300_000 }, async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { bob: {} } });
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.bob.enter());

  /** Bob says more, no faster than Alice's page draws it: only what was drawn once can be kept by mistake. */
  const talk = async (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ step) => {
    for (let at = from; at < to; at += step) {
      await cast.evaluate(async ([first, many]) => {
        const { bob } = /** @type {any} */ (window).stage.actors;
        const say = (/** @type {number} */ n) => bob.say(`message **${n}** to [all](https://a.example/${n}), \`code\` and @alice`, { markdown: true });
        await Promise.all(Array.from({ length: many }, (_, n) => say(first + n)));
      }, [at, step]);
      await page.waitForFunction((text) => document.querySelector('.virtual')?.textContent?.includes(text), `message ${at + step - 1} to`);
    }
  };
  const session = await page.context().newCDPSession(page);
  const heap = async () => {
    // What finalizers release goes with the second collection.
    await session.send('HeapProfiler.collectGarbage');
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize;
  };
  await talk(0, 1000, 100);
  const before = await heap();
  await talk(1000, 9700, 100);
  // Rows that stay while others come could hold on to those that go.
  await talk(9700, 10_000, 2);
  const each = (await heap() - before) / 9000;
  t.diagnostic(`${Math.round(each)} bytes a message`);
  assert.ok(each < MAX_BYTES_PER_MESSAGE, `${Math.round(each)} bytes a message`);
  await done();
});

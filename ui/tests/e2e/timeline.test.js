import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';
import { stage } from '../support/stage.js';
import { begin, play, ROOM } from '../support/story.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Alice at the timeline of a room in which the story has been played. */
async function told(t) {
  const { gateway, visitor, done } = await scene(t, browser);
  const cast = await begin(browser, gateway);
  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter(ROOM, '/timeline');
  await play(cast);
  return { alice, page: alice.page, cast, done: async () => { await cast.context().close(); await done(); } };
}

test('every call is a bar in the lane of whom it was put to, and runs on while it runs', async (t) => {
  const { page, done } = await told(t);
  await page.getByText('9 calls').waitFor();
  await page.locator('.tl-bar[aria-label*="return_home, running"]').waitFor();
  const lanes = await page.locator('.tl-label').allInnerTexts();
  assert.deepEqual([...lanes].sort(), ['Archive', 'Calc', 'Planner', 'Probe north', 'Probe south', 'Rover 2', 'Weather']);
  await page.locator('.tl-bar[data-state="failed"]').waitFor();

  const end = () => page.locator('.tl-bar[data-state="running"]').getAttribute('aria-label');
  assert.match(await end() ?? '', /planner to rover: return_home, running/);
  // The pointer must reach the bar through its label and its progress.
  await page.locator('.tl-bar[data-state="running"] text').waitFor();
  const taking = await page.locator('.tl-bar[data-state="running"] :not(.body)')
    .evaluateAll((parts) => parts.filter((part) => getComputedStyle(part).pointerEvents !== 'none').length);
  assert.equal(taking, 0);
  const handshakes = page.getByRole('toolbar', { name: 'Timeline' }).getByLabel('Handshakes');
  await handshakes.check();
  await page.getByText(/^2\d calls$/).waitFor();
  await handshakes.uncheck();

  await page.getByText(/1 failed, median \d+ ms, longest/).waitFor();
  await page.getByRole('button', { name: 'Tools', exact: true }).click();
  await page.locator('.tl-label', { hasText: 'evaluate' }).waitFor();
  assert.deepEqual((await page.locator('.tl-label').allInnerTexts()).sort(), ['evaluate', 'forecast', 'read', 'return_home', 'survey', 'write']);

  await page.getByRole('button', { name: 'Calls', exact: true }).click();
  await page.locator('.tl-label', { hasText: 'planner → archive write' }).first().waitFor();
  await waitForCount(page.locator('.tl-label'), 9);
  await page.getByLabel('Critical path').check();
  await page.locator('.tl-details', { hasText: /Critical path: \d+ calls?/ }).waitFor();
  await page.locator('.tl-bar.critical[aria-label*="return_home"]').waitFor();
  await done();
});

test('the keyboard goes from call to call, zooms and inspects', async (t) => {
  const { page, done } = await told(t);
  await page.locator('.tl-bar[aria-label*="return_home"]').waitFor();
  const chart = page.getByRole('application');
  await chart.focus();
  const chosen = async () => {
    const id = await chart.getAttribute('aria-activedescendant');
    return page.locator(`[id="${id}"]`).getAttribute('aria-label');
  };
  await page.keyboard.press('Home');
  await page.locator('.tl-bar.picked').waitFor();
  assert.match(await chosen() ?? '', /planner to/);
  await page.locator('.tl-details .state').waitFor();
  await page.keyboard.press('End');
  await page.locator('.tl-bar.picked[data-state="running"]').waitFor();
  assert.match(await chosen() ?? '', /return_home/);
  await page.keyboard.press('ArrowLeft');
  await page.locator('.tl-bar.picked:not([data-state="running"])').waitFor();
  assert.match(await chosen() ?? '', /archive: write, done/);
  await page.keyboard.press('ArrowLeft');
  await page.locator('.tl-bar.picked[data-state="failed"]').waitFor();
  await page.locator('.tl-details', { hasText: 'permission denied' }).waitFor();

  const width = () => page.locator('.tl-overview .tl-seen').getAttribute('width').then(Number);
  const all = await width();
  for (const key of ['+', '+', '+']) await page.keyboard.press(key);
  await page.waitForFunction((before) => Number(document.querySelector('.tl-overview .tl-seen')?.getAttribute('width')) < before / 2, all);
  await page.keyboard.press('Shift+ArrowLeft');
  await page.waitForFunction(() => document.querySelector('.tl-live')?.getAttribute('aria-pressed') === 'false');
  await page.keyboard.press('0');
  await page.waitForFunction((before) => Number(document.querySelector('.tl-overview .tl-seen')?.getAttribute('width')) >= before * 0.9, all);
  await page.keyboard.press('Enter');
  await page.getByRole('complementary', { name: 'Envelope' }).getByText('/reports/north.md').waitFor();
  // Escape in the chart would give up the choice instead.
  await page.locator('aside.panel:focus').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('aside.panel').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'In the transcript', exact: true }).click();
  await page.locator('[data-row]:focus article.call[data-state="failed"]').waitFor();
  await done();
});

test('the wheel zooms where it points, and dragging goes back in time', async (t) => {
  const { page, done } = await told(t);
  const bar = page.locator('.tl-bar[data-state="failed"]');
  await bar.waitFor();
  // What is not followed stands still, so that it can be pointed at.
  await page.locator('.tl-live').click();
  await page.locator('.tl-live[aria-pressed="false"]').waitFor();
  const before = await bar.locator('.body').boundingBox();
  assert.ok(before);
  await page.mouse.move(before.x + before.width / 2, before.y + before.height / 2);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -300);
  await page.mouse.wheel(0, -300);
  await page.keyboard.up('Control');
  await page.waitForFunction((width) => (document.querySelector('.tl-bar[data-state="failed"] .body')?.getBoundingClientRect().width ?? 0) > 2 * width, before.width);
  const zoomed = await bar.locator('.body').boundingBox();
  assert.ok(zoomed);
  const middle = (box) => box.x + box.width / 2;
  assert.ok(Math.abs(middle(zoomed) - middle(before)) < 20, 'what is pointed at stays there');

  const place = await page.locator('.tl-scroll').boundingBox();
  assert.ok(place);
  await page.mouse.move(place.x + 400, place.y + place.height - 20);
  await page.mouse.down();
  await page.mouse.move(place.x + 500, place.y + place.height - 20, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction((x) => (document.querySelector('.tl-bar[data-state="failed"] .body')?.getBoundingClientRect().x ?? 0) > x + 60, zoomed.x);
  await page.locator('.tl-live').click();
  await page.locator('.tl-bar[data-state="running"]').waitFor();
  await done();
});

test('what is pointed at is told beside the pointer, shift and a drag zoom into a stretch, and Live comes back to the newest', async (t) => {
  const { page, done } = await told(t);
  const bar = page.locator('.tl-bar[data-state="failed"]');
  await bar.waitFor();
  // What is not followed stands still, so that it can be pointed at.
  await page.locator('.tl-live').click();
  await page.locator('.tl-live[aria-pressed="false"]').waitFor();
  const box = await bar.locator('.body').boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.locator('.tl-tip', { hasText: 'permission denied' }).waitFor();
  const tip = await page.locator('.tl-tip').boundingBox();
  assert.ok(tip && Math.abs(tip.x - box.x) < 500 && Math.abs(tip.y - box.y) < 300, 'near the pointer');

  const chart = await page.locator('.tl-svg').boundingBox();
  const scroll = await page.locator('.tl-scroll').boundingBox();
  assert.ok(chart && scroll);
  const width = () => page.locator('.tl-overview .tl-seen').getAttribute('width').then(Number);
  const all = await width();
  const y = scroll.y + scroll.height - 10;
  await page.keyboard.down('Shift');
  await page.mouse.move(chart.x + 100, y);
  await page.mouse.down();
  await page.mouse.move(chart.x + 100 + chart.width / 4, y, { steps: 4 });
  await page.locator('.tl-brush').waitFor();
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await page.waitForFunction((before) => Number(document.querySelector('.tl-overview .tl-seen')?.getAttribute('width')) < before * 0.35, all);
  await page.getByRole('button', { name: 'Fit' }).click();
  await page.waitForFunction((before) => Number(document.querySelector('.tl-overview .tl-seen')?.getAttribute('width')) >= before * 0.9, all);
  assert.equal(await page.locator('.tl-live').getAttribute('aria-pressed'), 'false', 'all of it is not the newest of it');
  await page.locator('.tl-live').click();
  await page.locator('.tl-live[aria-pressed="true"]').waitFor();
  await page.locator('.tl-bar[data-state="running"]').waitFor();
  await done();
});

test('two fingers zoom, and what is between them stays there', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const cast = await begin(browser, gateway);
  const alice = await visitor({ hasTouch: true, viewport: { width: 390, height: 800 } });
  await alice.signIn('alice');
  await alice.enter(ROOM, '/timeline');
  await play(cast);
  const { page } = alice;
  // What is not followed stands still.
  await page.locator('.tl-live').click();
  await page.locator('.tl-live[aria-pressed="false"]').waitFor();
  const box = await page.locator('.tl-bar[data-state="failed"] .body').boundingBox();
  assert.ok(box);
  const session = await page.context().newCDPSession(page);
  const touch = (/** @type {string} */ type, /** @type {number|null} */ apart) => session.send('Input.dispatchTouchEvent', {
    type, touchPoints: apart === null ? [] : [-1, 1].map((side, id) => ({ x: box.x + box.width / 2 + side * apart, y: box.y, id })),
  });
  // How much of all is seen: how wide a call is drawn follows from how long it took, which nobody knows before.
  const seen = await page.locator('.tl-seen').evaluate((frame) => frame.getBoundingClientRect().width);
  await touch('touchStart', 5);
  for (const apart of [10, 20, 40, 60]) await touch('touchMove', apart);
  await touch('touchEnd', null);
  await page.waitForFunction((before) => (document.querySelector('.tl-seen')?.getBoundingClientRect().width ?? before) < before / 2, seen);
  await page.locator('.tl-bar[data-state="failed"]').first().waitFor();
  await cast.context().close();
  await done();
});

test('two thousand calls do not fill the page', { timeout: 120_000 }, async (t) => {
  const { gateway, alice, done } = await entered(t, browser, 'room:busy', { view: '/timeline' });
  await alice.page.getByText('No calls yet').waitFor();
  const cast = await stage(browser, gateway, 'room:busy', { a: {}, b: {}, c: {} });
  await cast.evaluate(async () => {
    const { a, b, c } = /** @type {any} */ (window).stage.actors;
    b.offer('work', '', {}, () => 'done');
    c.offer('work', '', {}, () => { throw new Error('tired'); });
    for (const each of [a, b, c]) await each.enter();
    for (let at = 0; at < 100; at += 1) await Promise.all(Array.from({ length: 20 }, (_, n) => a.call(n === 7 ? 'c' : 'b', 'work', { at })));
  });
  await alice.page.getByText('2000 calls').waitFor();
  await alice.page.waitForFunction(() => document.querySelectorAll('.tl-bar[data-state="running"]').length === 0);
  // The page draws the bars together once it has redrawn what came last.
  await alice.page.waitForFunction(() => {
    const drawn = document.querySelectorAll('.tl-bar').length;
    return drawn > 0 && drawn < 2000;
  });
  await alice.page.getByRole('button', { name: 'Calls', exact: true }).click();
  await alice.page.locator('.tl-label', { hasText: 'a → b work' }).first().waitFor();
  assert.ok((await alice.page.locator('.tl-bar').count()) < 100);
  await alice.page.getByLabel('Filter by text').fill('tired');
  await alice.page.getByText('100 calls').waitFor();
  await cast.context().close();
  await done();
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';
import { stage } from '../support/stage.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('rooms stand beside each other with what is unread, and a reload keeps them', async (t) => {
  const { gateway, alice, page, done } = await entered(t, browser, 'room:one');
  await alice.enter('room:two');
  const rooms = page.getByRole('navigation', { name: 'Rooms' });
  const entry = (/** @type {string} */ name) => rooms.getByRole('listitem').filter({ hasText: name });
  await page.getByRole('heading', { level: 1, name: 'two', exact: true }).waitFor();
  const token = await gateway.token('bob');
  const present = async (/** @type {string} */ topic) => (await gateway.get(`/v0/topics/${topic}/participants`, token)).participants
    .some((/** @type {any} */ each) => each.id === 'alice');
  assert.ok(await present('room:one') && await present('room:two'), 'present in both');

  await gateway.post('room:one', token, chat('m1', 'bob', 'something new'));
  await entry('one').getByText('1', { exact: true }).waitFor();
  await entry('one').getByText('bob: something new').waitFor();
  await gateway.post('room:one', token, chat('m2', 'bob', 'and you, @alice?'));
  await entry('one').getByText('@1').waitFor();
  await page.waitForFunction(() => document.title.startsWith('(2!)'));
  assert.match(await page.locator('link[rel="icon"]').getAttribute('href') ?? '', /icon-alert\.svg$/);
  await page.getByRole('button', { name: /^bob mentions you in one/ }).click();
  await page.locator('article.chat.called', { hasText: 'and you' }).waitFor();
  await page.getByRole('heading', { level: 1, name: 'one', exact: true }).waitFor();
  await page.waitForFunction(() => !document.title.startsWith('('));
  assert.match(await page.locator('link[rel="icon"]').getAttribute('href') ?? '', /icon\.svg$/);

  await page.reload();
  await alice.live();
  await entry('two').locator('.room-dot[data-state="live"]').waitFor();
  assert.equal(await page.getByText('alice left').count(), 0);
  await entry('two').hover();
  await entry('two').getByRole('button', { name: 'Pin two' }).click();
  await entry('two').getByRole('button', { name: 'Leave two' }).click();
  // What is pinned stays in the list, and comes first.
  await entry('two').locator('.room-dot[data-state="out"]').waitFor();
  assert.match(await rooms.getByRole('listitem').first().innerText(), /two/);
  await gateway.post('room:two', token, chat('m3', 'bob', 'anybody?'));
  while (await present('room:two')) await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  await rooms.getByRole('button', { name: 'All rooms' }).click();
  const listed = page.locator('.room-item').filter({ hasText: 'bob: anybody?' });
  await listed.waitFor();
  assert.match(await page.locator('.room-item').first().innerText(), /two/, 'also in the list of all');
  await listed.getByRole('button', { name: 'Pin two' }).click();
  await listed.locator('[aria-pressed="false"]').waitFor();
  await done();
});

test('a room is found by its name, or entered, with Ctrl+K', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  const { page } = alice;
  const token = await gateway.token('bob');
  await gateway.post('room:workshop', token, chat('m1', 'bob', 'hello'));
  for (let at = 0; at < 9; at += 1) await gateway.post(`room:many-${at}`, token, chat('m1', 'bob', 'hello'));
  await alice.signIn('alice');
  await page.getByLabel('Find a room').fill('MANY-7');
  await page.waitForFunction(() => document.querySelectorAll('.rooms .room').length === 1);
  await alice.enter('room:start');
  await page.keyboard.press('Control+k');
  const dialog = page.getByRole('dialog', { name: 'Go to a room' });
  await dialog.getByRole('option', { name: /workshop/ }).waitFor();
  await page.keyboard.type('shop');
  await page.waitForFunction(() => document.querySelectorAll('.switcher [role="option"]').length <= 2);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'workshop', exact: true }).waitFor();
  await page.locator('article.chat', { hasText: 'hello' }).waitFor();
  await page.keyboard.press('Control+k');
  await dialog.locator('input:focus').waitFor();
  await page.keyboard.type('brand new');
  await dialog.getByRole('option', { name: /brand new.*new room/ }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'brand new', exact: true }).waitFor();
  await alice.live();
  await done();
});

test('a question in another room can be gone to, and answered from its card', async (t) => {
  const { gateway, alice, page, done } = await entered(t, browser, 'room:one');
  await alice.enter('room:two');
  const cast = await stage(browser, gateway, 'room:one', { robot: { kind: 'robot' } });
  const answer = cast.evaluate(async () => {
    const { robot } = /** @type {any} */ (window).stage.actors;
    await robot.enter();
    return robot.call('alice', 'ask_human', { question: 'Left or right?', choices: ['left', 'right'] });
  });
  await page.getByRole('button', { name: 'robot asks you something in one.' }).click();
  const asks = page.getByRole('complementary', { name: 'For you' });
  await asks.getByText('Left or right?').waitFor();
  await page.keyboard.press('Escape');
  await asks.waitFor({ state: 'detached' });
  await page.locator('article.call[data-question]').getByRole('button', { name: 'Answer' }).click();
  await asks.getByRole('button', { name: 'left', exact: true }).click();
  assert.match(JSON.stringify(await answer), /left/);
  await page.locator('article.call[data-question][data-state="done"]').waitFor();
  await cast.context().close();
  await done();
});

test('a mention while the page is hidden becomes a desktop notification, once the person wants them', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor({ permissions: ['notifications'] });
  const { page } = alice;
  await page.addInitScript(() => {
    const shown = /** @type {any[]} */ ([]);
    /** @type {any} */ (window).shown = shown;
    // A browser without a desktop shows none: what the page asks for is what counts.
    class Fake {
      static permission = 'granted';
      constructor(title, options) { shown.push(this); Object.assign(this, { title, ...options }); }
      close() {}
    }
    Object.defineProperty(window, 'Notification', { value: Fake });
    Object.defineProperty(document, 'hidden', { get: () => /** @type {any} */ (window).isHidden === true });
  });
  await alice.signIn('alice');
  await alice.enter('room:one');
  const token = await gateway.token('bob');
  const hide = (/** @type {boolean} */ hidden) => page.evaluate((value) => {
    /** @type {any} */ (window).isHidden = value;
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await gateway.post('room:one', token, chat('m1', 'bob', '@alice, not yet'));
  await page.locator('article.chat', { hasText: 'not yet' }).waitFor();
  await hide(false);
  await page.locator('.menu summary').click();
  await page.getByLabel('Desktop notifications').check();
  await page.keyboard.press('Escape');
  await hide(true);
  await gateway.post('room:one', token, chat('m2', 'bob', 'only talk'));
  await gateway.post('room:one', token, chat('m3', 'bob', '@alice, come here'));
  await page.waitForFunction(() => /** @type {any} */ (window).shown.length > 0);
  assert.deepEqual(await page.evaluate(() => /** @type {any} */ (window).shown.map(({ title, body }) => ({ title, body }))),
    [{ title: 'bob mentions you in one', body: '@alice, come here' }]);
  await hide(false);
  await page.evaluate(() => /** @type {any} */ (window).shown[0].onclick());
  await page.locator('[data-row]:focus', { hasText: 'come here' }).waitFor();
  await done();
});

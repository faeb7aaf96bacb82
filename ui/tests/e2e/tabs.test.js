import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { until } from '../support/gateway.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Another tab of the same browser, in a room. @param {import('../support/browser.js').Visitor} visitor @param {string} topic */
async function second(visitor, topic) {
  const page = await visitor.tab();
  await page.goto(`${visitor.gateway.url}/#/room/${topic}`);
  await page.locator('.dot[data-state="live"]').first().waitFor();
  return page;
}

/** @param {import('playwright-core').Page} page */
async function signOut(page) {
  await page.locator('.menu summary').click();
  await page.getByRole('button', { name: 'Sign out' }).click();
}

test('signing out in one tab signs the other out, and out of its room', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter('room:a');
  const other = await second(alice, 'room:b');
  const token = await gateway.token('watcher');
  const here = async () => (await gateway.get('/v0/topics/room:b/participants', token)).participants.length;
  assert.equal(await here(), 1);
  alice.expected.push(/401/);
  await signOut(alice.page);
  await other.getByLabel('Token').waitFor();
  await other.getByText('You have signed out in another tab.').waitFor();
  await until(async () => (await here()) === 0, 'the other tab to have left its room');
  await done();
});

test('a tab that hears nothing of it is put out by the gateway', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter('room:a');
  const deaf = await alice.tab();
  await deaf.addInitScript(() => {
    window.BroadcastChannel = /** @type {any} */ (class { postMessage() {} close() {} });
  });
  await deaf.goto(`${alice.gateway.url}/#/room/room:a`);
  await deaf.locator('.dot[data-state="live"]').first().waitFor();
  alice.expected.push(/401/);
  await signOut(alice.page);
  await deaf.locator('.dot[data-state="signed-out"]').first().waitFor();
  await deaf.getByRole('dialog', { name: 'Sign in again' }).waitFor();
  await done();
});

test('who signs in as somebody else in one tab is that in all', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter('room:a');
  const other = await second(alice, 'room:a');
  // By a link, which asks first: it would take alice's place.
  await other.goto(gateway.link ?? '');
  await other.getByRole('heading', { name: 'Sign in by this link?' }).waitFor();
  await other.getByRole('button', { name: 'Stay alice' }).click();
  await other.getByRole('heading', { name: 'Rooms' }).waitFor();
  await other.locator('.menu summary[aria-label*="signed in as alice"]').waitFor();
  alice.expected.push(/401/);
  await signOut(other);
  await other.getByLabel('Token').fill(alice.keep(await gateway.token('bob', { kind: 'human' })));
  await other.getByRole('button', { name: 'Sign in', exact: true }).click();
  await other.getByRole('heading', { name: 'Rooms' }).waitFor();
  await alice.page.locator('.menu summary[aria-label*="signed in as bob"]').waitFor();
  await done();
});

test('a name does not make somebody else of anybody', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice', { name: 'Alice' });
  await alice.enter('room:a');
  const mallory = await visitor();
  await mallory.signIn('mallory', { name: 'Alicе\u202e' });
  await mallory.enter('room:a');
  await mallory.say('It is me');
  const said = alice.page.locator('article.chat').filter({ hasText: 'It is me' });
  await said.locator('.who-id', { hasText: 'mallory' }).waitFor();
  assert.equal(await said.locator('bdi').first().textContent(), 'Alicе');
  await alice.page.locator('.roster .who-id', { hasText: 'mallory' }).waitFor();
  await alice.page.locator('.roster .who-id', { hasText: 'alice' }).waitFor();
  assert.ok(!(await alice.page.locator('.shell').textContent())?.includes('\u202e'));
  await done();
});

test('on a narrow screen a sheet keeps the focus, and gives it back', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const alice = await visitor({ viewport: { width: 390, height: 800 } });
  await alice.signIn('alice');
  await alice.enter('room:a');
  await alice.page.locator('.people-button').click();
  const within = () => alice.page.evaluate(() => Boolean(document.activeElement?.closest('.side')) || document.activeElement === document.body);
  for (let times = 0; times < 12; times += 1) {
    await alice.page.keyboard.press('Tab');
    assert.ok(await within(), 'the focus went under the sheet');
  }
  await alice.page.keyboard.press('Escape');
  await alice.page.locator('.side').waitFor({ state: 'hidden' });
  await alice.page.waitForFunction(() => document.activeElement?.classList.contains('people-button'));
  await done();
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';

const ROOM = 'room:words';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Alice in a room that she owns, because she gave it its settings. @param {import('node:test').TestContext} t */
async function owned(t) {
  const cast = await entered(t, browser, ROOM, { how: { args: ['--auth-create-topics', 'anyone'] } });
  const { page } = cast;
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  await page.getByLabel('Title').fill('Words');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'Words' }).waitFor();
  await page.keyboard.press('Escape');
  return cast;
}

test('a person changes a message and takes one back, for everybody and after a reload', async (t) => {
  const { alice, page, visitor, done } = await entered(t, browser, ROOM);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await alice.say('the **frist** word');
  const row = page.locator('article.chat', { hasText: 'word' });
  await row.hover();
  await row.getByRole('button', { name: 'More' }).click();
  await row.getByRole('button', { name: 'Edit' }).click();
  const composer = page.locator('#composer');
  await page.waitForFunction(() => /** @type {HTMLTextAreaElement} */ (document.querySelector('#composer')).value === 'the **frist** word');
  await composer.fill('the **first** word');
  await page.getByRole('button', { name: 'Save' }).click();
  const theirs = bob.page.locator('article.chat', { hasText: 'the first word' });
  await theirs.getByText('edited').waitFor();
  await waitForCount(bob.page.getByText('frist'), 0);
  await theirs.hover();
  await theirs.getByRole('button', { name: 'More' }).click();
  await theirs.getByRole('button', { name: 'Who has got it' }).waitFor();
  assert.equal(await theirs.getByRole('button', { name: 'Edit' }).count(), 0, 'a message of somebody else cannot be changed');

  // The arrow up takes up the last message again; Esc leaves it as it is.
  await composer.focus();
  await page.keyboard.press('ArrowUp');
  await page.getByText('Editing your message').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('Editing your message').waitFor({ state: 'detached' });
  await page.waitForFunction(() => /** @type {HTMLTextAreaElement} */ (document.querySelector('#composer')).value === '');

  await alice.say('a secret');
  const secret = page.locator('article.chat', { hasText: 'a secret' });
  await secret.hover();
  await secret.getByRole('button', { name: 'More' }).click();
  await secret.getByRole('button', { name: 'Take back' }).click();
  await bob.page.getByText('Taken back by its author.').waitFor();
  await bob.page.reload();
  await bob.live();
  await bob.page.locator('article.chat', { hasText: 'the first word' }).getByText('edited').waitFor();
  await bob.page.getByText('Taken back by its author.').waitFor();
  await waitForCount(bob.page.getByText('a secret'), 0);
  await done();
});

test('nobody changes what somebody else has said', async (t) => {
  const { alice, page, cast, done } = await entered(t, browser, ROOM, { cast: { mallory: {} } });
  await alice.say('my own words');
  const id = await page.locator('[data-row]', { hasText: 'my own words' }).getAttribute('data-row');
  await cast.evaluate(async (original) => {
    const { mallory } = /** @type {any} */ (window).stage.actors;
    await mallory.enter();
    // Whether the gateway stores it or not, the page must not show it.
    void mallory.send({ correlation_id: original, payload: { jsonrpc: '2.0', method: 'notifications/chat/edit', params: { text: 'their words' } } });
    await mallory.say('done');
  }, id);
  await page.locator('article.chat', { hasText: 'done' }).waitFor();
  await page.locator('article.chat', { hasText: 'my own words' }).waitFor();
  assert.equal(await page.locator('article.chat', { hasText: 'their words' }).count(), 0);
  await done();
});

test('a moderator redacts a message: its text is gone for everybody, and its reason is told', async (t) => {
  const { page, visitor, done } = await owned(t);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await bob.say('the key is hunter2');
  const row = page.locator('article.chat', { hasText: 'hunter2' });
  await row.hover();
  await row.getByRole('button', { name: 'More' }).click();
  await row.getByRole('button', { name: 'Who has got it' }).click();
  await row.locator('.message-status').getByText('Stored').waitFor();
  await row.locator('.message-status').getByText('alice').waitFor();
  await row.getByRole('button', { name: 'Redact…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Redact this message?' });
  await dialog.getByLabel('Reason').fill('leaked');
  await dialog.getByRole('button', { name: 'Redact' }).click();
  for (const each of [page, bob.page]) {
    await each.locator('.gone-text', { hasText: 'Redacted by alice' }).getByText('leaked').waitFor();
    await waitForCount(each.getByText('hunter2'), 0);
  }
  await bob.page.reload();
  await bob.live();
  await bob.page.locator('.gone-text', { hasText: 'Redacted by alice' }).waitFor();
  await waitForCount(bob.page.getByText('hunter2'), 0);
  await done();
});

test('a redacted text is gone also where the list was drawn between the notice and the next frame', async (t) => {
  const { page, visitor, done } = await owned(t);
  const bob = await visitor();
  const told = bob.page.waitForEvent('websocket').then((socket) => socket.waitForEvent('framereceived', ({ payload }) => payload.includes('notifications/message/redacted')));
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await bob.say('the key is hunter2');
  await bob.page.locator('article.chat', { hasText: 'hunter2' }).waitFor();
  // From now on Bob's page draws what is new only when the test lets it.
  await bob.page.evaluate(() => {
    const frames = /** @type {any} */ (window);
    frames.held = [];
    frames.draw = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (fn) => frames.held.push(fn);
  });
  const row = page.locator('article.chat', { hasText: 'hunter2' });
  await row.hover();
  await row.getByRole('button', { name: 'More' }).click();
  await row.getByRole('button', { name: 'Redact…' }).click();
  await page.getByRole('dialog', { name: 'Redact this message?' }).getByRole('button', { name: 'Redact' }).click();
  await told;
  // Something waits for the next frame, and the focus makes the list draw itself before that.
  await bob.page.waitForFunction(() => /** @type {any} */ (window).held.length > 0);
  await bob.page.evaluate(async () => {
    /** @type {HTMLElement} */ (document.querySelector('[data-row]')).focus();
    await new Promise((resolve) => { setTimeout(resolve); });
    const frames = /** @type {any} */ (window);
    window.requestAnimationFrame = frames.draw;
    for (const fn of frames.held) frames.draw(fn);
  });
  await bob.page.locator('.gone-text', { hasText: 'Redacted by alice' }).waitFor();
  await waitForCount(bob.page.getByText('hunter2'), 0);
  await done();
});

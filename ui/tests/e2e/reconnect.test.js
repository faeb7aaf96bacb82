import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { chat } from '../support/gateway.js';

const ROOM = 'room:back';
/** What a browser says on its console while nobody listens at the gateway's address. */
const UNREACHED = [/ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_CLOSED/, /WebSocket connection to .* failed/, /status of 503/];

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** The chat that a page shows, in order. */
const said = (page) => page.locator('article.chat .prose').allInnerTexts();

test('after a restart of the gateway nothing is missing and nothing is there twice', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const [alice, bob] = [await visitor(), await visitor()];
  for (const each of [alice, bob]) each.expected.push(...UNREACHED);
  await alice.signIn('alice');
  await bob.signIn('bob');
  await alice.enter(ROOM);
  await bob.enter(ROOM);
  await alice.say('before');
  await bob.page.locator('article.chat', { hasText: 'before' }).waitFor();

  await gateway.end();
  await alice.page.locator('.dot:not([data-state="live"])').waitFor();
  await bob.page.locator('.dot:not([data-state="live"])').waitFor();
  // What is written meanwhile waits, and says so by not being there yet.
  await alice.say('meanwhile');

  await gateway.serve();
  const token = await gateway.token('carol');
  for (let at = 0; at < 5; at += 1) await gateway.post(ROOM, token, chat(`away-${at}`, 'carol', `while you were away ${at}`));
  for (const each of [alice, bob]) {
    const retry = each.page.getByRole('button', { name: 'Try now' });
    if (await retry.isVisible()) await retry.click().catch(() => {});
    await each.live();
    await each.page.locator('article.chat', { hasText: 'meanwhile' }).waitFor();
    await each.page.locator('article.chat', { hasText: 'while you were away 4' }).waitFor();
  }
  await bob.say('after');
  await alice.page.locator('article.chat', { hasText: 'after' }).waitFor();

  const wanted = ['before', ...[0, 1, 2, 3, 4].map((at) => `while you were away ${at}`), 'meanwhile', 'after'].sort();
  for (const each of [alice, bob]) {
    await each.page.waitForFunction((many) => document.querySelectorAll('article.chat').length === many, wanted.length);
    assert.deepEqual((await said(each.page)).sort(), wanted);
  }
  assert.deepEqual(await said(alice.page), await said(bob.page), 'in one order for all');
  await done();
});

test('who was away for long gets every page of what was missed', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  alice.expected.push(...UNREACHED, /ERR_INTERNET_DISCONNECTED/, /ERR_NETWORK_CHANGED/);
  await alice.signIn('alice');
  await alice.enter(ROOM);
  const token = await gateway.token('bob');
  await gateway.post(ROOM, token, chat('first', 'bob', 'number -1'));
  await alice.page.locator('article.chat', { hasText: 'number -1' }).waitFor();

  await gateway.end();
  await alice.page.locator('.dot:not([data-state="live"])').waitFor();
  await alice.context.setOffline(true);
  await gateway.serve();
  for (let at = 0; at < 300; at += 1) await gateway.post(ROOM, token, chat(`n${at}`, 'bob', `number ${at}`));
  await alice.context.setOffline(false);
  const retry = alice.page.getByRole('button', { name: 'Try now' });
  if (await retry.isVisible()) await retry.click().catch(() => {});
  await alice.live();
  await alice.page.getByText(/^30[1-9] rows$/).waitFor();
  await done();
});

test('a session that ends says so, and signing in again goes on where one was', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  alice.expected.push(/status of 401/, ...UNREACHED);
  await alice.signIn('alice');
  await alice.enter(ROOM);
  await alice.say('still here');
  await alice.page.locator('article.chat', { hasText: 'still here' }).waitFor();
  await alice.context.clearCookies();
  await gateway.end();
  await gateway.serve();
  const dialog = alice.page.locator('dialog[open]');
  await dialog.getByLabel('Token').fill(alice.keep(await gateway.token('alice', { kind: 'human' })));
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await alice.live();
  await alice.page.locator('article.chat', { hasText: 'still here' }).waitFor();
  await alice.say('and again');
  await alice.page.locator('article.chat', { hasText: 'and again' }).waitFor();
  await done();
});

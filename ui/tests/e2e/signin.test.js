import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { chat, until } from '../support/gateway.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('a token signs in, and is kept nowhere', async (t) => {
  const { gateway, alice, done } = await entered(t, browser, 'room:a');
  const cookies = await alice.context.cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite, path }) => ({ httpOnly, sameSite, path })), [{ httpOnly: true, sameSite: 'Strict', path: '/' }]);
  alice.keep(cookies[0].value);
  assert.equal(await alice.page.evaluate(() => document.cookie), '');

  // The session is no bearer token, and does not open the doors that the page does not use.
  const bearer = { authorization: `Bearer ${cookies[0].value}` };
  const cookie = { cookie: `${cookies[0].name}=${cookies[0].value}`, origin: gateway.url, 'content-type': 'application/json' };
  const body = JSON.stringify(chat('forged', 'alice', 'by cookie'));
  assert.equal((await fetch(`${gateway.url}/v0/topics`, { headers: bearer })).status, 401);
  assert.equal((await fetch(`${gateway.url}/v0/topics/room:a/messages`, { method: 'POST', headers: cookie, body })).status, 401);
  assert.equal((await fetch(`${gateway.url}/v0/topics/room:a/stream`, { headers: cookie })).status, 401);
  await alice.page.reload();
  await alice.live();
  await done();
});

test('a wrong token is refused in words', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const somebody = await visitor();
  somebody.expected.push(/401/);
  await somebody.page.goto(gateway.url);
  await somebody.page.getByLabel('Token').fill('not-a-token');
  await somebody.page.getByRole('button', { name: 'Sign in' }).click();
  await somebody.page.getByRole('alert').filter({ hasText: 'does not take this token' }).waitFor();
  assert.deepEqual(await somebody.context.cookies(), []);
  await done();
});

test('a link signs in once, and leaves no trace in the address', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser, { user: 'alice' });
  const link = gateway.link ?? '';
  const code = new URLSearchParams(new URL(link).hash.slice(1)).get('code') ?? '';
  assert.ok(code.length >= 22, 'at least 128 bits');
  const alice = await visitor();
  alice.keep(code);
  await alice.page.goto(link);
  await alice.page.getByRole('heading', { name: 'Rooms' }).waitFor();
  await alice.page.getByText('alice').first().waitFor();
  await alice.page.goBack().catch(() => null);
  assert.ok(!alice.page.url().includes(code));
  await alice.page.goto(gateway.url);
  await alice.page.getByRole('heading', { name: 'Rooms' }).waitFor();

  const second = await visitor();
  second.expected.push(/401/);
  second.keep(code);
  await second.page.goto(link);
  await second.page.getByText('That link did not sign you in').first().waitFor();
  await second.page.getByLabel('Token').waitFor();
  assert.deepEqual(await second.context.cookies(), []);
  await done();
});

test('signing out ends it, in every tab and for whoever kept the cookie', async (t) => {
  const { gateway, alice, done } = await entered(t, browser, 'room:a');
  const [cookie] = await alice.context.cookies();
  const kept = { cookie: `${cookie.name}=${cookie.value}` };
  assert.equal((await fetch(`${gateway.url}/v0/session`, { headers: kept })).status, 200);
  const token = await gateway.token('watcher');
  const here = async () => (await gateway.get('/v0/topics/room:a/participants', token)).participants.length;
  assert.equal(await here(), 1);

  await alice.page.locator('.menu summary').click();
  await alice.page.getByRole('button', { name: 'Sign out' }).click();
  await alice.page.getByLabel('Token').waitFor();
  assert.deepEqual(await alice.context.cookies(), []);
  alice.expected.push(/401/);
  assert.equal((await fetch(`${gateway.url}/v0/session`, { headers: kept })).status, 401);
  assert.equal((await fetch(`${gateway.url}/v0/topics`, { headers: kept })).status, 401);
  await until(async () => (await here()) === 0, 'alice to have left the room');
  await done();
});

test('a page from elsewhere cannot use the session', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  const [cookie] = await alice.context.cookies();
  const headers = { cookie: `${cookie.name}=${cookie.value}`, 'content-type': 'application/json' };
  const ask = async (more) => (await fetch(`${gateway.url}/v0/tickets`, { method: 'POST', headers: { ...headers, ...more }, body: '{"topic":"room:a"}' })).status;
  assert.equal(await ask({ origin: gateway.url, 'sec-fetch-site': 'same-origin' }), 201);
  assert.equal(await ask({ origin: 'http://evil.example' }), 403);
  assert.equal(await ask({ origin: 'null' }), 403);
  assert.equal(await ask({}), 403);
  await done();
});

test('a second visit to a room asks for a ticket at once, and for who is signed in with it', async (t) => {
  const { alice, page, done } = await entered(t, browser, 'room:a');
  await alice.say('first visit');
  alice.asked.length = 0;
  await page.reload();
  await alice.live();
  await page.locator('article.chat', { hasText: 'first visit' }).waitFor();
  const paths = alice.asked.map((url) => new URL(url).pathname).filter((path) => !path.startsWith('/ui/'));
  const first = paths.slice(0, paths.indexOf('/v0/ws') + 1);
  assert.deepEqual(first, ['/', '/v0/tickets', '/v0/ws'], 'nothing else is waited for');
  await done();
});

test('who was signed out elsewhere finds the form, and the room behind it', async (t) => {
  const { gateway, alice, page, done } = await entered(t, browser, 'room:a');
  await alice.context.clearCookies();
  alice.expected.push(/401/);
  await page.reload();
  await page.getByLabel('Token').fill(alice.keep(await gateway.token('alice', { kind: 'human' })));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await alice.live();
  assert.match(page.url(), /#\/room\/room:a$/);
  await done();
});

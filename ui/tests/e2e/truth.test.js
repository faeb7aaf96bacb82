import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';

const ROOM = 'room:truth';
/** What a browser says on the console while nobody listens at the gateway's address. */
const UNREACHED = [/ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_CLOSED/, /WebSocket connection to .* failed/, /status of 503/];

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('a room that cannot be, and one that may not be entered, say so and try no more', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const alice = await visitor();
  const { page } = alice;
  alice.expected.push(/status of 40[03]/);
  await alice.signIn('alice', { topic: 'room:mine' });
  for (const [name, title] of [['room:other', 'other'], ['a%2Ab', 'a*b']]) {
    await page.evaluate((hash) => { location.hash = hash; }, `#/room/${name}`);
    await page.locator('.side', { hasText: title }).filter({ hasText: 'You are not in this room' }).waitFor();
    await page.locator('.banner.bad').getByRole('button', { name: 'Other rooms' }).waitFor();
    assert.equal(await page.getByText('You are alone here').count(), 0);
    assert.equal(await page.locator('#composer').count(), 0);
    assert.equal(await page.getByText('Trying again').count(), 0);
  }
  await alice.enter('room:mine');
  await page.getByText('You are alone here').waitFor();
  await done();
});

test('while the connection is lost nobody looks present, and what is not sent says so', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const [alice, bob] = [await visitor(), await visitor()];
  const { page } = alice;
  for (const each of [alice, bob]) each.expected.push(...UNREACHED);
  await alice.signIn('alice');
  await bob.signIn('bob');
  await alice.enter(ROOM);
  await bob.enter(ROOM);
  const people = page.getByRole('navigation', { name: 'People' });
  await people.getByRole('button', { name: /bob/ }).waitFor();
  await gateway.end();
  await people.getByRole('heading', { name: 'Last seen here' }).waitFor();
  await alice.say('first');
  await alice.say('second');
  const queue = page.getByRole('list', { name: 'Not sent yet' });
  await queue.getByText('second').waitFor();
  await queue.getByRole('listitem').filter({ hasText: 'first' }).getByRole('button', { name: 'Take back' }).click();
  await queue.getByText('first').waitFor({ state: 'detached' });
  await gateway.serve();
  const retry = page.getByRole('button', { name: 'Try now' });
  if (await retry.isVisible()) await retry.click().catch(() => {});
  await page.locator('article.chat', { hasText: 'second' }).waitFor();
  await queue.waitFor({ state: 'detached' });
  await people.getByRole('heading', { name: 'In the room' }).waitFor();
  assert.equal(await page.locator('article.chat', { hasText: 'first' }).count(), 0);
  await done();
});

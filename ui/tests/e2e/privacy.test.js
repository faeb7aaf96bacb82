import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { entered } from '../support/entered.js';

const ROOM = 'room:open';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('a field for a secret is refused until the person takes the risk, and says who can read it', async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { robot: { kind: 'robot' } } });
  const answer = cast.evaluate(async () => {
    const { robot } = /** @type {any} */ (window).stage.actors;
    await robot.enter();
    const properties = { user: { type: 'string' }, code: { type: 'string', format: 'password', title: 'Door code' } };
    return robot.request('alice', 'elicitation/create', { message: 'Log in', requestedSchema: { type: 'object', properties, required: ['user'] } });
  });
  const asks = page.getByRole('complementary', { name: 'For you' });
  await asks.getByText('Log in').waitFor();
  await asks.getByText('Everybody who may enter room:open can read your answer').waitFor();
  await asks.getByLabel('user').fill('ada');
  await asks.getByLabel('Door code').fill('1234');
  await asks.getByRole('button', { name: 'Answer' }).click();
  await asks.getByText('Not sent: Door code looks like a secret, and everybody in this room would read it.').waitFor();
  assert.equal(await page.locator('article.call', { hasText: '1234' }).count(), 0);
  await asks.getByText('a room that only the two of you may enter').waitFor();
  await asks.getByLabel('Send it although everybody in this room can read it').check();
  await asks.getByRole('button', { name: 'Answer' }).click();
  assert.deepEqual(await answer, { action: 'accept', content: { user: 'ada', code: '1234' } });
  await done();
});

test('a message to one person says that all can read it, and the next one is to everybody', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const [alice, bob] = [await visitor(), await visitor()];
  await alice.signIn('alice');
  await bob.signIn('bob');
  await alice.enter(ROOM);
  await bob.enter(ROOM);
  const { page } = alice;
  const to = page.locator('.composer select');
  await to.locator('option', { hasText: 'bob' }).waitFor({ state: 'attached' });
  await to.selectOption('bob');
  await page.locator('.composer').getByText('Addressed to bob, and readable by everybody in the room').waitFor();
  await alice.say('for you');
  await bob.page.locator('article.chat.called', { hasText: 'for you' }).waitFor();
  await page.waitForFunction(() => document.querySelector('.composer select')?.value === '');
  await alice.say('for all');
  await bob.page.locator('article.chat:not(.called)', { hasText: 'for all' }).waitFor();
  await done();
});

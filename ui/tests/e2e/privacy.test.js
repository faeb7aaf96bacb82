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

test('what is for one person alone is said in a room that nobody else can enter', async (t) => {
  const { visitor, done } = await scene(t, browser, { args: ['--auth-create-topics', 'anyone'] });
  const [alice, bob, carol] = [await visitor(), await visitor(), await visitor()];
  for (const [who, id] of /** @type {const} */ ([[alice, 'alice'], [bob, 'bob'], [carol, 'carol']])) {
    await who.signIn(id, { topic: '*' });
    await who.enter(ROOM);
  }
  const { page } = alice;
  const to = page.locator('.composer select');
  await to.locator('option', { hasText: 'bob' }).waitFor({ state: 'attached' });
  await to.selectOption('bob');
  await page.locator('.composer').getByRole('button', { name: 'Talk alone with bob' }).click();
  await page.getByRole('heading', { level: 1, name: 'dm:alice,bob' }).waitFor();
  await alice.live();
  await alice.say('the code is 1234');
  await page.locator('article.chat', { hasText: 'the code is 1234' }).waitFor();
  await bob.page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /alice/ }).click();
  await bob.page.getByRole('button', { name: 'Talk alone with alice' }).click();
  await bob.page.locator('article.chat', { hasText: 'the code is 1234' }).waitFor();
  carol.expected.push(/403/);
  await carol.page.evaluate(() => { location.hash = '#/room/dm:alice,bob'; });
  await carol.page.locator('.banner.bad', { hasText: 'You may not enter this room' }).waitFor();
  assert.equal(await carol.page.getByText('1234').count(), 0);
  await done();
});

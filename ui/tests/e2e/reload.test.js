import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { until } from '../support/gateway.js';

const ROOM = 'room:reload';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Alice in the room, and a robot that asks her something; the answer it gets. */
async function asked(t) {
  const { gateway, alice, cast, done } = await entered(t, browser, ROOM, { cast: { robot: { kind: 'robot' } } });
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.enter());
  const answer = cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.call('alice', 'ask_human', { question: 'Left or right?' }));
  // Whether it fails is seen where it is awaited.
  answer.catch(() => {});
  const asks = alice.page.getByRole('complementary', { name: 'For you' });
  await asks.getByText('Left or right?').waitFor();
  return { gateway, alice, page: alice.page, asks, answer, done };
}

test('a reload asks first, and loses neither the question nor half an answer', async (t) => {
  const { alice, page, asks, answer, done } = await asked(t);
  await asks.getByLabel('Your answer').fill('half an answer');
  await page.locator('#composer').fill('half a message');
  await page.reload();
  assert.equal(alice.warned, 1, 'the browser has asked before it left');
  await alice.live();
  await page.getByRole('button', { name: '1 question for you' }).waitFor();
  if (!await asks.isVisible()) await page.locator('.ask-badge').click();
  assert.equal(await asks.getByLabel('Your answer').inputValue(), 'half an answer');
  assert.equal(await page.locator('#composer').inputValue(), 'half a message');
  await asks.getByRole('button', { name: 'Answer', exact: true }).click();
  assert.match(JSON.stringify(await answer), /half an answer/);
  await page.locator('article.call[data-state="done"]', { hasText: 'ask_human' }).waitFor();
  assert.equal(await page.getByText('alice left').count(), 0);
  await done();
});

test('a form that was half filled in is so after a reload', async (t) => {
  const { alice, page, cast, done } = await entered(t, browser, ROOM, { cast: { robot: { kind: 'robot' } } });
  const answer = cast.evaluate(async () => {
    const { robot } = /** @type {any} */ (window).stage.actors;
    await robot.enter();
    const properties = { user: { type: 'string' }, size: { type: 'string', enum: ['s', 'l'] }, password: { type: 'string' } };
    return robot.request('alice', 'elicitation/create', { message: 'Who?', requestedSchema: { type: 'object', properties } });
  });
  const asks = page.getByRole('complementary', { name: 'For you' });
  await asks.getByLabel('user').fill('ada');
  await asks.getByLabel('size').selectOption('l');
  await page.reload();
  await alice.live();
  await page.getByRole('button', { name: '1 question for you' }).waitFor();
  if (!await asks.isVisible()) await page.locator('.ask-badge').click();
  assert.equal(await asks.getByLabel('user').inputValue(), 'ada');
  await asks.getByLabel('password').fill('not to be kept');
  await page.waitForFunction(() => !Object.keys(sessionStorage).some((key) => key.includes('answer.')));
  await asks.getByLabel('password').fill('');
  await asks.getByRole('button', { name: 'Answer', exact: true }).click();
  assert.deepEqual(await answer, { action: 'accept', content: { user: 'ada', size: 'l' } });
  await done();
});

test('looking at the rooms leaves none, and a question there still waits', async (t) => {
  const { gateway, page, asks, answer, done } = await asked(t);
  await page.getByRole('button', { name: 'Salon', exact: true }).click();
  await page.getByRole('heading', { name: 'Rooms' }).waitFor();
  const { participants } = await gateway.get(`/v0/topics/${ROOM}/participants`, await gateway.token('watcher'));
  assert.ok(participants.some((/** @type {any} */ each) => each.id === 'alice'));
  await page.goBack();
  await asks.getByLabel('Your answer').fill('right');
  await asks.getByRole('button', { name: 'Answer', exact: true }).click();
  assert.match(JSON.stringify(await answer), /right/);
  await done();
});

test('a call outlasts the reload of its caller, and one whose caller has left is abandoned', async (t) => {
  const { alice, page, cast, done } = await entered(t, browser, ROOM, { cast: { lab: { name: 'Lab' }, robot: {} } });
  await cast.evaluate(async () => {
    const { lab, robot } = /** @type {any} */ (window).stage.actors;
    lab.offer('work', 'takes its time', {}, () => new Promise((resolve) => { /** @type {any} */ (window).finish = resolve; }));
    lab.offer('hang', 'never ends', {}, () => new Promise(() => {}));
    await lab.enter();
    await robot.enter();
  });
  await page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /Lab/ }).click();
  const panel = page.getByRole('complementary', { name: 'Participant' });
  await panel.locator('.offer', { hasText: 'work' }).click();
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByRole('button', { name: 'Call', exact: true }).click();
  const card = page.locator('article.call', { hasText: 'work' });
  await card.and(page.locator('[data-state="running"]')).waitFor();
  await page.reload();
  await alice.live();
  await card.and(page.locator('[data-state="running"]')).waitFor();
  await cast.evaluate(() => /** @type {any} */ (window).finish('it is done'));
  await card.and(page.locator('[data-state="done"]')).waitFor();
  await card.getByText('it is done').waitFor();

  await cast.evaluate(() => { void /** @type {any} */ (window).stage.actors.robot.call('lab', 'hang').catch(() => {}); });
  const hanging = page.locator('article.call', { hasText: 'hang' });
  await hanging.and(page.locator('[data-state="running"]')).waitFor();
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.socket.close());
  await hanging.and(page.locator('[data-state="abandoned"]')).waitFor();
  await hanging.getByText('robot left before the answer').waitFor();
  await done();
});

test('whoever closes the page for good has left a moment later', async (t) => {
  const { gateway, done } = await entered(t, browser, ROOM);
  const token = await gateway.token('watcher');
  const here = async () => (await gateway.get(`/v0/topics/${ROOM}/participants`, token)).participants.map((/** @type {any} */ each) => each.id);
  await until(async () => (await here()).includes('alice'), 'alice in the room');
  await done();
  await until(async () => !(await here()).includes('alice'), 'alice gone');
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';

const ROOM = 'room:lab';
/** Whoever comes first may make the settings of a topic. */
const HOW = { args: ['--auth-create-topics', 'anyone'] };

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Alice owns a room in which calls of `move` are held; a robot has that tool, and an agent calls it. @param {import('node:test').TestContext} t */
async function lab(t) {
  const scene = await entered(t, browser, ROOM, { how: HOW, cast: { robot: { kind: 'robot' }, agent: { kind: 'agent' } } });
  await scene.cast.evaluate(async () => {
    const { robot, agent } = /** @type {any} */ (window).stage.actors;
    robot.moved = [];
    robot.offer('move', 'Moves', { x: { type: 'number' } }, (/** @type {any} */ args) => {
      robot.moved.push(args);
      return 'moved';
    });
    robot.offer('look', 'Looks', {}, () => 'seen');
    await robot.enter();
    await agent.enter();
  });
  return scene;
}

/** Fills in the form for a rule that holds `move`. @param {import('playwright-core').Page} page */
async function holdMoves(page) {
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  const panel = page.getByRole('complementary', { name: 'Room' });
  await panel.getByText('Add a rule').click();
  await panel.getByLabel('Of participant').fill('robot');
  await panel.getByLabel('Tool (').fill('move*');
  await panel.getByRole('button', { name: 'Add rule' }).click();
  await panel.getByRole('button', { name: 'Save' }).click();
  await page.locator('.notice.control', { hasText: 'changed the rules' }).waitFor();
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'detached' });
}

/** What becomes of a call of the agent's. @param {import('playwright-core').Page} cast @param {object} args */
const move = (cast, args) => cast.evaluate((given) => /** @type {any} */ (window).stage.actors.agent.call('robot', 'move', given)
  .then((/** @type {any} */ result) => result.content[0].text, (/** @type {Error} */ error) => `failed: ${error.message}`), args);

test('a held call shows its exact arguments, and is sent once approved', async (t) => {
  const { page, cast, done } = await lab(t);
  await holdMoves(page);
  const answer = move(cast, { x: 12345678901234567890n.toString() });
  const card = page.locator('.transcript article.approval');
  await card.getByText('Needs approval').waitFor();
  await card.getByText('12345678901234567890').waitFor();
  await card.getByText(/expires in/).waitFor();
  await page.getByRole('button', { name: '1 approval for you' }).waitFor();
  assert.equal(await page.evaluate(() => document.title.startsWith('(1!)')), true, 'the title says that something waits');
  assert.deepEqual(await cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.moved), [], 'nothing was sent yet');
  const asks = page.getByRole('complementary', { name: 'For you' });
  await asks.locator('article.approval').waitFor();
  await asks.getByLabel('Reason, for everybody to read').fill('the floor is clear');
  await asks.getByRole('button', { name: 'Approve' }).click();
  assert.equal(await answer, 'moved');
  await card.getByText('Approved by').waitFor();
  await card.getByText('the floor is clear').waitFor();
  // It is decided once.
  await waitForCount(card.getByRole('button', { name: 'Approve' }), 0);
  await card.getByRole('button', { name: 'Show the call' }).click();
  await page.locator('article.call[data-state="done"]', { hasText: 'move' }).waitFor();
  await done();
});

test('a denied call never reaches its callee, and its caller reads why', async (t) => {
  const { page, cast, done } = await lab(t);
  await holdMoves(page);
  const answer = move(cast, { x: 1 });
  const card = page.locator('.transcript article.approval');
  await card.getByLabel('Reason, for everybody to read').fill('people in the way');
  await card.getByRole('button', { name: 'Deny' }).click();
  assert.match(await answer, /failed: .*not approved/);
  await card.getByText('Denied by').waitFor();
  assert.deepEqual(await cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.moved), []);
  await done();
});

test('who may not decide has no buttons, and the caller can take the call back', async (t) => {
  const { page, visitor, cast, done } = await lab(t);
  await holdMoves(page);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await bob.page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /robot/ }).click();
  await bob.page.locator('.offer', { hasText: 'move' }).click();
  await bob.page.getByLabel(/^x/).fill('3');
  await bob.page.getByRole('button', { name: 'Call', exact: true }).click();
  await bob.page.locator('dialog[open]').getByRole('button', { name: 'Call', exact: true }).click();
  const card = bob.page.locator('.transcript article.approval');
  await card.getByText('You cannot decide about your own call').waitFor();
  await bob.page.getByRole('region', { name: 'Answer' }).getByText('Waits for approval').waitFor();
  assert.equal(await card.getByRole('button', { name: 'Approve' }).count(), 0);
  await card.getByRole('button', { name: 'Take the call back' }).click();
  await card.getByText('Withdrawn', { exact: true }).waitFor();
  await page.locator('.transcript article.approval[data-approval="ended"]').waitFor();
  assert.deepEqual(await cast.evaluate(() => /** @type {any} */ (window).stage.actors.robot.moved), []);
  await done();
});

test('the stop button pauses agents after a question, and resume ends that', async (t) => {
  const { page, visitor, cast, done } = await lab(t);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Stop everything in lab?' });
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await dialog.getByLabel('Reason').fill('smoke in the lab');
  await dialog.getByRole('button', { name: 'Stop everything' }).click();
  await page.locator('.notice.control', { hasText: 'smoke in the lab' }).waitFor();
  await bob.page.locator('.banner', { hasText: 'This room is stopped' }).waitFor();
  assert.equal(await bob.page.getByRole('button', { name: 'Resume' }).count(), 0, 'Bob may not resume it');
  assert.equal(await bob.page.getByRole('button', { name: 'Stop', exact: true }).count(), 0, 'nor stop it');
  const refused = () => cast.evaluate(() => /** @type {any} */ (window).stage.actors.agent.refusal());
  await cast.evaluate(() => {
    const { agent } = /** @type {any} */ (window).stage.actors;
    agent.refusal = () => new Promise((resolve) => {
      const hear = agent.socket.onmessage;
      agent.socket.onmessage = (/** @type {any} */ event) => {
        const envelope = JSON.parse(event.data);
        if (envelope.payload.event === 'error') resolve(envelope.payload.code);
        hear(event);
      };
      void agent.say('still here?');
    });
  });
  assert.equal(await refused(), 'paused');
  await page.locator('.banner').getByRole('button', { name: 'Resume' }).click();
  await page.locator('.banner', { hasText: 'This room is stopped' }).waitFor({ state: 'detached' });
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.agent.say('going on'));
  await page.locator('article.chat', { hasText: 'going on' }).waitFor();
  await done();
});

test('a participant is paused, resumed and removed from its panel', async (t) => {
  const { page, visitor, done } = await lab(t);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  bob.expected.push(/status of 403/, /WebSocket/);
  const people = page.getByRole('navigation', { name: 'People' });
  await people.getByRole('button', { name: /bob/ }).click();
  const control = page.getByRole('group', { name: 'Control bob' });
  const act = async (/** @type {string} */ name) => {
    await control.getByRole('button', { name, exact: true }).click();
    await page.locator('dialog[open]').getByRole('button', { name, exact: true }).click();
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
  };
  await act('Pause');
  await people.getByText(/paused/).waitFor();
  await bob.page.locator('.banner', { hasText: 'You are paused in this room' }).waitFor();
  assert.equal(await bob.page.locator('#composer').getAttribute('readonly') !== null, true);
  await act('End the pause');
  await bob.page.locator('.banner', { hasText: 'You are paused' }).waitFor({ state: 'detached' });
  await act('Remove');
  await bob.page.locator('.banner.bad').waitFor();
  await act('Readmit');
  await page.locator('.notice.control', { hasText: 'readmitted bob' }).waitFor();
  await done();
});

test('the settings are read by all and changed by who manages the room', async (t) => {
  const { page, visitor, done } = await lab(t);
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  const panel = page.getByRole('complementary', { name: 'Room' });
  await panel.getByText('This room has no settings').waitFor();
  await panel.getByLabel('Title').fill('Robot lab');
  await panel.getByLabel('Id of a new member').fill('bob');
  await panel.getByRole('button', { name: 'Add member' }).click();
  await panel.getByLabel('Role of bob').selectOption('observer');
  await panel.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'Robot lab' }).waitFor();
  await panel.getByText('Your role here is').waitFor();
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await bob.page.locator('.banner', { hasText: 'Your role in this room does not allow you to write' }).waitFor();
  await bob.page.getByRole('button', { name: 'Settings of this room' }).click();
  await bob.page.getByText('You may not change these settings').waitFor();
  assert.equal(await bob.page.getByLabel('Title').isDisabled(), true);
  await panel.getByLabel('Archived').check();
  await panel.getByRole('button', { name: 'Save' }).click();
  await page.locator('.banner', { hasText: 'This room is archived' }).getByRole('button', { name: 'Reopen' }).click();
  await page.locator('.banner', { hasText: 'This room is archived' }).waitFor({ state: 'detached' });
  await done();
});

test('people say what they are doing, and see it of others', async (t) => {
  const { page, cast, done } = await lab(t);
  const people = page.getByRole('navigation', { name: 'People' });
  await cast.evaluate(async () => {
    const { agent } = /** @type {any} */ (window).stage.actors;
    await agent.call('system:gateway', 'presence.set', { status: 'blocked', text: 'no floor plan' });
  });
  await people.getByText('blocked: no floor plan').waitFor();
  await people.getByRole('button', { name: 'Status…' }).click();
  const dialog = page.getByRole('dialog', { name: 'What are you doing?' });
  await dialog.getByLabel('Status').selectOption('away');
  await dialog.getByLabel('In your words').fill('at lunch');
  await dialog.getByLabel('For how long').selectOption('60');
  await dialog.getByRole('button', { name: 'Set status' }).click();
  await people.getByText('away: at lunch').waitFor();
  await dialog.waitFor({ state: 'detached' });
  await people.getByRole('button', { name: 'Status…' }).click();
  await dialog.getByLabel('Status').selectOption('');
  await dialog.getByRole('button', { name: 'Set status' }).click();
  await people.getByText('away: at lunch').waitFor({ state: 'detached' });
  await done();
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findingsInBoth } from '../support/axe.js';
import { launch, scene } from '../support/browser.js';
import { stage } from '../support/stage.js';
import { begin, play, ROOM } from '../support/story.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Each view: its name, and how one comes there from the one before. */
const VIEWS = [
  ['transcript', async (page) => { await page.locator('article.call[data-state="running"]').first().waitFor(); }],
  ['an unfolded call and the filters', async (page) => {
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.getByLabel('Failures').waitFor();
    // Into sight first: what is pressed must stand still.
    await page.locator('article.call[data-state="failed"] .call-title').scrollIntoViewIfNeeded();
    await page.locator('article.call[data-state="failed"] .call-title').click();
    await page.locator('.call-details').waitFor();
  }],
  ['inspector', async (page) => {
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.locator('article.call[data-state="failed"]').getByRole('button', { name: 'Inspect' }).click();
    await page.locator('pre.envelope').waitFor();
  }],
  ['participant', async (page) => {
    await page.keyboard.press('Escape');
    await page.locator('pre.envelope').waitFor({ state: 'detached' });
    if (await page.locator('.people-button').isVisible()) await page.locator('.people-button').click();
    await page.locator('.side').getByRole('button', { name: /Rover 2/ }).click();
    await page.locator('.offer').first().waitFor();
  }],
  ['a tool\'s form', async (page) => {
    await page.locator('.offer', { hasText: 'survey' }).click();
    await page.locator('.schema-form').waitFor();
  }],
  ['the question before a call', async (page) => {
    await page.getByRole('button', { name: 'Write JSON' }).click();
    await page.getByLabel('Arguments as JSON').fill('{"field":"north","rows":2,"camera":{"exposure":1},"tags":[]}');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.locator('dialog[open]').waitFor();
  }],
  ['keys', async (page) => {
    await page.getByRole('button', { name: 'Do not call' }).click();
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.locator('.panel').waitFor({ state: 'detached' });
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
  }],
  ['invitation', async (page) => {
    await page.getByRole('button', { name: 'Close' }).click();
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
    if (await page.locator('.people-button').isVisible()) await page.locator('.people-button').click();
    await page.getByRole('button', { name: 'Invite…' }).click();
    await page.locator('dialog.invite').waitFor();
  }],
  ['questions', async (page) => {
    await page.locator('dialog.invite').getByRole('button', { name: 'Close' }).click();
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
    if (await page.locator('.side-close').isVisible()) await page.locator('.side-close').click();
    await page.locator('.ask-badge').click();
    await page.locator('.ask').waitFor();
  }],
  ['timeline', async (page, visitor) => {
    await page.keyboard.press('Escape');
    await visitor.enter(ROOM, '/timeline');
    await page.locator('.tl-bar').first().waitFor();
    await page.getByRole('application').focus();
    await page.keyboard.press('Home');
    await page.locator('.tl-bar.picked').waitFor();
  }],
  ['timeline by call', async (page) => {
    await page.getByRole('button', { name: 'Calls', exact: true }).click();
    await page.locator('.tl-label b').first().waitFor();
  }],
];

for (const [shape, viewport] of /** @type {const} */ ([['wide', { width: 1280, height: 900 }], ['narrow', { width: 390, height: 844 }]])) {
  test(`axe finds nothing serious on any view, ${shape}, light and dark`, { timeout: 240_000 }, async (t) => {
    const { gateway, visitor, done } = await scene(t, browser);
    const ada = await visitor({ viewport, reducedMotion: 'reduce' });
    /** @type {string[]} */
    const found = [];
    const look = async (name) => { found.push(...await findingsInBoth(ada.page, name)); };
    await ada.page.goto(gateway.url);
    await ada.page.getByLabel('Token').waitFor();
    await look('sign-in');
    await ada.signIn('ada', { name: 'Countess Lovelace' });
    await ada.page.getByRole('heading', { name: 'Rooms' }).waitFor();
    await look('lobby');
    await ada.enter('room:quiet');
    await look('an empty room');
    const cast = await begin(browser, gateway);
    await ada.enter(ROOM);
    await play(cast);
    await cast.evaluate(() => {
      const { rover } = /** @type {any} */ (window).stage.actors;
      void rover.request('ada', 'elicitation/create', { message: 'The battery is at 34 %. Shall I go on?', requestedSchema: {
        type: 'object', required: ['choice'], properties: { choice: { type: 'string', title: 'What now', enum: ['go on', 'come home'] },
          reserve: { type: 'integer', title: 'Keep in reserve, %', minimum: 5, maximum: 50, default: 15 }, tell: { type: 'boolean', title: 'Tell Bert' } } } });
    });
    await ada.page.getByRole('button', { name: '1 question for you' }).waitFor();
    await ada.page.keyboard.press('Escape');
    for (const [name, go] of VIEWS) {
      await go(ada.page, ada);
      await look(name);
    }
    assert.deepEqual(found, []);
    await cast.context().close();
    await done();
  });
}

test('axe finds nothing serious where a room is controlled', { timeout: 240_000 }, async (t) => {
  const { gateway, visitor, done } = await scene(t, browser, { args: ['--auth-create-topics', 'anyone'] });
  const ada = await visitor({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  const { page } = ada;
  /** @type {string[]} */
  const found = [];
  const look = async (/** @type {string} */ name) => { found.push(...await findingsInBoth(page, name)); };
  await ada.signIn('ada', { permissions: ['operator', 'revoke'] });
  await ada.enter('room:lab');
  const cast = await stage(browser, gateway, 'room:lab', { robot: { kind: 'robot' }, agent: {} });
  await cast.evaluate(async () => {
    const { robot, agent } = /** @type {any} */ (window).stage.actors;
    await robot.enter();
    await agent.enter();
  });
  await ada.say('a message');
  await page.locator('article.chat').getByRole('button', { name: 'More' }).click();
  await page.getByRole('group', { name: 'Message' }).waitFor();
  await look('menu of a message');
  await page.keyboard.press('Escape');
  await page.getByRole('group', { name: 'Message' }).waitFor({ state: 'detached' });
  await cast.evaluate(async () => {
    const { agent } = /** @type {any} */ (window).stage.actors;
    const { id } = await agent.say('```js\nif (warm > 28) open("roof"); // now\n```', { markdown: true });
    await agent.say('or not', { about: id });
  });
  await page.locator('[data-token="comment"]').first().waitFor();
  await page.getByRole('button', { name: 'Open thread' }).click();
  await page.locator('.thread .replies article').waitFor();
  await look('thread');
  await page.keyboard.press('Escape');
  await page.getByLabel('Attach files').setInputFiles([{ name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('dig') }]);
  await page.getByRole('list', { name: 'Files of this message' }).getByText('plan.txt').waitFor();
  await look('a file to be sent');
  await page.locator('.composer').getByRole('button', { name: 'Send' }).click();
  await page.locator('.attachments').getByRole('link', { name: 'plan.txt' }).waitFor();
  await look('a file');
  await page.getByRole('button', { name: 'Status…' }).click();
  await page.locator('dialog[open]').waitFor();
  await look('status');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.locator('dialog[open]').waitFor();
  await look('rooms to go to');
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  await page.getByText('Add a rule').click();
  await page.getByLabel('Tool (').fill('move');
  await look('settings');
  await page.getByRole('button', { name: 'Add rule' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.notice.control').waitFor();
  await page.keyboard.press('Escape');
  await cast.evaluate(() => void /** @type {any} */ (window).stage.actors.agent.call('robot', 'move', { x: 1 }).catch(() => {}));
  await page.locator('.asks article.approval').waitFor();
  await look('approval');
  await page.locator('.asks').getByRole('button', { name: 'Deny' }).click();
  await page.locator('article.approval[data-approval="denied"]').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.locator('dialog[open]').waitFor();
  await look('stop');
  await page.getByRole('button', { name: 'Stop everything' }).click();
  await page.locator('.banner.bad').waitFor();
  await page.locator('.roster').getByRole('button', { name: /agent/ }).first().click();
  await page.getByRole('group', { name: 'Control agent' }).waitFor();
  await look('stopped, with a participant');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Shift+f');
  await page.getByRole('dialog', { name: 'Search all rooms' }).waitFor();
  await look('search');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Search all rooms' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Summary' }).click();
  await page.locator('dialog.run-dialog').waitFor();
  await look('summary');
  await page.locator('dialog.run-dialog').getByRole('button', { name: 'Close' }).click();
  await page.locator('dialog.run-dialog').waitFor({ state: 'detached' });
  await page.evaluate(() => { location.hash = '#/admin'; });
  await page.locator('.admin-room').waitFor();
  await look('administration');
  assert.deepEqual(found, []);
  await cast.context().close();
  await done();
});

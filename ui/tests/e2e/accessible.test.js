import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import axe from 'axe-core';
import { launch, scene } from '../support/browser.js';
import { begin, play, ROOM } from '../support/story.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** The rules whose outcome follows from the colour scheme. All others see the same page in both schemes. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** What axe finds serious on a page as it is now. @param {import('playwright-core').Page} page @param {boolean} colourOnly whether only rules on colour run */
async function findings(page, colourOnly) {
  await page.evaluate(axe.source);
  const runOnly = colourOnly
    ? { type: 'rule', values: COLOUR_RULES }
    : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };
  const { violations } = await page.evaluate((only) => /** @type {any} */ (window).axe.run(document, { runOnly: only, rules: { 'label-content-name-mismatch': { enabled: true } }, resultTypes: ['violations'] }), runOnly);
  return violations.filter((each) => each.impact === 'serious' || each.impact === 'critical')
    .map((each) => `${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.target} (${node.any[0]?.message ?? node.all[0]?.message ?? ''})`).join('; ')}`);
}

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
    const look = async (name) => {
      for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
        await ada.page.emulateMedia({ colorScheme });
        await ada.page.waitForFunction((wanted) => matchMedia(`(prefers-color-scheme: ${wanted})`).matches, colorScheme);
        found.push(...(await findings(ada.page, colorScheme === 'dark')).map((each) => `${name}, ${colorScheme}: ${each}`));
      }
    };
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

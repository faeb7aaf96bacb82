// Makes the pictures of docs/images from a lively room. A picture that no page shows fails `cargo xtask tidy`: add it to PICTURES with its page.
//
//   SALON_BIN=… node ui/tests/screenshots.mjs [NAME…]     all pictures, or those whose names contain one of these
//   SALON_BIN=… node ui/tests/screenshots.mjs --every DIR  every view, wide and narrow, light and dark, to be looked at

import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launch, Visitor } from './support/browser.js';
import { Gateway } from './support/gateway.js';
import { stage } from './support/stage.js';
import { begin, play, ROOM } from './support/story.js';

const { values: { every }, positionals: wanted } = parseArgs({ options: { every: { type: 'string' } }, allowPositionals: true });
const PLACE = every === undefined ? fileURLToPath(new URL('../../docs/images/', import.meta.url)) : `${resolve(every)}/`;
const PICTURES = ['approval-wide-light', 'asked-light', 'inspector-wide-light', 'timeline-wide-dark', 'tool-wide-light', 'transcript-narrow-dark', 'transcript-wide-light'];
const CAST = { bert: { name: 'Bert', kind: 'human' }, calc: { name: 'Calc', kind: 'agent' } };
const SHAPES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 760 } };

await mkdir(PLACE, { recursive: true });
const gateway = await Gateway.start({ user: 'ada', args: ['--auth-create-topics', 'anyone'] });
// Letters in shades of grey look the same everywhere, and take less space.
const browser = await launch(['--disable-lcd-text']);
try {
  const cast = await begin(browser, gateway, 1);
  const first = await Visitor.come(browser, gateway, { viewport: SHAPES.wide, reducedMotion: 'reduce' });
  await first.signIn('ada', { name: 'Ada' });
  await first.enter(ROOM);
  await first.say('@planner, please survey the north field and keep a short report.');
  const asked = await first.page.locator('[data-row]', { hasText: 'survey the north field' }).first().getAttribute('data-row') ?? undefined;
  const playing = play(cast, { asksAda: true, about: asked });
  await first.page.locator('.ask').waitFor();
  await look(first, 'asked');
  await first.page.getByLabel(/What now/).selectOption({ label: 'go on' });
  await first.page.locator('.ask').getByRole('button', { name: 'Answer' }).click();
  await playing;
  await first.context.close();

  for (const [shape, viewport] of Object.entries(SHAPES)) {
    const ada = await Visitor.come(browser, gateway, { viewport, reducedMotion: 'reduce' });
    await ada.page.goto(gateway.url);
    await ada.page.getByLabel('Token').waitFor();
    await look(ada, `signin-${shape}`);
    await ada.signIn('ada', { name: 'Ada' });
    await ada.page.locator('.room', { hasText: ROOM.slice('room:'.length) }).waitFor();
    await look(ada, `lobby-${shape}`);
    await ada.enter(ROOM);
    await ada.page.locator('article.call[data-state="running"]').waitFor();
    await look(ada, `transcript-${shape}`);
    await ada.enter(ROOM, '/timeline');
    await ada.page.locator('.tl-bar[data-state="running"]').waitFor();
    await ada.page.getByRole('button', { name: 'Fit' }).click();
    await ada.page.locator('.tl-bar[aria-label*="survey"]').click();
    await ada.page.locator('.tl-bar.picked').waitFor();
    await look(ada, `timeline-${shape}`);
    await ada.enter(ROOM);
    await people(ada.page, 'Rover 2');
    await ada.page.locator('.offer', { hasText: 'survey' }).click();
    await ada.page.locator('.schema-form').waitFor();
    await ada.page.locator('.schema-form select').first().selectOption({ label: 'north' });
    await look(ada, `tool-${shape}`);
    await ada.page.keyboard.press('Escape');
    await ada.page.locator('.panel').waitFor({ state: 'detached' });
    const failed = ada.page.locator('article.call[data-state="failed"]');
    await failed.locator('.call-title').scrollIntoViewIfNeeded();
    await failed.locator('.call-title').click();
    await failed.locator('.call-details').waitFor();
    await failed.getByRole('button', { name: 'Inspect' }).click();
    await ada.page.locator('pre.envelope').waitFor();
    await look(ada, `inspector-${shape}`);
    await ada.context.close();
  }
  await held();
  if (every !== undefined) {
    for (const [shape, viewport] of Object.entries(SHAPES)) {
      await operator(shape, viewport);
      await states(shape, viewport);
    }
    await troubles();
  }
} finally {
  await browser.close();
  await gateway.stop();
}

/** A call of a robot's arm that waits for Ada. */
async function held() {
  const topic = 'room:lab';
  const ada = await Visitor.come(browser, gateway, { viewport: SHAPES.wide, reducedMotion: 'reduce' });
  const { page } = ada;
  await ada.signIn('ada', { name: 'Ada' });
  await ada.enter(topic);
  const cast = await stage(browser, gateway, topic, { arm: { name: 'Arm 1', kind: 'robot' }, planner: { name: 'Planner', kind: 'agent' }, bert: { name: 'Bert', kind: 'human' } });
  await cast.evaluate(async () => {
    const { arm, planner, bert } = /** @type {any} */ (window).stage.actors;
    arm.offer('move_to', 'Moves the arm', {}, () => 'moved');
    for (const actor of [arm, planner, bert]) await actor.enter();
    await bert.say('The sample tray is on the left today.');
  });
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  await page.getByLabel('Title').fill('Robot lab');
  await page.getByText('Add a rule').click();
  await page.getByLabel('Tool (').fill('move*');
  await page.getByRole('button', { name: 'Add rule' }).click();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'Robot lab' }).waitFor();
  await page.keyboard.press('Escape');
  await cast.evaluate(() => void /** @type {any} */ (window).stage.actors.planner.call('arm', 'move_to', { x: 0.25, y: -1.5, speed: 'slow', note: 'to the sample tray' }).catch(() => {}));
  await page.locator('.asks article.approval').waitFor();
  await look(ada, 'approval-wide');
  await cast.context().close();
  await ada.context.close();
}

/** What only operators see, and the dialogs. @param {string} shape @param {{width: number, height: number}} viewport */
async function operator(shape, viewport) {
  const ada = await Visitor.come(browser, gateway, { viewport, reducedMotion: 'reduce' });
  const { page } = ada;
  await ada.signIn('ada', { name: 'Ada', permissions: ['operator', 'revoke'] });
  await ada.enter(ROOM);
  await page.getByRole('button', { name: 'Settings of this room' }).click();
  await page.locator('.settings').waitFor();
  await look(ada, `settings-${shape}`);
  await page.keyboard.press('Escape');
  await page.locator('.panel').waitFor({ state: 'detached' });
  await page.keyboard.press('Control+Shift+f');
  await page.getByLabel('Search for').fill('north');
  await page.locator('.search-all li').first().waitFor();
  await look(ada, `search-${shape}`);
  // The first Escape empties the field.
  for (let times = 0; times < 2; times += 1) await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  await page.evaluate(() => { location.hash = '#/admin'; });
  await page.locator('.admin-room').first().waitFor();
  await page.getByRole('region', { name: 'Guests' }).getByText('None.').waitFor();
  await look(ada, `admin-${shape}`);
  await page.getByRole('button', { name: 'Invite…' }).first().click();
  await page.locator('dialog.invite').waitFor();
  await look(ada, `invite-${shape}`);
  await ada.context.close();
}

/** Several rooms, and what is empty, open or being done in one. @param {string} shape @param {{width: number, height: number}} viewport */
async function states(shape, viewport) {
  const [busy, other] = [`room:greenhouse-${shape}`, `room:workshop-${shape}`];
  const ada = await Visitor.come(browser, gateway, { viewport, reducedMotion: 'reduce' });
  const { page } = ada;
  await ada.signIn('ada', { name: 'Ada' });
  await ada.enter(other);
  await page.getByText('Nothing has been said here yet').waitFor();
  await look(ada, `empty-${shape}`);
  await ada.enter(other, '/timeline');
  await page.getByText('No calls yet').waitFor();
  await look(ada, `empty-timeline-${shape}`);
  await ada.enter(busy);
  const [here, there] = [await stage(browser, gateway, busy, CAST), await stage(browser, gateway, other, { bert: CAST.bert })];
  await here.evaluate(async () => {
    const { bert, calc } = /** @type {any} */ (window).stage.actors;
    calc.offer('evaluate', 'Evaluates an expression', { expression: { type: 'string', description: 'What to evaluate' } }, ({ expression }) => `${expression.length}`);
    calc.offer('wipe', 'Forgets everything it knows', {}, () => 'gone', { annotations: { destructiveHint: true } });
    calc.offer('trace', 'Fails', {}, () => { throw new Error('Traceback (most recent call last):\n  File "calc.py", line 7, in trace\n    return 1 / 0\nZeroDivisionError: division by zero'); });
    for (const actor of [bert, calc]) await actor.enter();
    for (let at = 0; at < 6; at += 1) await bert.call('calc', 'evaluate', { expression: `${at} + 1` });
    await bert.call('calc', 'trace');
    const echo = await bert.say('Shall we open the **roof**?\n\n```js\nconst degrees = 31;\nif (degrees > 28) open("roof"); // too warm\n```', { markdown: true });
    await bert.say('I would.', { about: echo.id });
  });
  await page.getByLabel('Attach files').setInputFiles([
    { name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('first dig, then plant') }, { name: 'roof.png', mimeType: 'image/png', buffer: await page.screenshot() },
  ]);
  await page.getByRole('list', { name: 'Files of this message' }).getByText('roof.png').waitFor();
  await look(ada, `attaching-${shape}`);
  await page.locator('#composer').fill('The roof as it is now');
  await page.locator('.composer').getByRole('button', { name: 'Send' }).click();
  await page.getByRole('img', { name: 'roof.png' }).waitFor();
  await there.evaluate(async () => {
    const { bert } = /** @type {any} */ (window).stage.actors;
    await bert.enter();
    await bert.say('The saw is sharp again.');
    await bert.say('@ada, do you need it?');
  });
  const message = page.locator('article.chat', { hasText: 'Shall we open' });
  await message.locator('.more').click();
  await message.locator('.replies article').waitFor();
  if (shape === 'narrow') await page.locator('.people-button').click();
  await page.locator('.count.mentions').first().waitFor();
  await look(ada, `rooms-${shape}`);
  if (shape === 'narrow') await page.keyboard.press('Escape');
  const own = page.locator('article.chat', { hasText: 'The roof as it is now' });
  await own.hover();
  await own.getByRole('button', { name: 'More', exact: true }).click();
  await page.locator('.message-menu, .message-menu *').first().waitFor();
  await look(ada, `message-menu-${shape}`);
  await page.keyboard.press('Escape');
  await people(page, 'Calc');
  await page.locator('.offer').first().waitFor();
  await look(ada, `tools-${shape}`);
  await page.locator('.offer', { hasText: 'wipe' }).click();
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.locator('dialog[open]').waitFor();
  await look(ada, `confirm-${shape}`);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  for (const [name, open] of /** @type {const} */ ([['switcher', 'Control+k'], ['keys', '?']])) {
    await page.locator('.virtual').focus();
    await page.keyboard.press(open);
    await page.locator('dialog[open]').waitFor();
    await look(ada, `${name}-${shape}`);
    await page.keyboard.press('Escape');
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
  }
  await page.getByRole('button', { name: 'Summary' }).click();
  await page.locator('dialog[open]').waitFor();
  await look(ada, `summary-${shape}`);
  await page.keyboard.press('Escape');
  if (shape === 'narrow') await page.locator('.people-button').click();
  await page.getByRole('button', { name: 'Status…' }).click();
  await page.locator('dialog[open]').waitFor();
  await look(ada, `status-${shape}`);
  await page.keyboard.press('Escape');
  for (const each of [here, there]) await each.context().close();
  await ada.context.close();
}

/** What is said when something does not work. The gateway is ended in it, so it comes last. */
async function troubles() {
  const ada = await Visitor.come(browser, gateway, { viewport: SHAPES.wide, reducedMotion: 'reduce' });
  const { page } = ada;
  await ada.signIn('ada', { name: 'Ada', topic: 'room:f*' });
  await page.evaluate(() => { location.hash = '#/room/room:secret'; });
  await page.locator('.banner.bad').waitFor();
  await look(ada, 'forbidden-wide');
  await ada.enter(ROOM);
  await gateway.end();
  await page.locator('.banner.warn').waitFor();
  await ada.say('Does anybody hear me?');
  await page.getByText('Does anybody hear me?').first().waitFor();
  await look(ada, 'disconnected-wide');
  await ada.context.close();
}

/** Chooses somebody from those present. @param {import('playwright-core').Page} page @param {string} name */
async function people(page, name) {
  const button = page.locator('.people-button');
  if (await button.isVisible()) await button.click();
  await page.locator('.side').getByRole('button', { name }).click();
}

/** Takes the pictures of what is there now. @param {Visitor} visitor @param {string} name */
async function look({ page }, name) {
  if (wanted.length > 0 && !wanted.some((each) => name.includes(each))) return;
  // What is said for a moment only, such as that a question has come, is not part of the view.
  await page.evaluate(() => document.querySelectorAll('.toast [aria-label="Dismiss"]').forEach((close) => /** @type {HTMLElement} */ (close).click()));
  await page.locator('.toast').first().waitFor({ state: 'detached' });
  await page.mouse.move(0, 0);
  // Counts and lists follow the transcript a moment later.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    if (every === undefined && !PICTURES.includes(`${name}-${colorScheme}`)) continue;
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, colorScheme);
    const path = `${PLACE}${name}-${colorScheme}.png`;
    await page.screenshot({ path, animations: 'disabled' });
    // Fewer colours, where the tool for that is installed: nobody sees the difference, and everybody fetches less.
    spawnSync('pngquant', ['--force', '--skip-if-larger', '--strip', '--ext', '.png', '128', path]);
  }
}

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';

const ROOM = 'room:sharing';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('a message, a person and a filter have addresses that lead to them', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor({ permissions: ['clipboard-read', 'clipboard-write'] });
  const { page } = alice;
  await alice.signIn('alice');
  const token = await gateway.token('bob');
  for (let at = 0; at < 150; at += 1) await gateway.post(ROOM, token, chat(`m${at}`, 'bob', `message ${at} of many`));
  await alice.enter(ROOM);
  const copied = async (/** @type {() => Promise<void>} */ act) => {
    await page.evaluate(() => navigator.clipboard.writeText(''));
    await act();
    await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== '');
    return page.evaluate(() => navigator.clipboard.readText());
  };
  await gateway.post(ROOM, token, chat('code', 'bob', 'Run this:\n\n```sh\nls -l \'a b\'\n```', { format: 'markdown' }));
  const code = page.locator('article.chat', { hasText: 'Run this' });
  await code.locator('pre').hover();
  assert.equal(await copied(() => code.getByRole('button', { name: 'Copy the code' }).click()), 'ls -l \'a b\'');
  const row = page.locator('article.chat', { hasText: 'message 149 of many' });
  await row.hover();
  const link = await copied(() => row.getByRole('button', { name: 'Link' }).click());
  assert.match(link, /#\/room\/room:sharing\?show=m149$/);

  // Somebody else opens a link to what is far back.
  const second = await alice.tab();
  await second.goto(link.replace('m149', 'm3'));
  await second.locator('[data-row]:focus', { hasText: 'message 3 of many' }).waitFor();

  await page.getByLabel('Filter by text').fill('message 77');
  await page.getByText(/1 shown, \d+ hidden/).waitFor();
  const filtered = await copied(() => page.getByRole('search').getByRole('button', { name: 'Link' }).click());
  await second.goto('about:blank');
  await second.goto(filtered);
  await second.locator('article.chat', { hasText: 'message 77 of many' }).waitFor();
  assert.equal(await second.getByLabel('Filter by text').inputValue(), 'message 77');

  await page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /alice/ }).click();
  const panel = page.getByRole('complementary', { name: 'Participant' });
  const person = await copied(() => panel.getByRole('button', { name: 'Link' }).click());
  await second.goto('about:blank');
  await second.goto(person);
  await second.getByRole('complementary', { name: 'Participant' }).getByText('This is you').waitFor();
  await done();
});

/** Saves arguments, goes back to those of an earlier call, and calls with the saved ones; fields that the schema only allows are named by hand. */
async function again(page, panel) {
  const disk = panel.getByLabel('disk');
  await disk.fill('saved');
  await panel.getByRole('button', { name: 'Add a field' }).click();
  await panel.getByLabel('Name of field 1').fill('note');
  await panel.getByLabel('Value of note: text').fill('for later');
  await panel.getByRole('button', { name: 'Save arguments' }).click();
  const saved = panel.getByRole('region', { name: 'Saved arguments' });
  await saved.getByText('disk=saved times=4 note="for later"').first().waitFor();

  const earlier = panel.getByRole('region', { name: 'Earlier calls' });
  await earlier.getByRole('listitem').nth(1).getByRole('button', { name: /^Use/ }).click();
  await page.waitForFunction(() => /** @type {any} */ (document.querySelector('.schema-form textarea'))?.value.includes('old'));
  assert.equal(await panel.getByRole('textbox', { name: 'times' }).inputValue(), '3', 'the first call had three');
  await saved.getByRole('button', { name: /^Call again/ }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('"note": "for later"').waitFor();
  assert.ok(await dialog.getByRole('button', { name: 'Call', exact: true }).evaluate((button) => button.classList.contains('dangerous')));
  await dialog.getByRole('button', { name: 'Call', exact: true }).click();
  await panel.getByText('wiped saved 4 times, for later').first().waitFor();
  await earlier.getByRole('listitem').nth(2).waitFor();
  await saved.getByRole('button', { name: /^Remove/ }).click();
  await saved.waitFor({ state: 'detached' });
}

test('a call is made again with its arguments, copied as a command, counted and saved', async (t) => {
  const { alice, page, cast, done } = await entered(t, browser, ROOM, { window: { permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true }, cast: { lab: { name: 'Lab' }, robot: {} } });
  await cast.evaluate(async () => {
    const { lab, robot } = /** @type {any} */ (window).stage.actors;
    lab.offer('wipe', 'wipes something', { disk: { type: 'string' }, times: { type: 'integer' } },
      (args) => `wiped ${args.disk} ${args.times} times${args.note ? `, ${args.note}` : ''}`, { annotations: { destructiveHint: true } });
    lab.listed[0].inputSchema.additionalProperties = true;
    await lab.enter();
    await robot.enter();
    await robot.call('lab', 'wipe', { disk: 'it\'s <b>old</b>', times: 3 });
  });
  const cards = page.locator('article.call', { hasText: 'wipe' });
  await cards.first().and(page.locator('[data-state="done"]')).waitFor();
  await cards.first().hover();
  await cards.first().getByRole('button', { name: 'Again' }).click();
  const panel = page.getByRole('complementary', { name: 'Participant' });
  await panel.getByLabel('disk').waitFor();
  assert.equal(await panel.getByLabel('disk').inputValue(), 'it\'s <b>old</b>');
  await panel.getByLabel('times').fill('4');
  await panel.getByRole('button', { name: 'Copy as command' }).click();
  await page.getByText('Copied as a command').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()),
    `salon call ${ROOM} lab wipe --arguments '{"disk":"it'\\''s <b>old</b>","times":4}'`);
  const call = panel.getByRole('button', { name: 'Call', exact: true });
  assert.ok(await call.evaluate((button) => button.classList.contains('dangerous')), 'what may destroy looks like it');
  await call.click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Call', exact: true }).click();
  await panel.getByText('wiped it\'s <b>old</b> 4 times').first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll('article.call[data-state="done"]').length === 2);
  await again(page, panel);

  await page.getByRole('button', { name: 'Summary' }).click();
  const dialog = page.getByRole('dialog', { name: 'sharing: 3 calls' });
  await dialog.getByRole('row', { name: /^Lab wipe 3 0/ }).waitFor();
  const saved = async (/** @type {string} */ name) => {
    const [file] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('button', { name }).click()]);
    return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') };
  };
  const json = await saved('Save as JSON');
  assert.match(json.name, /^sharing-\d+\.json$/);
  assert.ok(JSON.parse(json.text).some((/** @type {any} */ each) => each.payload?.params?.name === 'wipe'));
  const [picture] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('button', { name: 'Save timeline as PNG' }).click()]);
  assert.match(picture.suggestedFilename(), /^sharing-\d+\.png$/);
  const bytes = await readFile(await picture.path());
  assert.deepEqual([...bytes.subarray(1, 4)].map((byte) => String.fromCharCode(byte)).join(''), 'PNG');
  assert.equal(bytes.readUInt32BE(16), 1600, 'its width');
  const html = await saved('Save as HTML');
  assert.match(html.text, /wiped it&#39;s &#60;b&#62;old&#60;\/b&#62; 4 times/);
  // The file shows itself, with nothing of the gateway.
  const offline = await browser.newContext({ offline: true });
  const opened = await offline.newPage();
  await opened.setContent(html.text);
  await opened.getByRole('heading', { name: ROOM }).waitFor();
  await opened.getByText('3 calls, 0 failed').waitFor();
  await offline.close();

  // A stretch of time has an address as well.
  await dialog.getByRole('button', { name: 'Close' }).click();
  await alice.enter(ROOM, '/timeline');
  await page.locator('.tl-bar').first().waitFor();
  await page.evaluate(() => navigator.clipboard.writeText(''));
  await page.getByRole('toolbar', { name: 'Timeline' }).getByRole('button', { name: 'Link' }).click();
  await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== '');
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /\/timeline\?from=[^&]+Z&to=[^&]+Z$/);
  const second = await alice.tab();
  await second.goto(link);
  await second.locator('.tl-live[aria-pressed="false"]').waitFor();
  await second.locator('.tl-bar').first().waitFor();
  await second.goto('about:blank');
  await second.goto(link.replace('/timeline', ''));
  await second.locator('[data-row]:focus').waitFor();
  await done();
});

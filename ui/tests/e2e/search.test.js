import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('what was said long ago in another room is found, and gone to', async (t) => {
  const { gateway, alice, page, done } = await entered(t, browser, 'room:here');
  const token = await gateway.token('bob');
  await gateway.post('room:there', token, chat('m0', 'bob', 'the spare key is under the **blue** flowerpot', { format: 'markdown' }));
  for (let at = 1; at <= 150; at += 1) await gateway.post('room:there', token, chat(`m${at}`, 'bob', `nothing of note, number ${at}`));
  await gateway.post('room:here', token, chat('m1', 'bob', 'a flowerpot stands here, too'));
  await page.keyboard.press('Control+Shift+f');
  const dialog = page.getByRole('dialog', { name: 'Search all rooms' });
  await dialog.getByLabel('Search for').fill('flowerpot');
  await dialog.getByRole('option').nth(1).waitFor();
  assert.deepEqual(await dialog.locator('mark').allInnerTexts(), ['flowerpot', 'flowerpot']);
  const choice = await dialog.locator('label.check').boundingBox();
  assert.ok(choice && choice.height < 40, 'the choice stands in one line');
  await dialog.getByLabel('Only in here').check();
  await page.waitForFunction(() => document.querySelectorAll('.search-all [role="option"]').length === 1);
  await dialog.getByLabel('Only in here').uncheck();
  await dialog.getByLabel('Search for').fill('"blue flowerpot"');
  await page.waitForFunction(() => document.querySelector('.search-all')?.textContent?.includes('in there'));
  await dialog.getByRole('option', { name: /blue/ }).waitFor();
  await dialog.getByLabel('Search for').press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('heading', { level: 1, name: 'there' }).waitFor();
  await page.locator('article.chat', { hasText: 'under the blue flowerpot' }).waitFor();

  await alice.enter('room:here');
  await page.getByRole('button', { name: 'Search…' }).click();
  await dialog.getByLabel('Search for').fill('unheard of');
  await dialog.getByText('Nothing found.').waitFor();
  await dialog.getByLabel('Search for').fill('<img src=x onerror=alert(1)>');
  await dialog.getByText('Nothing found.').or(dialog.getByRole('alert')).first().waitFor();
  alice.expected.push(/status of 400/);
  await done();
});

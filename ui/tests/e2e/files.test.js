import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from '../support/browser.js';
import { entered } from '../support/entered.js';

const ROOM = 'room:files';
/** One pixel. */
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('files are attached, shown small where they are pictures, and read by the others', async (t) => {
  const { page, visitor, done } = await entered(t, browser, ROOM);
  const bob = await visitor();
  await bob.signIn('bob');
  await bob.enter(ROOM);
  await page.getByLabel('Attach files').setInputFiles([
    { name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('first dig, then plant') }, { name: 'dot.png', mimeType: 'image/png', buffer: PNG },
  ]);
  await page.getByRole('list', { name: 'Files of this message' }).getByText('dot.png').waitFor();
  await page.locator('#composer').fill('the **plan**');
  await page.locator('.composer').getByRole('button', { name: 'Send' }).click();
  const message = bob.page.locator('article.chat', { hasText: 'the plan' });
  const picture = message.getByRole('img', { name: 'dot.png' });
  await picture.waitFor();
  await bob.page.waitForFunction(() => /** @type {HTMLImageElement} */ (document.querySelector('.attachments img'))?.naturalWidth === 1);
  await message.getByText('21 bytes').waitFor();
  const read = await message.getByRole('link', { name: 'plan.txt' }).evaluate(async (link) => {
    const answer = await fetch(/** @type {HTMLAnchorElement} */ (link).href);
    return [answer.status, answer.headers.get('content-disposition'), await answer.text()];
  });
  assert.equal(read[0], 200);
  assert.match(String(read[1]), /attachment/);
  assert.equal(read[2], 'first dig, then plant');
  await page.getByRole('list', { name: 'Files of this message' }).waitFor({ state: 'detached' });
  await done();
});

test('a picture is pasted, and one is left out again', async (t) => {
  const { page, done } = await entered(t, browser, ROOM);
  await page.locator('#composer').evaluate((area, bytes) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], 'pasted.png', { type: 'image/png' }));
    data.items.add(new File(['x'], 'secret.txt', { type: 'text/plain' }));
    area.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  }, [...PNG]);
  const list = page.getByRole('list', { name: 'Files of this message' });
  await list.getByText('pasted.png').waitFor();
  await list.getByRole('button', { name: 'Leave out secret.txt' }).click();
  await list.getByText('secret.txt').waitFor({ state: 'detached' });
  await page.locator('.composer').getByRole('button', { name: 'Send' }).click();
  const message = page.locator('article.chat', { hasText: 'pasted.png' });
  await message.getByRole('img', { name: 'pasted.png' }).waitFor();
  assert.equal(await page.locator('article.chat', { hasText: 'secret.txt' }).count(), 0);
  await done();
});

test('a link to something else than a file of the room is no file', async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { mallory: {} } });
  await cast.evaluate(async () => {
    const { mallory } = /** @type {any} */ (window).stage.actors;
    await mallory.enter();
    const content = ['https://evil.example/x.png', 'javascript:alert(1)', 'salon-file://../../v0/session', 'salon-file://<b>'].map((uri) => ({ type: 'resource_link', uri, name: 'x', mimeType: 'image/png' }));
    await mallory.send({ payload: { jsonrpc: '2.0', method: 'notifications/chat/message', params: { text: 'look at this', content } } });
  });
  await page.locator('article.chat', { hasText: 'look at this' }).waitFor();
  assert.equal(await page.locator('.attachments').count(), 0);
  await done();
});

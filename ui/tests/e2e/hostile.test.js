import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { launch, scene } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';
import { EVIL } from '../support/hostile.mjs';
import { stage } from '../support/stage.js';

const ROOM = 'room:evil';
const SERVER = fileURLToPath(new URL('../support/hostile.mjs', import.meta.url));

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** That nothing of what was said has become more than text, or a picture: an SVG that is one runs nothing and fetches nothing. */
async function harmless(page) {
  assert.equal(await page.evaluate(() => /** @type {any} */ (window).pwned), undefined);
  const found = await page.evaluate(() => ({
    scripts: [...document.querySelectorAll('script')].map((each) => each.getAttribute('src')),
    handlers: [...document.querySelectorAll('*')].filter((each) => [...each.attributes].some(({ name }) => /^on/i.test(name))).length,
    styles: document.querySelectorAll('style, iframe, object, embed, base, meta[http-equiv], svg script, form[action]').length,
    links: [...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href') ?? '').filter((href) => !/^(?:https?:|mailto:|#|data:application\/octet-stream)/.test(href)),
    media: [...document.querySelectorAll('img, audio, video, source')].map((each) => each.getAttribute('src') ?? '')
      .filter((src) => !/^(?:data:(?:image\/(?:png|jpeg|gif|webp|avif|bmp)|audio\/)|blob:)/.test(src)),
  }));
  assert.deepEqual(found.scripts.filter((src) => !/^ui\/[0-9a-f]{16}\/src\/(?:early|main)\.js$/.test(src ?? '')), []);
  assert.deepEqual({ ...found, scripts: [] }, { scripts: [], handlers: 0, styles: 0, links: [], media: [] });
}

test('chat is only text, whatever it says', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const token = await gateway.token('mallory', { name: `Mallory ${EVIL}` });
  const texts = [
    EVIL, `# ${EVIL}`, `[${EVIL}](javascript:window.pwned=1)`, '[x](https://a.example/"onmouseover="window.pwned=1)', `\`\`\`${EVIL}\n${EVIL}\n\`\`\``,
    '<svg/onload=window.pwned=1>', '![x](javascript:window.pwned=1)', `| ${EVIL} | b |\n|---|---|\n| ${EVIL} | c |`, '<a href="javascript:window.pwned=1">x</a>',
    `> ${EVIL}\n- ${EVIL}`, '&lt;script&gt;window.pwned=1&lt;/script&gt;', '</article></main><script>window.pwned=1</script>', `@mallory${EVIL}`,
    'https://a.example/<script>window.pwned=1</script>', '\u202Egnp.exe', '__proto__ constructor toString',
  ];
  let at = 0;
  for (const text of texts) {
    for (const format of ['plain', 'markdown']) {
      at += 1;
      await gateway.post(ROOM, token, chat(`<b>${at}`, 'mallory', text, { format, ...(at > 2 ? { correlation_id: '<b>1' } : {}) }));
    }
  }
  const alice = await visitor({ viewport: { width: 1280, height: 4000 } });
  await alice.signIn('alice');
  await alice.enter(ROOM);
  const { page } = alice;
  await page.locator('article.chat', { hasText: '__proto__' }).last().waitFor();
  await waitForCount(page.locator('article.chat'), texts.length * 2);
  await page.locator('article.chat', { hasText: '<img src=x onerror=' }).first().waitFor();
  await page.getByText('<script>window.pwned=2</script>').first().waitFor();
  await harmless(page);
  const first = page.locator('article.chat').first();
  await first.getByRole('button', { name: /Show \d+ replies/ }).click();
  await first.hover();
  await first.getByRole('button', { name: 'Inspect' }).first().click();
  await page.locator('pre.envelope').getByText('window.pwned=2').waitFor();
  await page.getByLabel('Filter by text').fill('<script>');
  await page.getByText(/shown, \d+ hidden/).waitFor();
  await harmless(page);
  await done();
});

test('names, tools, their descriptions, forms and results are only text', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  await gateway.guest(ROOM, 'evil', [process.execPath, SERVER], { name: `Evil ${EVIL}` });
  const alice = await visitor();
  await alice.signIn('alice', { name: `Alice ${EVIL}` });
  await alice.enter(ROOM);
  const { page } = alice;
  const people = page.getByRole('navigation', { name: 'People' });
  await people.getByText('Evil <img src=x').waitFor();
  await people.getByRole('button', { name: /Evil/ }).click();
  const panel = page.getByRole('complementary', { name: 'Participant' });
  await panel.locator('.offer').first().waitFor();
  await panel.getByText('Description <img src=x').first().waitFor();
  await harmless(page);
  await panel.locator('.offer').first().click();
  await panel.getByRole('button', { name: 'Call', exact: true }).waitFor();
  await harmless(page);
  await panel.getByRole('button', { name: 'Write JSON' }).click();
  await panel.getByLabel('Arguments as JSON').fill(JSON.stringify({ word: EVIL }));
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('window.pwned=1').first().waitFor();
  await harmless(page);
  await dialog.getByRole('button', { name: 'Call', exact: true }).click();
  await panel.getByText('Result <img src=x').first().waitFor();
  await harmless(page);
  const card = page.locator('article.call');
  await card.locator('.call-title').click();
  await card.locator('section[aria-label="Result"]').waitFor();
  await harmless(page);
  await page.evaluate((hash) => { location.hash = hash; }, `#/room/${ROOM}/timeline`);
  await page.locator('.tl-bar .body').first().hover();
  await page.locator('.tl-details', { hasText: 'Result <img' }).waitFor();
  await harmless(page);
  await done();
});

test('questions are only text, and can send the person nowhere unseen', async (t) => {
  const { gateway, alice, done } = await entered(t, browser, ROOM);
  const page = await stage(browser, gateway, ROOM, { mallory: { name: EVIL, kind: 'agent' } });
  await page.evaluate(async (evil) => {
    const { mallory } = /** @type {any} */ (window).stage.actors;
    await mallory.enter();
    void mallory.request('alice', 'elicitation/create', { message: evil, requestedSchema: { type: 'object', title: evil, properties: {
      name: { type: 'string', title: evil, description: evil, default: evil }, pick: { type: 'string', enum: [evil, 'b'], enumNames: [evil, evil] } } } });
    void mallory.request('alice', 'elicitation/create', { mode: 'url', message: evil, url: 'javascript:window.pwned=1', elicitationId: '1' });
    void mallory.request('alice', 'sampling/createMessage', { systemPrompt: evil, maxTokens: 1, messages: [{ role: 'user', content: { type: 'text', text: evil } }] });
    void mallory.call('alice', 'ask_human', { question: evil, choices: [evil, `[x](javascript:window.pwned=1)`] });
    void mallory.call('alice', 'show_human', { text: `${evil} [x](javascript:window.pwned=1)` });
    await mallory.send({ to: ['alice'], payload: { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'error', data: evil } } });
    await mallory.send({ payload: { jsonrpc: '2.0', method: `notifications/${evil}`, params: { evil } } });
  }, EVIL);
  await alice.page.getByRole('button', { name: /question.* for you/ }).click();
  const asks = alice.page.getByRole('complementary', { name: 'For you' });
  await asks.locator('.ask').first().waitFor();
  await asks.getByText('window.pwned=2').first().waitFor();
  await harmless(alice.page);
  await page.context().close();
  await done();
});

test('a room\'s name in the address is only a name', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  alice.expected.push(/status of 40[0-9]/, /WebSocket/);
  await alice.signIn('alice', { topic: '*' });
  for (const hash of [`#/room/${encodeURIComponent(EVIL)}`, '#/room/javascript:window.pwned=1', '#/room/%', '#/__proto__', '#code=<img src=x onerror=window.pwned=1>', '#/room//evil.example']) {
    await alice.page.goto(`${gateway.url}/${hash}`);
    await alice.page.reload();
    await alice.page.locator('#main').waitFor();
    await harmless(alice.page);
  }
  await done();
});

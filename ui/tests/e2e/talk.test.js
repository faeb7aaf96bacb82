import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('two browsers talk', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const [alice, bob] = [await visitor(), await visitor()];
  await alice.signIn('alice');
  await bob.signIn('bob', { name: 'Bob' });
  await alice.enter('room:talk');
  await bob.enter('room:talk');
  await alice.page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /Bob/ }).waitFor();

  await alice.say('Hello, Bob');
  const heard = bob.page.locator('article.chat', { hasText: 'Hello, Bob' });
  await heard.waitFor();
  await alice.page.locator('article.chat', { hasText: 'Hello, Bob' }).waitFor();

  await heard.hover();
  await heard.getByRole('button', { name: 'Reply' }).click();
  await bob.say('Hello, @alice, good day');
  const reply = alice.page.locator('article.chat', { hasText: 'Hello, @alice' });
  await reply.waitFor();
  assert.match(await reply.locator('.reply-to').innerText(), /alice\s*: Hello, Bob/);
  assert.ok(await reply.evaluate((row) => row.classList.contains('called')), 'whoever is named sees it');
  assert.ok(await reply.locator('.mention.me').isVisible());

  const root = alice.page.locator('article.chat', { hasText: 'Hello, Bob' }).first();
  await root.getByRole('button', { name: 'Show 1 reply' }).click();
  await root.locator('.replies article.chat', { hasText: 'Hello, @alice' }).waitFor();
  assert.equal(await alice.page.locator('[data-row]', { hasText: 'Hello, Bob' }).first().isVisible(), true);
  await done();
});

test('Markdown is drawn, and links can do no harm', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  const token = await gateway.token('bob');
  const text = '## Plan\n\n1. **one**\n2. `two`\n\n[good](https://a.example/) [bad](javascript:alert(1))\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet x;\n```';
  await gateway.post('room:talk', token, chat('m1', 'bob', text, { format: 'markdown' }));
  await gateway.post('room:talk', token, chat('m2', 'bob', '**plain**'));
  await alice.enter('room:talk');
  const row = alice.page.locator('article.chat', { hasText: 'Plan' });
  await row.locator('ol > li > strong', { hasText: 'one' }).waitFor();
  await row.locator('table td', { hasText: '2' }).waitFor();
  await row.locator('pre code', { hasText: 'let x;' }).waitFor();
  const links = await row.locator('a').evaluateAll((all) => all.map((a) => [a.getAttribute('href'), a.getAttribute('rel'), a.getAttribute('target')]));
  assert.deepEqual(links, [['https://a.example/', 'noopener noreferrer', '_blank']]);
  await alice.page.locator('article.chat .prose.plain', { hasText: '**plain**' }).waitFor();
  await done();
});

test('what was not seen is marked', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  const token = await gateway.token('bob');
  for (let at = 0; at < 60; at += 1) await gateway.post('room:talk', token, chat(`m${at}`, 'bob', `message ${at}\nwith a second line`));
  await alice.enter('room:talk');
  const list = alice.page.getByRole('list', { name: 'Transcript' });
  await alice.page.locator('article.chat', { hasText: 'message 59' }).waitFor();
  await list.evaluate((element) => { element.scrollTop = 0; });
  await alice.page.locator('article.chat', { hasText: 'message 0' }).first().waitFor();
  await gateway.post('room:talk', token, chat('new', 'bob', 'something new'));
  const button = alice.page.getByRole('button', { name: '1 new message' });
  await button.waitFor();
  assert.match(await alice.page.title(), /^\(1/);
  await button.click();
  await alice.page.locator('article.chat', { hasText: 'something new' }).waitFor();
  await alice.page.locator('.unread-line').waitFor();
  await done();
});

test('two tabs of one person are one participant', async (t) => {
  const { gateway, alice, done } = await entered(t, browser, 'room:talk');
  const second = await alice.tab();
  await second.goto(`${gateway.url}/#/room/room:talk`);
  await second.locator('.dot[data-state="live"]').waitFor();
  await alice.live();
  await alice.say('from the first');
  await second.locator('article.chat', { hasText: 'from the first' }).waitFor();
  const token = await gateway.token('watcher');
  const { participants } = await gateway.get('/v0/topics/room:talk/participants', token);
  assert.deepEqual(participants.map((each) => each.id), ['alice']);
  await done();
});

test('everything can be done by keyboard', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  await alice.signIn('alice');
  const token = await gateway.token('bob');
  for (const at of [1, 2, 3]) await gateway.post('room:talk', token, chat(`m${at}`, 'bob', `message ${at}`));
  await alice.enter('room:talk');
  const { page } = alice;
  await page.locator('article.chat', { hasText: 'message 3' }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? '');
  await page.locator('#composer').press('Escape');
  await page.getByRole('list', { name: 'Transcript' }).focus();
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('alice joined'));
  await page.keyboard.press('ArrowUp');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('message 3'));
  await page.keyboard.press('ArrowUp');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('message 2'));
  assert.match(await focused(), /message 2/);
  await page.keyboard.press('i');
  await page.getByRole('complementary', { name: 'Envelope' }).getByText('"message 2"').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('complementary', { name: 'Envelope' }).waitFor({ state: 'detached' });
  assert.match(await focused(), /message 2/, 'the focus is back where it was');
  await page.keyboard.press('r');
  await page.waitForFunction(() => document.activeElement?.id === 'composer');
  await page.keyboard.type('a reply');
  await page.keyboard.press('Enter');
  const reply = page.locator('article.chat', { hasText: 'a reply' });
  assert.match(await reply.locator('.reply-to').innerText(), /message 2/);
  await page.getByRole('list', { name: 'Transcript' }).focus();
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement?.id === 'filter-text');
  await page.keyboard.type('message 1');
  await page.getByText(/1 shown, \d+ hidden/).waitFor();
  await done();
});

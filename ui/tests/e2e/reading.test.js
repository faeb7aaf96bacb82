import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';
import { chat } from '../support/gateway.js';

const ROOM = 'room:reading';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('whoever arrives can write at once, and letters are no commands', async (t) => {
  const { alice, page, done } = await entered(t, browser, ROOM);
  await page.keyboard.type('tap a cat? /p');
  assert.equal(await page.locator('#composer').inputValue(), 'tap a cat? /p');
  assert.equal(await page.locator('.panel, dialog[open], .timeline').count(), 0);
  await page.reload();
  await alice.live();
  await page.waitForFunction(() => document.activeElement?.id === 'composer');
  // Outside of text fields a letter is a command, unless the person does not want that.
  const list = page.getByRole('list', { name: 'Transcript' });
  await alice.say('something to look at');
  await list.focus();
  await page.keyboard.press('?');
  await page.getByLabel('Single keys work outside of text fields').uncheck();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  await list.focus();
  await page.keyboard.press('?');
  await page.keyboard.press('t');
  assert.equal(await page.locator('dialog[open], .timeline').count(), 0);
  await page.keyboard.press('Control+k');
  await page.locator('dialog[open]').waitFor();
  await done();
});

test('the newest card stays in sight when it is unfolded, and the answer of a call does', async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { lab: { name: 'Lab' } } });
  await cast.evaluate(async () => {
    const { lab } = /** @type {any} */ (window).stage.actors;
    const text = { type: 'string' };
    lab.offer('long', 'answers at length', { one: text, two: text, three: text, four: text, five: text, six: text },
      () => Array.from({ length: 50 }, (_, at) => `line ${at} of the answer`).join('\n\n'));
    await lab.enter();
    for (let at = 0; at < 30; at += 1) await lab.say(`message ${at}`);
  });
  await page.locator('article.chat', { hasText: 'message 29' }).waitFor();
  await page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /Lab/ }).click();
  const panel = page.getByRole('complementary', { name: 'Participant' });
  await panel.locator('.offer', { hasText: 'long' }).click();
  for (const name of ['one', 'two', 'three', 'four', 'five', 'six']) await panel.getByLabel(name).fill(name);
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await page.locator('dialog[open]').getByRole('button', { name: 'Call', exact: true }).click();
  await panel.getByText('line 49 of the answer').waitFor();
  await page.waitForFunction(() => {
    const [run, body] = ['.run', '.panel-body'].map((name) => document.querySelector(name)?.getBoundingClientRect());
    return run && body && run.top >= body.top - 1 && run.top < body.top + 40;
  });

  const card = page.locator('article.call', { hasText: 'long' });
  await card.and(page.locator('[data-state="done"]')).waitFor();
  await card.locator('.call-title').click();
  await card.locator('section[aria-label="Result"]').getByText('line 49 of the answer').waitFor();
  // Unfolded it is taller than the list, and its head is in sight.
  await page.waitForFunction(() => {
    const [card, title, list] = ['article.call', 'article.call .call-title', '.virtual'].map((name) => document.querySelector(name)?.getBoundingClientRect());
    return card && title && list && card.height > list.height && title.top >= list.top - 1 && title.bottom <= list.bottom;
  });
  await card.locator('.call-title').click();
  await card.locator('section[aria-label="Result"]').waitFor({ state: 'detached' });
  await cast.evaluate(() => /** @type {any} */ (window).stage.actors.lab.say('and on'));
  await page.locator('article.chat', { hasText: 'and on' }).waitFor();
  // Folded again, the end is followed.
  await waitForCount(page.locator('.to-end'), 0);
  await done();
});

test('no message fills the screen unasked, and a word that is a name mentions nobody', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  const { page } = alice;
  await alice.signIn('alice');
  const token = await gateway.token('bob');
  const lines = Array.from({ length: 3000 }, (_, at) => `line ${at}`);
  await gateway.post(ROOM, token, chat('tall', 'bob', lines.join('\n')));
  await gateway.post(ROOM, token, chat('list', 'bob', `# tall list\n${lines.map((line) => `- ${line}`).join('\n')}`, { format: 'markdown' }));
  await gateway.post(ROOM, token, chat('word', 'bob', 'I met alice in wonderland'));
  await gateway.post(ROOM, token, chat('call', 'bob', 'and you, @alice?'));
  await alice.enter(ROOM);
  await page.locator('article.chat.called', { hasText: 'and you' }).waitFor();
  assert.equal(await page.locator('article.chat.called').count(), 1);
  for (const start of ['line 0', 'tall list']) {
    const tall = page.locator('article.chat', { hasText: start }).first();
    // In one step: rows are drawn anew while older messages come in.
    const height = await tall.evaluate((row) => { row.scrollIntoView(); return row.getBoundingClientRect().height; });
    assert.ok(height < 2500, start);
  }
  const all = page.locator('article.chat', { hasText: 'tall list' }).getByRole('button', { name: /^Show \d+ more characters$/ });
  await all.click();
  await page.locator('article.chat', { hasText: 'line 2999' }).first().waitFor();
  await page.getByRole('button', { name: 'Show less' }).click();
  await page.waitForFunction(() => [...document.querySelectorAll('article.chat')].every((row) => row.getBoundingClientRect().height < 2500));
  await done();
});

test('calls that say nothing new are one row, pictures are seen at once, and a failure is never folded away', async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { lab: { name: 'Lab' }, robot: {} } });
  const last = await cast.evaluate(async () => {
    const { lab, robot } = /** @type {any} */ (window).stage.actors;
    lab.offer('explain', '', {}, (args) => { if (args.n === 8) throw new Error('not this one\n  at line 2'); return `number ${args.n}`; });
    const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    lab.offer('picture', '', {}, () => ({ content: [{ type: 'image', mimeType: 'image/png', data }] }));
    await lab.enter();
    await robot.enter();
    for (let n = 0; n < 9; n += 1) await robot.call('lab', 'explain', { n });
    await robot.call('lab', 'picture');
  });
  assert.equal(last, undefined);
  const group = page.getByRole('button', { name: /8 × explain.*all ok/ });
  await group.waitFor();
  const failed = page.locator('article.call[data-state="failed"] .failure', { hasText: 'not this one' });
  await failed.waitFor();
  assert.equal(await failed.innerText(), 'not this one\n  at line 2', 'its lines are kept');
  await waitForCount(page.locator('article.call', { hasText: 'explain' }), 1);
  await page.locator('article.call', { hasText: 'picture' }).locator('.thumbnails img').waitFor();
  await group.click();
  await page.locator('article.call', { hasText: 'number 3' }).waitFor();
  await waitForCount(page.locator('article.call', { hasText: 'explain' }), 9);
  await group.click();
  await page.waitForFunction(() => document.querySelectorAll('article.call').length === 2);

  // What a call brought about stands in its card, and is found there.
  await cast.evaluate(async () => {
    const { lab, robot } = /** @type {any} */ (window).stage.actors;
    robot.offer('measure', '', {}, () => 'eleven degrees');
    lab.offer('report', '', {}, async (args, { about }) => {
      await lab.call('robot', 'measure', {}, about);
      return 'a report';
    });
    await robot.call('lab', 'report');
  });
  const report = page.locator('article.call', { hasText: 'report' }).first();
  await report.and(page.locator('[data-state="done"]')).waitFor();
  await report.locator('.sub-call', { hasText: 'eleven degrees' }).waitFor();
  await waitForCount(page.locator('article.call'), 3);
  await report.getByRole('button', { name: /lab → robot measure/ }).click();
  await report.locator('article.call', { hasText: 'measure' }).locator('.call-title').waitFor();
  await done();
});

test('code is coloured where its language is named, and a thread stands by itself', async (t) => {
  const { page, cast, done } = await entered(t, browser, ROOM, { cast: { bob: {}, carol: {} } });
  await cast.evaluate(async () => {
    const { bob, carol } = /** @type {any} */ (window).stage.actors;
    await bob.enter();
    await carol.enter();
    const { id } = await bob.say('Shall we?\n\n```js\nif (degrees > 28) open("roof"); // too warm\n```\n\n```\nif plain\n```', { markdown: true });
    await carol.say('I would.', { about: id });
    await carol.say('something else');
  });
  const message = page.locator('article.chat', { hasText: 'Shall we?' }).first();
  await message.locator('[data-token="keyword"]', { hasText: 'if' }).waitFor();
  assert.deepEqual(await message.locator('[data-token]').evaluateAll((parts) => parts.map((part) => `${part.getAttribute('data-token')} ${part.textContent}`)),
    ['keyword if', 'number 28', 'string "roof"', 'comment // too warm']);
  assert.equal(await message.locator('pre').first().innerText(), 'if (degrees > 28) open("roof"); // too warm');

  await message.getByRole('button', { name: 'Open thread' }).click();
  const panel = page.getByRole('complementary', { name: 'Thread' });
  await panel.locator('.replies article', { hasText: 'I would.' }).waitFor();
  assert.equal(await panel.getByText('something else').count(), 0);
  await panel.getByLabel('Reply to this thread').fill('Then **do** it');
  await page.keyboard.press('Enter');
  await panel.locator('.replies article', { hasText: 'Then do it' }).waitFor();
  await panel.getByText('2 replies').waitFor();
  await page.locator('.transcript article.chat', { hasText: 'Then do it' }).getByText('in reply to').waitFor();
  await done();
});

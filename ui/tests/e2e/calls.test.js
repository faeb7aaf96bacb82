import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { waitForCount } from '../support/count.js';
import { entered } from '../support/entered.js';
import { binary } from '../support/gateway.js';
import { stage } from '../support/stage.js';

const ROOM = 'room:work';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Alice in a room with a guest, and the guest's panel open. */
async function withGuest(t, how) {
  const { gateway, visitor, done } = await scene(t, browser, how);
  await gateway.guest(ROOM, 'lab', [binary('RMCP_SERVER_BIN')], { name: 'Lab' });
  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter(ROOM);
  await alice.page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /Lab/ }).click();
  const panel = alice.page.getByRole('complementary', { name: 'Participant' });
  await panel.getByRole('tab', { name: /Tools/ }).waitFor();
  return { gateway, alice, panel, page: alice.page, done };
}

/** Opens a tool of the guest's. */
async function open(panel, name) {
  await panel.getByRole('searchbox').fill(name);
  await panel.locator('.offer').filter({ has: panel.page().getByText(name, { exact: true }) }).first().click();
  await panel.getByRole('button', { name: 'Call', exact: true }).waitFor();
}

/** Says yes to the question before a call. */
async function agree(page, { always = false } = {}) {
  const dialog = page.locator('dialog[open]');
  await dialog.waitFor();
  if (always) await dialog.getByRole('checkbox').check();
  await dialog.getByRole('button', { name: 'Call', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

test('a guest\'s tool is called by its form, and shows its progress', async (t) => {
  const { panel, page, done } = await withGuest(t);
  await open(panel, 'slow');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await panel.getByText('Not sent: 1 error above.').waitFor();
  assert.equal(await page.locator('dialog[open]').count(), 0, 'nothing is asked, for nothing would be sent');

  // Long enough that it cannot end by itself: it is cancelled once its progress has been seen.
  await panel.getByLabel('ms').fill('600000');
  await panel.getByLabel('steps').fill('1200');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByText('"ms": 600000').waitFor();
  await dialog.getByRole('button', { name: 'Do not call' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.locator('article.call').count(), 0, 'a no is a no');

  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await agree(page);
  const card = page.locator('article.call', { hasText: 'slow' });
  await card.and(page.locator('[data-state="running"]')).waitFor();
  const value = () => card.locator('progress').getAttribute('value').then(Number);
  await page.waitForFunction(() => Number(document.querySelector('article.call progress')?.getAttribute('value')) >= 1);
  const first = await value();
  await page.waitForFunction((seen) => Number(document.querySelector('article.call progress')?.getAttribute('value')) > seen, first);
  assert.equal(await card.locator('progress').getAttribute('max'), '1200');

  await card.getByRole('button', { name: 'Cancel' }).click();
  await card.and(page.locator('[data-state="cancelled"]')).waitFor();
  await waitForCount(card.getByRole('button', { name: 'Cancel' }), 0);
  await panel.getByRole('button', { name: /All tools/ }).click();
  await open(panel, 'cancellations');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await agree(page);
  await panel.getByRole('region', { name: 'Answer' }).getByText('1', { exact: true }).first().waitFor();
  await done();
});

test('a call ends in one card with its answer, and a failure is not overlooked', async (t) => {
  const { panel, page, done } = await withGuest(t);
  await open(panel, 'echo');
  await panel.getByRole('button', { name: 'Write JSON' }).click();
  await panel.getByLabel('Arguments as JSON').fill('{"value": {"big": 12345678901234567890, "text": "äöü"}}');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await agree(page, { always: true });
  const card = page.locator('article.call', { hasText: 'echo' });
  await card.and(page.locator('[data-state="done"]')).waitFor();
  await card.locator('.took').waitFor();
  await card.locator('.call-title').click();
  await card.getByRole('region', { name: 'Arguments' }).or(card.locator('section[aria-label="Arguments"]')).first().getByText('12345678901234567890').waitFor();
  await card.locator('section[aria-label="Result"]').getByText('12345678901234567890').first().waitFor();

  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll('article.call[data-state="done"]').length === 2);
  assert.equal(await page.locator('dialog[open]').count(), 0, 'what was allowed is not asked again');

  await panel.getByRole('button', { name: /All tools/ }).click();
  await open(panel, 'test_error_handling');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await agree(page);
  const failed = page.locator('article.call[data-state="failed"]');
  await failed.locator('.failure', { hasText: 'intentionally returns an error' }).waitFor();

  // The inspector has it as it travelled.
  await card.first().getByRole('button', { name: 'Inspect' }).click();
  const inspector = page.getByRole('complementary', { name: 'Envelope' });
  await inspector.getByText('"method": "tools/call"').waitFor();
  assert.match(await inspector.locator('pre.envelope').innerText(), /12345678901234567890/);
  await inspector.getByRole('button', { name: 'Raw' }).click();
  const raw = await inspector.locator('pre.envelope').innerText();
  assert.equal(JSON.parse(raw).payload.method, 'tools/call');
  assert.ok(!raw.includes('\n'));
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await inspector.getByRole('button', { name: 'Copy' }).click();
  await page.getByText('Copied').first().waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), raw);
  await inspector.getByRole('button', { name: /^lab: answer/ }).click();
  await page.getByRole('button', { name: 'Raw' }).click();
  assert.match(await page.locator('pre.envelope').innerText(), /"result":/);

  // And it can be found by what it is.
  await page.getByRole('button', { name: /^Filters/ }).click();
  await page.getByLabel('Failures').check();
  await page.getByText(/1 shown, \d+ hidden/).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('article.call').length === 1);
  await page.getByLabel('Failures').uncheck();
  await page.getByLabel('Method or tool').fill('echo');
  await page.getByText(/2 shown, \d+ hidden/).waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.waitForFunction(() => document.querySelectorAll('article.call').length === 3);
  await done();
});

test('a question within a call is put to the person, and answered', async (t) => {
  const { panel, page, done } = await withGuest(t);
  await open(panel, 'test_elicitation');
  await panel.getByLabel('message').fill('Who are you?');
  await panel.getByRole('button', { name: 'Call', exact: true }).click();
  await agree(page);
  await page.getByRole('button', { name: '1 question for you' }).click();
  const asks = page.getByRole('complementary', { name: 'For you' });
  await asks.getByText('Who are you?').waitFor();
  const fields = asks.locator('input[type="text"], input[type="email"], textarea');
  const labels = await asks.locator('label').allInnerTexts();
  assert.ok(labels.length >= 2, `a form with a name and an address: ${labels}`);
  await fields.nth(0).fill('alice');
  await fields.nth(1).fill('alice@example.org');
  await asks.getByRole('button', { name: 'Answer' }).click();
  const card = page.locator('article.call', { hasText: 'test_elicitation' }).first();
  await card.and(page.locator('[data-state="done"]')).waitFor();
  assert.match(await card.innerText(), /action=accept/);
  assert.match(await card.innerText(), /alice@example\.org/);
  await card.locator('.sub-calls', { hasText: 'asks' }).waitFor();
  const question = page.locator('article.call[data-question]');
  await question.getByText(/during/).waitFor();
  await done();
});

test('an agent calls the person, as it would call any other server', async (t) => {
  const { gateway, alice, done } = await entered(t, browser, ROOM);
  const page = await stage(browser, gateway, ROOM, { robot: { kind: 'robot' } });
  const answer = page.evaluate(async () => {
    const { robot } = /** @type {any} */ (window).stage.actors;
    await robot.enter();
    const info = await robot.request('alice', 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'robot', version: '1' } });
    await robot.send({ to: ['alice'], payload: { jsonrpc: '2.0', method: 'notifications/initialized' } });
    const { tools } = await robot.request('alice', 'tools/list', {});
    const result = await robot.call('alice', 'ask_human', { question: 'Left or right?', choices: ['left', 'right'] });
    return { capabilities: info.capabilities, tools: tools.map((each) => each.name), result };
  });
  const badge = alice.page.getByRole('button', { name: '1 question for you' });
  await badge.waitFor();
  await badge.click();
  const asks = alice.page.getByRole('complementary', { name: 'For you' });
  await asks.getByText('Left or right?').waitFor();
  await asks.getByRole('button', { name: 'left', exact: true }).click();
  const { capabilities, tools, result } = await answer;
  assert.ok(capabilities.tools);
  assert.ok(tools.includes('ask_human'));
  assert.match(JSON.stringify(result), /left/);
  await page.context().close();
  await done();
});

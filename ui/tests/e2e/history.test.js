import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';
import { chat } from '../support/gateway.js';

const ROOM = 'room:long';
const MANY = 2000;
/** No more rows than this are in the page at once, however long the history is. */
const MAX_DRAWN = 150;

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Writes the history, several at a time; the gateway decides their order. */
async function write(gateway, token) {
  let next = 0;
  const worker = async () => {
    while (next < MANY) {
      const at = next;
      next += 1;
      await gateway.post(ROOM, token, chat(`n${at}`, 'bob', at % 7 === 0 ? `number ${at}\nwith\nmore lines` : `number ${at}`));
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

/** The history's order, the oldest first. */
async function order(gateway, token) {
  const ids = [];
  let before = '';
  do {
    const page = await gateway.get(`/v0/topics/${ROOM}/history?limit=1000${before && `&before=${before}`}`, token);
    ids.push(...page.history.filter((each) => each.kind === 'mcp').map((each) => each.id));
    before = page.next;
  } while (before);
  return ids.reverse();
}

test('two thousand envelopes are scrolled through, and none is missing', { timeout: 240_000 }, async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const token = await gateway.token('bob');
  await write(gateway, token);
  const wanted = await order(gateway, token);
  assert.equal(wanted.length, MANY);

  const alice = await visitor();
  await alice.signIn('alice');
  await alice.enter(ROOM);
  const { page } = alice;
  const list = page.getByRole('list', { name: 'Transcript' });
  await list.waitFor();
  await page.getByText('alice joined').waitFor();

  // Upwards: what is older is loaded as one comes near, and what one looks at stays where it is.
  let pages = 0;
  while (!(await page.getByText(`The beginning of ${ROOM}`).count())) {
    const rows = await page.locator('.filters output').innerText();
    await list.evaluate((element) => { element.scrollTop = 0; });
    await page.waitForFunction(({ rows: before, room }) => document.querySelector('.filters output')?.textContent?.trim() !== before
      || document.body.textContent?.includes(`The beginning of ${room}`), { rows, room: ROOM });
    pages += 1;
    assert.ok(pages < 200, 'the beginning is never reached');
    assert.ok((await page.locator('[data-row]').count()) <= MAX_DRAWN);
  }
  await page.locator('.filters output', { hasText: /^\s*200[1-9] rows\s*$/ }).waitFor();

  // Downwards: every envelope once, in the gateway's order, and never many of them in the page.
  await list.evaluate((element) => { element.scrollTop = 0; });
  const seen = await list.evaluate(async (element, most) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    /** @type {string[]} */
    const ids = [];
    const known = new Set();
    let before = -1;
    while (element.scrollTop !== before) {
      await frame();
      const rows = [...element.querySelectorAll('[data-row]')];
      if (rows.length > most) throw new Error(`${rows.length} rows are drawn`);
      for (const row of rows) {
        const id = row.getAttribute('data-row') ?? '';
        if (!known.has(id) && row.querySelector('article.chat')) ids.push(id);
        known.add(id);
      }
      before = element.scrollTop;
      element.scrollTop += element.clientHeight * 0.9;
      await frame();
    }
    return ids;
  }, MAX_DRAWN);
  assert.equal(seen.length, MANY);
  assert.deepEqual(seen, wanted);

  // And one of them is found.
  await page.getByLabel('Filter by text').fill('number 1234');
  await page.getByText(/^1 shown, 200\d hidden$/).waitFor();
  await page.locator('article.chat', { hasText: 'number 1234' }).waitFor();
  await done();
});

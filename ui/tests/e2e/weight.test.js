import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, scene } from '../support/browser.js';

/** What a first visit to a room may cost, before images. */
const MAX_BYTES = 150_000;

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('a visit to a room weighs little, and a second one next to nothing', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const alice = await visitor();
  const { page } = alice;
  await alice.signIn('alice');
  await alice.enter('room:weight');
  await page.waitForLoadState('networkidle');
  const visit = await weight(page);
  t.diagnostic(`a visit to a room: ${visit.sent} bytes with headers, ${visit.wire} without, ${visit.written} as written, ${visit.files} files`);
  assert.ok(visit.sent < MAX_BYTES, `${visit.sent} bytes`);
  await everything(alice);
  const first = await weight(page);
  t.diagnostic(`every view: ${first.wire} bytes on the wire, ${first.written} as written, ${first.files} files`);

  await page.goto(gateway.url);
  await page.reload();
  await everything(alice);
  const second = await weight(page);
  t.diagnostic(`the second visit: ${second.sent} bytes with headers, ${second.asked} files asked for`);
  assert.equal(second.asked, 1, 'only the page itself is asked for again');
  await done();
});

/** Looks at every view: some are fetched only when somebody does. */
async function everything(visitor) {
  const { page } = visitor;
  await visitor.enter('room:weight');
  await visitor.say('how heavy?');
  const row = page.locator('article.chat', { hasText: 'how heavy?' }).last();
  await row.hover();
  await row.getByRole('button', { name: 'Inspect' }).click();
  await page.locator('pre.envelope').waitFor();
  await page.locator('.ask-badge').click();
  await page.locator('.asks').waitFor();
  await page.getByRole('navigation', { name: 'People' }).getByRole('button', { name: /gateway/ }).click();
  await page.locator('.offer').first().click();
  await page.locator('.schema-form').waitFor();
  await visitor.enter('room:weight', '/timeline');
  await page.getByRole('heading', { name: 'No calls yet' }).waitFor();
  await page.waitForLoadState('networkidle');
}

/** What a visit took: bodies as they were sent, as they were written, and everything with headers. */
function weight(page) {
  return page.evaluate(() => {
    const entries = /** @type {PerformanceResourceTiming[]} */ ([...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]);
    const ours = entries.filter((entry) => entry.initiatorType === 'navigation' || entry.name.includes('/ui/'));
    const sum = (/** @type {(entry: PerformanceResourceTiming) => number} */ of) => ours.reduce((total, entry) => total + of(entry), 0);
    return { files: ours.length, asked: ours.filter((entry) => entry.transferSize > 0).length, wire: sum((entry) => entry.encodedBodySize), written: sum((entry) => entry.decodedBodySize), sent: sum((entry) => entry.transferSize) };
  });
}

test('what is served says how it may be used', async (t) => {
  const { gateway } = await scene(t, browser);
  const answer = await fetch(gateway.url);
  const policy = answer.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self'(?:;|$)/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
  assert.equal(answer.headers.get('cross-origin-opener-policy'), 'same-origin');
  assert.equal(answer.headers.get('cache-control'), 'no-cache');
  const main = /"(ui\/[0-9a-f]{16}\/src\/main\.js)"/.exec(await answer.text())?.[1] ?? '';
  const forever = await fetch(`${gateway.url}/${main}`);
  assert.match(forever.headers.get('cache-control') ?? '', /immutable/);
  const another = await fetch(`${gateway.url}/ui/0123456789abcdef/src/main.js`);
  assert.equal(another.headers.get('cache-control'), 'no-cache', 'what another version of the page asks for is not kept');
  assert.equal(await another.text(), await forever.text());
  const script = await fetch(`${gateway.url}/ui/src/main.js`);
  assert.match(script.headers.get('content-type') ?? '', /javascript/);
  const tag = script.headers.get('etag') ?? '';
  assert.equal((await fetch(`${gateway.url}/ui/src/main.js`, { headers: { 'if-none-match': tag } })).status, 304);
  for (const path of ['/ui/', '/ui/../Cargo.toml', '/ui/%2e%2e/Cargo.toml', '/ui/package.json', '/ui/tests/run', '/ui/node_modules/typescript/package.json']) {
    assert.equal((await fetch(gateway.url + path)).status, 404, path);
  }
});

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { findingsInBoth } from '../support/axe.js';
import { launch, scene } from '../support/browser.js';
import { binary } from '../support/gateway.js';

const ROOM = 'room:office';

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('an operator invites somebody by a link that works once, for one room', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const [alice, carol, late] = [await visitor(), await visitor(), await visitor()];
  await alice.signIn('alice', { permissions: ['operator'] });
  await alice.enter(ROOM);
  const { page } = alice;
  await page.getByRole('button', { name: 'Invite…' }).click();
  await page.getByLabel('Name of whom you invite').fill('carol');
  await page.getByRole('button', { name: 'Make a link for carol' }).click();
  const link = await page.getByRole('region', { name: 'Link for carol' }).locator('code').innerText();
  const code = /#code=([0-9a-f]+)/.exec(link)?.[1] ?? '';
  assert.notEqual(code, '', link);
  carol.keep(code);
  await carol.page.goto(link);
  await carol.live();
  await carol.page.getByRole('heading', { level: 1, name: 'office' }).waitFor();
  await page.locator('.roster-name', { hasText: 'carol' }).waitFor();
  const opened = await carol.page.evaluate(async () => (await fetch('v0/session')).json());
  assert.deepEqual([opened.participant.id, opened.participant.kind, opened.topics, opened.permissions ?? []], ['carol', 'human', [ROOM], []]);
  late.expected.push(/status of 40/);
  await late.page.goto(link);
  await late.page.getByText('That link did not sign you in').waitFor();
  // Only operators make links.
  const refused = await carol.page.evaluate(async (topic) => (await fetch('v0/invitations', {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ topic, id: 'dave' }) })).status, ROOM);
  assert.equal(refused, 403);
  carol.expected.push(/status of 403/);
  const answer = await fetch(`${gateway.url}/v0/invitations`, { method: 'POST', body: JSON.stringify({ topic: ROOM, id: 'dave' }) });
  assert.equal(answer.status, 401);
  await done();
});

test('an operator sees who is where, and revokes tokens', async (t) => {
  const { visitor, done } = await scene(t, browser);
  const [alice, bob] = [await visitor(), await visitor()];
  await bob.signIn('bob');
  await bob.enter(ROOM);
  assert.equal(await bob.page.getByRole('button', { name: 'Administration' }).count(), 0);
  await alice.signIn('alice', { permissions: ['operator', 'revoke'] });
  const { page } = alice;
  await page.locator('.menu summary').click();
  await page.getByRole('button', { name: 'Administration' }).click();
  await page.getByRole('heading', { level: 1, name: 'Administration' }).waitFor();
  const room = page.locator('.admin-room', { hasText: 'office' });
  await room.getByText('bob').first().waitFor();
  bob.expected.push(/status of 401/, /WebSocket/);
  await page.getByLabel('Id of the participant').fill('bob');
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText(/^Revoked: tokens issued up to/).waitFor();
  await bob.page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
  await room.getByRole('button', { name: 'office', exact: true }).click();
  await alice.live();
  await done();
});

test('an operator sees the guests that the gateway hosts, and how long rooms are kept', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const guests = `[topics."${ROOM}".guests.calc]\ncommand = ${JSON.stringify(binary('RMCP_SERVER_BIN'))}\n`
    + `[topics."${ROOM}".guests.broken]\ncommand = "/nowhere/at-all"\n`;
  await gateway.end();
  await writeFile(join(gateway.data, 'salon.toml'), `[retention]\nage = "30d"\n${guests}`);
  gateway.args = ['--config', join(gateway.data, 'salon.toml')];
  await gateway.serve();
  const alice = await visitor();
  await alice.signIn('alice', { permissions: ['operator'] });
  await alice.enter(ROOM);
  const { page } = alice;
  await page.locator('.roster-name', { hasText: 'calc' }).waitFor();
  await page.evaluate(() => { location.hash = '#/admin'; });
  const row = (/** @type {string} */ id) => page.getByRole('region', { name: 'Guests' }).getByRole('row', { name: id });
  await row('calc').getByText('in the room').waitFor();
  await row('broken').getByText('not running').waitFor();
  await page.locator('.admin-room', { hasText: 'office' }).getByText('kept for 30 days').waitFor();
  assert.deepEqual(await findingsInBoth(page, 'guests'), []);
  // Others are not told.
  const token = await gateway.token('bob');
  const answer = await fetch(`${gateway.url}/v0/guests`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 403);
  await done();
});

test('an invitation ends with the token that made it', async (t) => {
  const { gateway, visitor, done } = await scene(t, browser);
  const carol = await visitor();
  const [maker, admin] = [await gateway.token('alice', { permissions: ['operator'] }), await gateway.token('root', { permissions: ['revoke'] })];
  const post = async (/** @type {string} */ path, /** @type {string} */ token, /** @type {object} */ body) => (await fetch(gateway.url + path, {
    method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: JSON.stringify(body) })).json();
  const { fragment } = await post('/v0/invitations', maker, { topic: ROOM, id: 'carol' });
  carol.keep(/#code=([0-9a-f]+)/.exec(fragment)?.[1] ?? '');
  await carol.page.goto(`${gateway.url}/${fragment}&room=${encodeURIComponent(ROOM)}`);
  await carol.live();
  carol.expected.push(/status of 401/, /WebSocket/);
  const { jti } = JSON.parse(Buffer.from(maker.split('.')[1], 'base64url').toString());
  await post('/v0/auth/revocations', admin, { token: jti });
  await carol.page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
  await done();
});

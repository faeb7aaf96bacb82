import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { beforeEach, test } from 'node:test';
import { Salon } from '../../src/app.js';
import { Gateway, HttpProblem } from '../../src/net/session.js';

beforeEach((t) => {
  t.mock?.timers.enable({ apis: ['setTimeout'] });
  globalThis.location = /** @type {any} */ ({ hash: '' });
});

const session = (id) => ({ participant: { id }, topics: ['*'], expires: '2100-01-01T00:00:00Z', allow: [] });

/** Tabs of one browser, and the gateway that has its cookie. */
class Browser {
  /** Who the cookie says it is. */
  who = null;
  salons = [];
  /** What signing out fails with. */
  problem = null;
  /** Whether the cookie goes all the same. */
  cleared = true;

  gateway = {
    session: async () => (this.who === null ? null : session(this.who)),
    signIn: async ({ token }) => session(this.who = token),
    signOut: async () => {
      if (!this.problem || this.cleared) this.who = null;
      if (this.problem) throw this.problem;
    },
  };

  tab() {
    const hears = [];
    const open = (hear) => {
      hears.push(hear);
      return { tell: (who) => this.others(salon, who), close: () => {} };
    };
    const salon = new Salon(/** @type {any} */ (this.gateway), open);
    salon.heard = (who) => hears.forEach((hear) => hear(who));
    this.salons.push(salon);
    return salon;
  }

  others(salon, who) {
    for (const each of this.salons) if (each !== salon) each.heard(who);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const who = (salon) => salon.session?.participant.id ?? null;
const told = (salon) => salon.toasts.list.map((toast) => toast.text);

test('signing out in one tab ends it in all', async () => {
  const browser = new Browser();
  const [one, two] = [browser.tab(), browser.tab()];
  await one.account.signIn('alice');
  await two.account.look();
  assert.deepEqual([who(one), who(two)], ['alice', 'alice']);
  await one.account.signOut();
  assert.deepEqual([who(one), who(two), browser.who], [null, null, null]);
  assert.deepEqual(told(two), ['You have signed out in another tab.']);
});

test('who signs in as somebody else does so in all tabs', async () => {
  const browser = new Browser();
  const [one, two] = [browser.tab(), browser.tab()];
  await one.account.signIn('alice');
  await settled();
  await two.account.signIn('owner');
  await settled();
  assert.deepEqual([who(one), who(two)], ['owner', 'owner']);
  assert.deepEqual(told(one), ['This browser is signed in as owner now.']);
});

test('a sign-out that the gateway could not write down is one all the same', async () => {
  const browser = new Browser();
  const salon = browser.tab();
  await salon.account.signIn('alice');
  browser.problem = new HttpProblem(500, 'internal', 'signed out, but after a restart …');
  await salon.account.signOut();
  assert.equal(who(salon), null);
  assert.match(told(salon)[0], /^You are signed out here\. .*after a restart/);
});

test('a sign-out that did not happen is told as such', async () => {
  const browser = new Browser();
  const salon = browser.tab();
  await salon.account.signIn('alice');
  Object.assign(browser, { problem: new HttpProblem(403, 'forbidden', 'not from here'), cleared: false });
  await salon.account.signOut();
  assert.equal(who(salon), 'alice');
  assert.deepEqual(told(salon), ['You are still signed in: not from here']);
});

test('a link takes nobody\'s place unasked', async () => {
  const browser = new Browser();
  browser.gateway.signIn = async ({ code }) => session(browser.who = code);
  const salon = browser.tab();
  await salon.account.offerLink('owner');
  assert.deepEqual([who(salon), salon.account.linkCode], ['owner', null], 'nobody was here');
  await salon.account.offerLink('mallory');
  assert.deepEqual([who(salon), browser.who, salon.account.linkCode], ['owner', 'owner', 'mallory']);
  await salon.account.answerLink(false);
  assert.deepEqual([who(salon), salon.account.linkCode], ['owner', null]);
  const later = browser.tab();
  await later.account.offerLink('mallory');
  assert.deepEqual([who(later), later.account.linkCode], ['owner', 'mallory'], 'also by a cookie of before');
  await later.account.answerLink(true);
  assert.deepEqual([who(later), browser.who], ['mallory', 'mallory']);
});

test('a panel that opened by itself and was closed opens by itself no more', () => {
  globalThis.document = /** @type {any} */ ({ activeElement: null });
  globalThis.HTMLElement = /** @type {any} */ (class {});
  const salon = new Browser().tab();
  salon.say('bob asks you something', 'info', 'asks');
  salon.say('something else');
  salon.openQuietly({ panel: 'asks' });
  assert.deepEqual([salon.panel, told(salon)], [{ panel: 'asks' }, ['something else']], 'what spoke of it is gone');
  salon.close();
  salon.openQuietly({ panel: 'asks' });
  assert.equal(salon.panel, null);
  salon.open({ panel: 'asks' });
  salon.close();
  salon.openQuietly({ panel: 'asks' });
  assert.deepEqual(salon.panel, { panel: 'asks' }, 'until the person has looked');
});

test('the page asks below its own address, which a proxy may have moved', async () => {
  const asked = [];
  const gateway = new Gateway(/** @type {any} */ (async (path) => {
    asked.push(path);
    return { ok: true, text: async () => '{"topics":[],"ticket":"t","history":[]}', headers: new Headers() };
  }));
  await gateway.session();
  await gateway.signIn({ token: 't' });
  await gateway.signOut();
  await gateway.ticket('room:a');
  await gateway.topics();
  await gateway.history('room:a', { limit: 1 });
  const page = await readFile(new URL('../../index.html', import.meta.url), 'utf8');
  asked.push(...[...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, address]) => address));
  assert.ok(asked.length > 10);
  for (const each of asked) assert.ok(new URL(each, 'https://example.org/salon/').href.startsWith('https://example.org/salon/'), each);
});

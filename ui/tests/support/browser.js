// A real browser, and what must hold on every page whatever the test is about: no violation of the content security policy, no error on the
// console, nobody asked but the gateway, and no secret in an address, in the page or in what scripts can store.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--disable-sync', '--disable-dev-shm-usage', '--no-proxy-server'];

/** Debian's browser, unless CHROMIUM names another. @param {string[]} [more] arguments */
export function launch(more = []) {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: [...ARGS, ...more], headless: true });
}

/** One browser's window, watched. */
export class Visitor {
  /** @param {import('playwright-core').Browser} browser @param {import('./gateway.js').Gateway} gateway @param {object} [options] of the context */
  static async come(browser, gateway, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en-GB', ...options });
    // A busy machine needs more.
    context.setDefaultTimeout(Number(process.env.UI_TEST_TIMEOUT_MS ?? 60_000));
    const visitor = new Visitor(context, gateway);
    visitor.page = await visitor.tab();
    return visitor;
  }

  /** @param {import('playwright-core').BrowserContext} context @param {import('./gateway.js').Gateway} gateway */
  constructor(context, gateway) {
    this.context = context;
    this.gateway = gateway;
    /** @type {string[]} what went wrong, unasked */
    this.trouble = [];
    /** @type {RegExp[]} what a test expects on the console, such as a connection that is refused while nobody listens */
    this.expected = [];
    /** @type {string[]} what must be nowhere */
    this.secrets = [];
    /** How often the browser has asked before it left the page. */
    this.warned = 0;
    /** @type {string[]} every address asked for */
    this.asked = [];
    this.page = /** @type {import('playwright-core').Page} */ (/** @type {unknown} */ (null));
  }

  /** A new tab, watched as well. */
  async tab() {
    const page = await this.context.newPage();
    page.on('pageerror', (error) => this.trouble.push(`error: ${error.stack ?? error}`));
    page.on('console', (message) => {
      if (message.type() !== 'error' && message.type() !== 'warning') return;
      const told = `console: ${message.text()} (${message.location().url})`;
      // Who is not signed in yet is told so, which the browser takes for an error.
      if (!/status of 401 .*\/v0\/session\)$/.test(told)) this.trouble.push(told);
    });
    page.on('dialog', (dialog) => {
      if (dialog.type() === 'beforeunload') {
        this.warned += 1;
        void dialog.accept();
        return;
      }
      this.trouble.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on('request', (request) => this.asked.push(request.url()));
    page.on('websocket', (socket) => this.asked.push(socket.url()));
    await page.exposeFunction('__violated', (/** @type {string} */ told) => this.trouble.push(`policy: ${told}`));
    await page.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        /** @type {any} */ (window).__violated(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
      });
    });
    return page;
  }

  /** @param {string} text that must not be found anywhere */
  keep(text) {
    this.secrets.push(text);
    return text;
  }

  /** Signs in by the form. @param {string} id @param {{name?: string, topic?: string, permissions?: string[]}} [as] */
  async signIn(id, as = {}) {
    const token = this.keep(await this.gateway.token(id, { kind: 'human', ...as }));
    await this.page.goto(this.gateway.url);
    await this.page.getByLabel('Token').fill(token);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    // The form is in a `main` of its own.
    await this.page.locator('main:not(.alone)').first().waitFor();
    return token;
  }

  /** Goes into a room. @param {string} topic @param {string} [view] */
  async enter(topic, view = '') {
    await this.page.evaluate((hash) => { location.hash = hash; }, `#/room/${topic}${view}`);
    await this.live();
  }

  /** Waits until the connection is. */
  async live() {
    await this.page.locator('.dot[data-state="live"]').first().waitFor();
  }

  /** @param {string} text */
  async say(text) {
    await this.page.locator('#composer').fill(text);
    await this.page.keyboard.press('Enter');
  }

  /** What must hold in the end; then the window closes. */
  async leave() {
    for (const page of this.context.pages()) {
      const seen = await page.evaluate(() => JSON.stringify({
        html: document.documentElement.outerHTML, local: { ...localStorage }, session: { ...sessionStorage }, cookie: document.cookie,
        address: location.href, past: performance.getEntriesByType('resource').map((entry) => entry.name),
      }));
      for (const secret of this.secrets) assert.ok(!seen.includes(secret), 'a secret is in the page, its address or its storage');
    }
    for (const secret of this.secrets) {
      assert.ok(!this.asked.some((url) => url.includes(secret)), 'a secret was in an address');
      assert.ok(!this.gateway.written.some((line) => line.includes(secret)), 'a secret is in the gateway\'s log');
    }
    const { host } = new URL(this.gateway.url);
    const elsewhere = this.asked.filter((url) => !/^(?:data|blob|about):/.test(url) && new URL(url).host !== host);
    assert.deepEqual(elsewhere, [], 'somebody else was asked for something');
    const left = this.trouble.filter((told) => !this.expected.some((each) => each.test(told)));
    await this.context.close();
    assert.deepEqual(left, []);
  }
}

/**
 * Gives a test a gateway and visitors, and ends them all after it, also when it fails.
 * @param {import('node:test').TestContext} t
 * @param {import('playwright-core').Browser} browser
 * @param {{args?: string[], user?: string}} [how]
 */
export async function scene(t, browser, how) {
  const { Gateway } = await import('./gateway.js');
  const gateway = await Gateway.start(how);
  /** @type {Visitor[]} */
  const visitors = [];
  t.after(async () => {
    await Promise.all(visitors.map((visitor) => visitor.context.close().catch(() => {})));
    await gateway.stop();
  });
  return {
    gateway,
    /** @param {object} [options] */
    async visitor(options) {
      const visitor = await Visitor.come(browser, gateway, options);
      visitors.push(visitor);
      return visitor;
    },
    async done() {
      for (const visitor of visitors) await visitor.leave();
    },
  };
}

// Debian's Firefox, driven by WebDriver BiDi (https://www.w3.org/TR/webdriver-bidi/) over the WebSocket that Node has. Playwright needs a Firefox
// of its own, which would have to be downloaded.

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** How long anything may take, in milliseconds: the machine may be busy. */
const GIVE_UP_AFTER = 60_000;

export class Firefox {
  /** @param {string} path of the program */
  static async launch(path) {
    const profile = await mkdtemp(join(tmpdir(), 'salon-firefox-'));
    const child = spawn(path, ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0', 'about:blank'],
      { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: profile, MOZ_DISABLE_CONTENT_SANDBOX: '1' } });
    const address = await within(new Promise((resolve, reject) => {
      createInterface({ input: child.stderr }).on('line', (line) => {
        const found = /WebDriver BiDi listening on (ws:\S+)/.exec(line);
        if (found) resolve(found[1]);
      });
      child.once('exit', (code) => reject(new Error(`Firefox ended with ${code}`)));
    }), 'Firefox to start');
    const socket = new WebSocket(`${address}/session`);
    await within(new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error(`${address} does not answer`));
    }), 'a connection to Firefox');
    const firefox = new Firefox(child, socket, profile);
    await firefox.command('session.new', { capabilities: {} });
    await firefox.command('session.subscribe', { events: ['log.entryAdded'] });
    const { contexts } = await firefox.command('browsingContext.getTree', {});
    firefox.context = contexts[0].context;
    return firefox;
  }

  /** @param {import('node:child_process').ChildProcess} child @param {WebSocket} socket @param {string} profile */
  constructor(child, socket, profile) {
    this.child = child;
    this.socket = socket;
    this.profile = profile;
    this.context = '';
    this.sent = 0;
    /** @type {Map<number, {resolve: (result: any) => void, reject: (error: Error) => void}>} */
    this.open = new Map();
    /** @type {string[]} errors on the console, and of scripts */
    this.trouble = [];
    socket.onmessage = ({ data }) => this.hear(JSON.parse(String(data)));
  }

  /** @param {any} message */
  hear(message) {
    if (message.type === 'event') {
      const { level, text, source } = message.params ?? {};
      // Who is not signed in yet is told so, which the browser may take for an error.
      if (message.method === 'log.entryAdded' && level === 'error') this.trouble.push(`${text} ${source?.url ?? ''}`);
      return;
    }
    const asked = this.open.get(message.id);
    this.open.delete(message.id);
    if (message.type === 'success') asked?.resolve(message.result);
    else asked?.reject(new Error(`${message.error}: ${message.message}`));
  }

  /** @param {string} method @param {object} params @param {string} [what] for the error where it takes too long @returns {Promise<any>} */
  command(method, params, what = method) {
    const id = this.sent += 1;
    const answer = new Promise((resolve, reject) => this.open.set(id, { resolve, reject }));
    this.socket.send(JSON.stringify({ id, method, params }));
    return within(answer, what);
  }

  /** @param {string} url */
  goto(url) {
    return this.command('browsingContext.navigate', { context: this.context, url, wait: 'complete' });
  }

  /** What a function makes in the page; its arguments and its result are JSON. @param {(...args: any[]) => any} work @param {any[]} args */
  async evaluate(work, ...args) {
    const expression = `(async () => JSON.stringify(await (${work})(...${JSON.stringify(args)})) ?? 'null')()`;
    const answer = await this.command('script.evaluate', { expression, target: { context: this.context }, awaitPromise: true }, `${work} ${JSON.stringify(args)}`.slice(-400));
    if (answer.type !== 'success') throw new Error(answer.exceptionDetails?.text ?? 'the script failed');
    return JSON.parse(answer.result.value);
  }

  /** Waits until a function holds in the page. @param {(...args: any[]) => any} holds @param {any[]} args */
  until(holds, ...args) {
    return this.evaluate(/** @type {any} */ (`async (...args) => { while (!(${holds})(...args)) await new Promise((resolve) => setTimeout(resolve, 30)); }`), ...args);
  }

  /** Types, as a keyboard does. @param {string} text */
  async type(text) {
    const actions = [...text].flatMap((value) => [{ type: 'keyDown', value }, { type: 'keyUp', value }]);
    await this.command('input.performActions', { context: this.context, actions: [{ type: 'key', id: 'keys', actions }] });
  }

  async close() {
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    await this.command('browser.close', {}).catch(() => {});
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    await within(gone, 'Firefox to end').catch(() => this.child.kill('SIGKILL'));
    await rm(this.profile, { recursive: true, force: true });
  }
}

/** @template T @param {Promise<T>} promise @param {string} what @returns {Promise<T>} */
function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), GIVE_UP_AFTER); });
  return Promise.race([promise, /** @type {Promise<never>} */ (late)]).finally(() => clearTimeout(timer));
}

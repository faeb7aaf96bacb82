// A real gateway for a test: the `salon` binary that SALON_BIN names, on a port of its own and with a data directory that ends with it.

import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** @param {string} name of a variable that must name a binary */
export function binary(name) {
  const path = process.env[name];
  if (!path) throw new Error(`${name} must name a binary; ui/tests/run sets it`);
  return path;
}

export class Gateway {
  /** @param {string} data */
  constructor(data) {
    this.data = data;
    this.port = 0;
    /** @type {import('node:child_process').ChildProcess|null} */
    this.process = null;
    /** @type {import('node:child_process').ChildProcess[]} */
    this.guests = [];
    /** @type {string[]} everything it has written, to find what must not be there */
    this.written = [];
    /** @type {string|null} the one-time link */
    this.link = null;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** @param {{args?: string[], user?: string}} [how] */
  static async start({ args = [], user = 'alice' } = {}) {
    const gateway = new Gateway(await mkdtemp(join(tmpdir(), 'salon-ui-')));
    gateway.args = args;
    gateway.user = user;
    await gateway.serve();
    return gateway;
  }

  /** Begins to serve; again at the same address after `end`. */
  async serve() {
    const given = ['serve', '--open', '--listen', `127.0.0.1:${this.port}`, '--data', this.data, '--log-format', 'json', '--sqlite-durability', 'os',
      '--limits-rate', '0', '--times-drain-deadline', '1s', ...(this.args ?? [])];
    const child = spawn(binary('SALON_BIN'), given, { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.data, env: { ...process.env, USER: this.user } });
    this.process = child;
    const ready = new Promise((resolve, reject) => {
      createInterface({ input: child.stderr }).on('line', (line) => {
        this.written.push(line);
        const told = line.startsWith('{') ? JSON.parse(line) : {};
        if (told.message === 'gateway: serving') {
          this.port = Number(told.address.split(':').pop());
          resolve(undefined);
        }
      });
      child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}:\n${this.written.join('\n')}`)));
    });
    const linked = new Promise((resolve) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const link = /https?:\/\/\S+#code=\S+/.exec(line)?.[0];
        if (!link) return;
        this.link = link;
        resolve(undefined);
      });
    });
    await ready;
    await Promise.race([linked, ended(child)]);
  }

  /** Ends it as an operator would. */
  async end() {
    const child = this.process;
    this.process = null;
    if (!child || child.exitCode !== null) return;
    const gone = ended(child);
    child.kill('SIGTERM');
    await gone;
  }

  /** Ends everything, and takes its data away. */
  async stop() {
    for (const guest of this.guests) guest.kill('SIGTERM');
    await Promise.all(this.guests.map(ended));
    await this.end();
    await rm(this.data, { recursive: true, force: true });
  }

  /** @param {string} id @param {{topic?: string, name?: string, kind?: string, ttl?: string, permissions?: string[]}} [as] */
  async token(id, { topic = 'room:*', name, kind, ttl, permissions = [] } = {}) {
    const args = ['token', '--data', this.data, '--id', id, '--topic', topic];
    if (name !== undefined) args.push('--name', name);
    if (kind !== undefined) args.push('--kind', kind);
    if (ttl !== undefined) args.push('--ttl', ttl);
    for (const permission of permissions) args.push('--permission', permission);
    const { stdout } = await run(binary('SALON_BIN'), args, { cwd: this.data });
    return stdout.trim();
  }

  /**
   * Brings an MCP server into a room and waits until it is there.
   * @param {string} topic @param {string} id @param {string[]} command
   * @param {{name?: string, kind?: string}} [as]
   */
  async guest(topic, id, command, { name, kind } = {}) {
    const shown = [...(name === undefined ? [] : ['--name', name]), ...(kind === undefined ? [] : ['--kind', kind])];
    const args = ['join', '--gateway', this.url, '--data', this.data, '--as', id, ...shown, topic, '--', ...command];
    const child = spawn(binary('SALON_BIN'), args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.data });
    this.guests.push(child);
    /** @type {string[]} */
    const lines = [];
    for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', (line) => lines.push(line));
    const token = await this.token('watcher');
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`the guest ended with ${child.exitCode}:\n${lines.join('\n')}`);
      const { participants } = await this.get(`/v0/topics/${topic}/participants`, token);
      return participants.some((/** @type {any} */ each) => each.id === id);
    }, `${id} in ${topic}`);
    return child;
  }

  /** @param {string} path @param {string} token */
  async get(path, token) {
    const answer = await fetch(this.url + path, { headers: { authorization: `Bearer ${token}` } });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  /** Publishes what needs nobody present. @param {string} topic @param {string} token @param {object} envelope */
  async post(topic, token, envelope) {
    const answer = await fetch(`${this.url}/v0/topics/${topic}/messages`, {
      method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: JSON.stringify(envelope),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  }
}

/** An envelope of chat. @param {string} id @param {string} from @param {string} text @param {object} [more] */
export function chat(id, from, text, { format, ...more } = /** @type {any} */ ({})) {
  const params = format ? { text, format } : { text };
  return { protocol: 'mcp-x/v0', id, ts: new Date().toISOString(), from, kind: 'mcp', ...more,
    payload: { jsonrpc: '2.0', method: 'notifications/chat/message', params } };
}

/** @param {import('node:child_process').ChildProcess} child */
function ended(child) {
  return child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : new Promise((resolve) => child.once('exit', resolve));
}

/** Waits for something to become so; bounded. @param {() => Promise<boolean>} holds @param {string} what */
export async function until(holds, what) {
  const last = Date.now() + 30_000;
  while (!(await holds())) {
    if (Date.now() > last) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

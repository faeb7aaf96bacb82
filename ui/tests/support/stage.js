// Participants that a test or a screenshot needs, played in a page of their own by the browser's WebSocket. Nothing of the page under test is used.

/** What runs in the page. @param {{tokens: Record<string, string>, topic: string, speed: number}} of tokens: by id; speed: of what takes time */
function build({ tokens, topic, speed }) {
  const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms * speed));
  let next = 0;

  class Actor {
    /** @param {string} id */
    constructor(id) {
      this.id = id;
      /** @type {Map<string, {resolve: (result: any) => void, reject: (error: any) => void}>} */
      this.open = new Map();
      /** @type {Record<string, any>} */
      this.tools = {};
      /** @type {any[]} */
      this.listed = [];
      /** @type {Map<string, any>} */
      this.echoes = new Map();
    }

    async enter() {
      const query = new URLSearchParams({ topic });
      const socket = new WebSocket(`ws://${location.host}/v0/ws?${query}`, ['mcpx.v0', `bearer.${tokens[this.id]}`]);
      this.socket = socket;
      await new Promise((resolve, reject) => {
        socket.onmessage = resolve;
        socket.onclose = reject;
      });
      socket.onmessage = ({ data }) => this.hear(JSON.parse(data));
    }

    /** @param {any} envelope */
    hear(envelope) {
      const { id, from, to = [], correlation_id: about, payload } = envelope;
      this.echoes.get(id)?.(envelope);
      if (payload.event === 'error') this.open.get(about)?.reject(new Error(payload.message));
      if (from === this.id || !to.includes(this.id)) return;
      if (payload.method && payload.id !== undefined) void this.serve(envelope);
      else if (payload.result !== undefined) this.open.get(about)?.resolve(payload.result);
      else if (payload.error !== undefined) this.open.get(about)?.reject(new Error(payload.error.message));
    }

    /** @param {any} draft @returns {Promise<any>} its echo */
    send(draft) {
      next += 1;
      const envelope = { protocol: 'mcp-x/v0', id: `${this.id}-${Date.now().toString(36)}-${next}`, ts: new Date().toISOString(), from: this.id, kind: 'mcp', ...draft };
      const echo = new Promise((resolve) => this.echoes.set(envelope.id, resolve));
      this.socket?.send(JSON.stringify(envelope));
      return echo;
    }

    /** @param {string} text @param {{markdown?: boolean, about?: string}} [how] */
    say(text, { markdown = false, about } = {}) {
      const params = markdown ? { text, format: 'markdown' } : { text };
      return this.send({ correlation_id: about, payload: { jsonrpc: '2.0', method: 'notifications/chat/message', params } });
    }

    /** @param {string} to @param {string} method @param {any} params @param {string} [about] */
    async request(to, method, params, about) {
      next += 1;
      const token = `t${next}`;
      const payload = { jsonrpc: '2.0', id: next, method, params: { ...params, _meta: { progressToken: token } } };
      const id = `${this.id}-${Date.now().toString(36)}-${next}-call`;
      // Before it is sent: a call that is held has no echo, and one that is refused never has.
      const answer = new Promise((resolve, reject) => this.open.set(id, { resolve, reject }));
      void this.send({ id, to: [to], correlation_id: about, payload });
      return answer;
    }

    /** @param {string} to @param {string} name @param {any} [args] @param {string} [about] */
    call(to, name, args = {}, about = undefined) {
      return this.request(to, 'tools/call', { name, arguments: args }, about);
    }

    /** @param {string} to */
    async meet(to) {
      const clientInfo = { name: this.id, version: '1' };
      await this.request(to, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
      await this.send({ to: [to], payload: { jsonrpc: '2.0', method: 'notifications/initialized' } });
      await this.request(to, 'tools/list', {});
    }

    /** @param {any} envelope */
    async serve({ id, from, payload }) {
      const { method, params } = payload;
      const answer = (/** @type {any} */ part) => this.send({ to: [from], correlation_id: id, payload: { jsonrpc: '2.0', id: payload.id, ...part } });
      if (method === 'initialize') {
        const serverInfo = { name: this.id, version: '1.0.0' };
        return answer({ result: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo } });
      }
      if (method === 'tools/list') return answer({ result: { tools: this.listed } });
      if (method !== 'tools/call') return answer({ result: {} });
      const tool = this.tools[params.name];
      if (!tool) return answer({ error: { code: -32602, message: `there is no tool \`${params.name}\`` } });
      const progress = (/** @type {number} */ done, /** @type {number} */ total, /** @type {string} */ message) => this.send({
        to: [from], correlation_id: id,
        payload: { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: params._meta?.progressToken, progress: done, total, message } },
      });
      try {
        const result = await tool(params.arguments ?? {}, { progress, about: id, from });
        return answer({ result: typeof result === 'string' ? { content: [{ type: 'text', text: result }] } : result });
      } catch (error) {
        return answer({ result: { isError: true, content: [{ type: 'text', text: /** @type {Error} */ (error).message }] } });
      }
    }

    /** @param {string} name @param {string} description @param {any} properties @param {(args: any, context: any) => any} run @param {any} [more] */
    offer(name, description, properties, run, more = {}) {
      this.tools[name] = run;
      this.listed.push({ name, description, inputSchema: { type: 'object', properties, required: Object.keys(properties) }, ...more });
    }
  }
  /** @type {Record<string, Actor>} */
  const actors = {};
  for (const id of Object.keys(tokens)) actors[id] = new Actor(id);
  /** @type {any} */ (window).stage = { actors, wait };
}

/**
 * Opens a stage with actors on it; a script is run there with `stage.actors`.
 * @param {import('playwright-core').Browser} browser @param {import('./gateway.js').Gateway} gateway @param {string} topic
 * @param {Record<string, {name?: string, kind?: string}>} cast @param {number} [speed]
 */
export async function stage(browser, gateway, topic, cast, speed = 0) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${gateway.url}/health`);
  /** @type {Record<string, string>} */
  const tokens = {};
  for (const [id, as] of Object.entries(cast)) tokens[id] = await gateway.token(id, as);
  await page.evaluate(build, { tokens, topic, speed });
  return page;
}

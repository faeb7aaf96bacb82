// A client on the second major version of the official TypeScript SDK, which speaks both eras.
//
//   ts2.mjs legacy|modern|auto http URL
//   ts2.mjs legacy|modern|auto stdio COMMAND ARGUMENT…
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { Heard, elicit, play, roots, run, sample } from "./play.mjs";

const require = createRequire(`${process.env.INTEROP_HOME}/`);
const { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [wanted, transport, target, ...more] = process.argv.slice(2);
const token = process.env.MCP_TOKEN;
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const modes = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

function connection() {
  switch (transport) {
    case "http":
      return new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
    case "stdio":
      return new StdioClientTransport({ command: target, args: more, env: process.env, stderr: "inherit" });
    default:
      throw new Error(`no such transport: ${transport}`);
  }
}

run(async () => {
  const heard = new Heard();
  const client = new Client(
    { name: "interop-ts2", version: "1.0.0" },
    {
      capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
      versionNegotiation: { mode: modes[wanted] },
      // What is listed after a change must be what the server says then.
      defaultCacheTtlMs: 0,
    },
  );
  client.onerror = (error) => heard.wrong(error);
  client.setRequestHandler("sampling/createMessage", ({ params }) => sample(params));
  client.setRequestHandler("elicitation/create", ({ params }) => elicit(params));
  client.setRequestHandler("roots/list", () => roots());
  for (const method of ["message", "resources/updated", "tools/list_changed"]) {
    client.setNotificationHandler(`notifications/${method}`, ({ params }) => heard.note(`notifications/${method}`, params));
  }
  const way = connection();
  await client.connect(way);
  const era = client.getProtocolEra();
  // Left to itself, a client that knows both takes the newer.
  assert.equal(era, wanted === "legacy" ? "legacy" : "modern");

  const pages = async (list) => {
    const ask = { tools: "listTools", prompts: "listPrompts", resources: "listResources", resourceTemplates: "listResourceTemplates" }[list];
    const result = await client[ask](undefined, { cacheMode: "refresh" });
    return result[list];
  };
  let meta;
  await play({
    era,
    // It reads the older code as the newer.
    missing: -32602,
    heard,
    pages,
    call: (name, args, options) => client.callTool({ name, arguments: args, _meta: meta }, options),
    read: (uri) => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    level: async (level) => {
      if (era === "legacy") await client.setLoggingLevel(level);
      else meta = { [LOG_LEVEL_META_KEY]: level };
    },
    watch: async (uri) => {
      if (era === "legacy") {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
      }
      const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
      assert.deepEqual(subscription.honoredFilter, { toolsListChanged: true, resourceSubscriptions: [uri] });
      return async () => {
        await subscription.close();
        assert.equal(await subscription.closed, "local");
      };
    },
    close: async () => {
      if (era === "legacy") await client.ping();
      if (era === "legacy" && transport === "http") await way.terminateSession();
      await client.close();
    },
  });
});

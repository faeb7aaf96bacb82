// A client on the first major version of the official TypeScript SDK.
//
//   ts1.mjs http|sse|websocket URL
//   ts1.mjs stdio COMMAND ARGUMENT…
import { createRequire } from "node:module";
import { Heard, elicit, play, roots, run, sample } from "./play.mjs";

const require = createRequire(`${process.env.INTEROP_HOME}/`);
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}.js`);
const { Client } = sdk("client/index");
const types = sdk("types");

const [transport, target, ...more] = process.argv.slice(2);
const token = process.env.MCP_TOKEN;
const headers = token ? { Authorization: `Bearer ${token}` } : {};

function connection() {
  switch (transport) {
    case "http": {
      const { StreamableHTTPClientTransport } = sdk("client/streamableHttp");
      return new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
    }
    case "sse": {
      const { SSEClientTransport } = sdk("client/sse");
      return new SSEClientTransport(new URL(target), { requestInit: { headers } });
    }
    case "websocket": {
      const { WebSocketClientTransport } = sdk("client/websocket");
      return new WebSocketClientTransport(new URL(target));
    }
    case "stdio": {
      const { StdioClientTransport } = sdk("client/stdio");
      return new StdioClientTransport({ command: target, args: more, env: process.env, stderr: "inherit" });
    }
    default:
      throw new Error(`no such transport: ${transport}`);
  }
}

run(async () => {
  const heard = new Heard();
  const client = new Client(
    { name: "interop-ts1", version: "1.0.0" },
    { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } },
  );
  client.onerror = (error) => heard.wrong(error);
  client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => sample(params));
  client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => elicit(params));
  client.setRequestHandler(types.ListRootsRequestSchema, () => roots());
  client.fallbackNotificationHandler = async ({ method, params }) => heard.note(method, params);
  const way = connection();
  await client.connect(way);

  const pages = async (list) => {
    const ask = { tools: "listTools", prompts: "listPrompts", resources: "listResources", resourceTemplates: "listResourceTemplates" }[list];
    const all = [];
    let cursor;
    do {
      const page = await client[ask]({ cursor });
      all.push(...page[list]);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return all;
  };
  await play({
    era: "legacy",
    missing: -32002,
    heard,
    pages,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    read: (uri) => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    level: (level) => client.setLoggingLevel(level),
    watch: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    close: async () => {
      await client.ping();
      if (transport === "http") await way.terminateSession();
      await client.close();
    },
  });
});

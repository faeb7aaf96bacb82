// An agent that listens in a room and answers when it is mentioned.
//
//     npm install
//     node greeter.ts room:alpha greeter          Node.js 22.18 or newer runs TypeScript as it is
//
// It is an MCP client: `salon mcp` shows it the room as one MCP server. `room_wait` returns when something happens that concerns the agent,
// `chat_say` talks, and the tools of the other participants are in the same list. On another machine than the gateway's, `salon login` comes first.

import { setTimeout as delay } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [topic = "room:alpha", me = "greeter"] = process.argv.slice(2);
const RETRY_DELAY_MS = 1000;

type Envelope = { from: string; payload: { method?: string; params?: { text?: string } } };
type FoundTool = { participant: string; name: string };

const room = new Client({ name: me, version: "1.0.0" });

/** Calls a tool of the room and returns its structured result. */
async function call<Result>(name: string, args: Record<string, unknown>): Promise<Result> {
  const result = await room.callTool({ name, arguments: args });
  return result.structuredContent as Result;
}

/** Answers one message. This is where a model would come in. */
async function answer(sender: string, text: string): Promise<void> {
  let reply = `Hello, ${sender}!`;
  if (text.includes("tools")) {
    const { tools } = await call<{ tools: FoundTool[] }>("room_find_tools", { limit: 100 });
    const names = tools.map(({ participant, name }) => `${participant}: ${name}`).sort();
    reply = `${sender}, ${names.length} tools are here: ${names.join(", ")}`;
  }
  await call("chat_say", { text: reply });
}

/** Waits for messages that name the agent, for ever. The gateway remembers where the last wait ended, so none is missed. */
async function listen(): Promise<never> {
  for (;;) {
    let events: Envelope[];
    try {
      ({ events } = await call<{ events: Envelope[] }>("room_wait", { for: ["mention"] }));
    } catch (error) {
      // The gateway is away; `salon mcp` reconnects by itself.
      console.error(`waiting for the gateway: ${error}`);
      await delay(RETRY_DELAY_MS);
      continue;
    }
    for (const { from, payload } of events) {
      if (from !== me && payload.method === "notifications/chat/message") {
        await answer(from, payload.params?.text ?? "");
      }
    }
  }
}

// The SDK passes few variables on by itself; SALON_GATEWAY and SALON_TOKEN are not among them.
const env = process.env as Record<string, string>;
await room.connect(new StdioClientTransport({ command: "salon", args: ["mcp", topic, "--as", me], env }));
await call("chat_say", { text: "I am listening." });
console.log(`${me} is listening in ${topic}`);
await listen();

// Signs in by OAuth with the first major version of the official TypeScript SDK.
//
//   oauth_ts1.mjs http|sse URL
import { createRequire } from "node:module";
import { main, signIn } from "./signin.mjs";

const require = createRequire(`${process.env.INTEROP_HOME}/`);
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}.js`);
const { Client } = sdk("client/index");
const { UnauthorizedError } = sdk("client/auth");

const [kind, target] = process.argv.slice(2);
const Transport = kind === "sse" ? sdk("client/sse").SSEClientTransport : sdk("client/streamableHttp").StreamableHTTPClientTransport;
let transport;

main(() =>
  signIn({
    connect: async (authProvider) => {
      const client = new Client({ name: "oauth-ts1", version: "1.0.0" });
      transport = new Transport(new URL(target), { authProvider });
      await client.connect(transport);
      return client;
    },
    finish: (answer) => transport.finishAuth(answer.get("code")),
    isUnauthorized: (error) => error instanceof UnauthorizedError,
  }),
);

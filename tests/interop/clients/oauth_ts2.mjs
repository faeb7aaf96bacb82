// Signs in by OAuth with the second major version of the official TypeScript SDK.
//
//   oauth_ts2.mjs http URL
import { createRequire } from "node:module";
import { main, signIn } from "./signin.mjs";

const require = createRequire(`${process.env.INTEROP_HOME}/`);
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = require("@modelcontextprotocol/client");

const [, target] = process.argv.slice(2);
let transport;

main(() =>
  signIn({
    connect: async (authProvider) => {
      const client = new Client({ name: "oauth-ts2", version: "1.0.0" });
      transport = new StreamableHTTPClientTransport(new URL(target), { authProvider });
      await client.connect(transport);
      return client;
    },
    finish: (answer) => transport.finishAuth(answer),
    isUnauthorized: (error) => error instanceof UnauthorizedError,
  }),
);

// An authorization server on `oidc-provider`, on a free loopback port: prints its issuer's URL and serves until it is ended.
//
// It registers every client, signs everybody in as `auth0|ada` without asking, and gives out tokens for every resource on loopback.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const { default: Provider } = await import(createRequire(`${process.env.INTEROP_HOME}/`).resolve("oidc-provider"));
const SUBJECT = "auth0|ada";
const SCOPES = process.env.SCOPES.split(" ");

function signingKey() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), alg: "ES256", kid: "one", use: "sig" };
}

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  jwks: { keys: [signingKey()] },
  scopes: ["openid", "offline_access", ...SCOPES],
  cookies: { keys: ["for tests"] },
  enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope: SCOPES.join(" "),
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 120,
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
provider.on("server_error", (_, error) => console.error(error));

// What a person would do in the pages of the server.
async function interact(request, response) {
  const { params, grantId } = await provider.interactionDetails(request, response);
  const grant = grantId ? await provider.Grant.find(grantId) : new provider.Grant({ accountId: SUBJECT, clientId: params.client_id });
  if (params.resource) grant.addResourceScope(params.resource, params.scope);
  grant.addOIDCScope(params.scope);
  const result = { login: { accountId: SUBJECT }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result);
}

const serve = provider.callback();
server.on("request", (request, response) => {
  if (!request.url.startsWith("/interaction/")) return serve(request, response);
  interact(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end();
  });
});
console.log(issuer);

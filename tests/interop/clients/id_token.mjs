// Signs in at an OpenID provider and prints the ID token, which is for the client and for no resource server.
//
//   id_token.mjs ISSUER
import { createHash, randomBytes } from "node:crypto";
import { Keeper, browse, main } from "./signin.mjs";

const [issuer] = process.argv.slice(2);

async function json(answer) {
  const body = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(body));
  return body;
}

main(async () => {
  const { clientMetadata, redirectUrl } = new Keeper();
  const provider = await json(await fetch(`${issuer}/.well-known/openid-configuration`));
  const headers = { "content-type": "application/json" };
  const client = await json(await fetch(provider.registration_endpoint, { method: "POST", headers, body: JSON.stringify(clientMetadata) }));
  const verifier = randomBytes(32).toString("base64url");
  const common = { client_id: client.client_id, redirect_uri: redirectUrl };
  const page = new URL(provider.authorization_endpoint);
  page.search = new URLSearchParams({
    ...common,
    response_type: "code",
    scope: "openid",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const code = (await browse(page)).get("code");
  const body = new URLSearchParams({ ...common, grant_type: "authorization_code", code, code_verifier: verifier });
  console.log((await json(await fetch(provider.token_endpoint, { method: "POST", body }))).id_token);
});

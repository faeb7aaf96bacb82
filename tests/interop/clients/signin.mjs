// Signing in by OAuth without a person: what the clients on the TypeScript SDKs share.

/// Nothing listens there: the redirect to it is read and not followed.
const REDIRECT = "http://127.0.0.1:1/callback";

/// What an application keeps for its client (`OAuthClientProvider` of both SDKs).
export class Keeper {
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: "interop",
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.kept;
  saveTokens = (tokens) => void (this.kept = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  redirectToAuthorization = (url) => void (this.page = url);
}

/// Goes where a browser would go, with its cookies, until it is sent back to the client.
export async function browse(page) {
  const cookies = new Map();
  let url = new URL(page);
  for (let hops = 0; hops < 10; hops++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(url, { redirect: "manual", headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      cookies.set(name, value);
    }
    const location = answer.headers.get("location");
    if (!location) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
    url = new URL(location, url);
    if (url.href.startsWith(REDIRECT)) return url.searchParams;
  }
  throw new Error("redirected too often");
}

/// Connects, signs in when told to, and connects again; then uses the room.
export async function signIn({ connect, finish, isUnauthorized }) {
  const keeper = new Keeper();
  try {
    await connect(keeper);
    throw new Error("let in without a token");
  } catch (error) {
    if (!isUnauthorized(error)) throw error;
  }
  const answer = await browse(keeper.page);
  if (answer.get("error")) throw new Error(`${answer.get("error")}: ${answer.get("error_description")}`);
  await finish(answer);
  const client = await connect(keeper);
  const { tools } = await client.listTools();
  console.log(JSON.stringify({ tools: tools.length, resource: keeper.page.searchParams.get("resource"), scope: keeper.page.searchParams.get("scope") }));
  console.log(JSON.stringify({ token: keeper.kept.access_token }));
  await client.close();
}

/// Runs a client, and tells what went wrong in the words that a person would see.
export async function main(play) {
  try {
    await play();
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}

"""Signs in by OAuth with the official Python SDK, of either major version.

oauth_py.py http URL
"""

import json
import sys
import urllib.error
import urllib.request
import warnings
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata

try:
    from mcp.shared.auth import AuthorizationCodeResult
except ImportError:
    AuthorizationCodeResult = None

warnings.simplefilter("ignore")
TARGET = sys.argv[2]
# Nothing listens there: the redirect to it is read and not followed.
REDIRECT = "http://127.0.0.1:1/callback"


class Kept:
    """What an application keeps for its client."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def browse(url):
    """Goes where a browser would go, with its cookies, until it is sent back to the client."""
    opener, cookies = urllib.request.build_opener(NoRedirect), {}
    for _ in range(10):
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        try:
            answer = opener.open(urllib.request.Request(url, headers={"Cookie": cookie}), timeout=20)
        except urllib.error.HTTPError as redirect:
            answer = redirect
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            cookies[name] = value
        if not answer.headers["Location"]:
            raise RuntimeError(f"{url}: {answer.status} {answer.read().decode()}")
        url = urljoin(url, answer.headers["Location"])
        if url.startswith(REDIRECT):
            return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    raise RuntimeError("redirected too often")


async def main():
    kept, visited = Kept(), {}

    async def visit(url):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        visited.update(page=url, asked=asked)

    async def come_back():
        answer = await anyio.to_thread.run_sync(browse, visited["page"])
        if AuthorizationCodeResult is None:
            return answer["code"], answer.get("state")
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    metadata = OAuthClientMetadata(
        client_name="interop",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(TARGET, metadata, kept, redirect_handler=visit, callback_handler=come_back)
    http = create_mcp_http_client(auth=auth)
    async with streamable_http_client(TARGET, http_client=http) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
    asked = visited["asked"]
    print(json.dumps({"tools": len(tools), "resource": asked.get("resource"), "scope": asked.get("scope")}))
    print(json.dumps({"token": kept.tokens.access_token}))


def causes(error):
    """What went wrong, without the groups that tasks wrap it in."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in causes(inner)]
    return [error]


try:
    anyio.run(main)
except BaseException as error:  # noqa: BLE001
    for cause in causes(error):
        print(f"{type(cause).__name__}: {cause}", file=sys.stderr)
    sys.exit(1)

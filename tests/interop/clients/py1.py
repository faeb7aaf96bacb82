"""A client on the first major version of the official Python SDK.

py1.py websocket|http|sse URL
"""

import os
import sys
import warnings
from contextlib import asynccontextmanager

import anyio
import mcp.types as types
from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from pydantic import AnyUrl

from play import Asked, Heard, found, play, wire

warnings.simplefilter("ignore")
TRANSPORT, TARGET = sys.argv[1:]
TOKEN = os.environ.get("MCP_TOKEN")
LISTS = {
    "tools": "list_tools",
    "prompts": "list_prompts",
    "resources": "list_resources",
    "resourceTemplates": "list_resource_templates",
}
REFERENCES = {"ref/prompt": types.PromptReference, "ref/resource": types.ResourceTemplateReference}


class Asking:
    """The client as `play` wants it."""

    era = "legacy"
    missing = -32002

    def __init__(self, session):
        self.session = session

    def code(self, error):
        if not isinstance(error, McpError):
            raise error
        return error.error.code

    async def pages(self, name):
        items, cursor = [], None
        while True:
            params = types.PaginatedRequestParams(cursor=cursor)
            page = wire(await getattr(self.session, LISTS[name])(params=params))
            items += page[name]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    async def call(self, name, arguments, progress=None):
        return wire(await self.session.call_tool(name, arguments, progress_callback=progress))

    async def cancelled(self, name, arguments):
        begun = anyio.Event()

        async def note(*_):
            begun.set()

        # This version tells nobody of a call that is given up, and has no name for the number of one.
        number = self.session._request_id
        async with anyio.create_task_group() as group:

            async def slow():
                await self.session.call_tool(name, arguments, progress_callback=note)
                raise AssertionError("it was answered")

            group.start_soon(slow)
            await begun.wait()
            params = types.CancelledNotificationParams(requestId=number, reason="not wanted any more")
            await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
            group.cancel_scope.cancel()

    async def read(self, uri):
        return wire(await self.session.read_resource(AnyUrl(uri)))

    async def prompt(self, name, arguments):
        return wire(await self.session.get_prompt(name, arguments))

    async def complete(self, reference, argument):
        return wire(await self.session.complete(REFERENCES[reference["type"]].model_validate(reference), argument))

    async def level(self, level):
        await self.session.set_logging_level(level)

    @asynccontextmanager
    async def watch(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield
        await self.session.unsubscribe_resource(AnyUrl(uri))


@asynccontextmanager
async def connection():
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    match TRANSPORT:
        case "websocket":
            from mcp.client.websocket import websocket_client

            async with websocket_client(TARGET) as (read, write):
                yield read, write
        case "http":
            http = create_mcp_http_client(headers=headers)
            async with streamable_http_client(TARGET, http_client=http) as (read, write, _):
                yield read, write
        case "sse":
            async with sse_client(TARGET, headers=headers) as (read, write):
                yield read, write
        case _:
            sys.exit(f"no such transport: {TRANSPORT}")


async def main():
    asked, heard = Asked(), Heard()

    async def sample(_, params):
        return types.CreateMessageResult.model_validate(asked.sample(params))

    async def elicit(_, params):
        return types.ElicitResult.model_validate(asked.elicit(params))

    async def roots(_):
        return types.ListRootsResult.model_validate(asked.roots())

    async def log(params):
        heard.note("notifications/message", wire(params))

    async def message(told):
        if isinstance(told, Exception):
            print("told:", repr(told), file=sys.stderr)
        elif isinstance(told, types.ServerNotification) and told.root.method != "notifications/message":
            heard.note(told.root.method, wire(told).get("params"))

    async with connection() as (read, write):
        session = ClientSession(
            read,
            write,
            client_info=types.Implementation(name="interop-py1", version="1.0.0"),
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            logging_callback=log,
            message_handler=message,
        )
        async with session:
            await session.initialize()
            await play(Asking(session), asked, heard)
            await session.send_ping()
    found("end")


anyio.run(main)

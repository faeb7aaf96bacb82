"""A client on the second major version of the official Python SDK, which speaks both eras.

py2.py legacy|modern|auto http URL
py2.py legacy|modern|auto stdio COMMAND ARGUMENT…
"""

import os
import sys
import warnings
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from play import Asked, Heard, found, play, same, wire

warnings.simplefilter("ignore")
WANTED, TRANSPORT, TARGET, *MORE = sys.argv[1:]
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

    def __init__(self, client, era, heard):
        self.client = client
        self.era = era
        self.missing = -32602 if era == "modern" else -32002
        self.heard = heard
        self.meta = None

    def code(self, error):
        if not isinstance(error, MCPError):
            raise error
        return error.code

    async def pages(self, name):
        items, cursor = [], None
        while True:
            page = wire(await getattr(self.client, LISTS[name])(cursor=cursor, cache_mode="refresh"))
            items += page[name]
            cursor = page.get("nextCursor")
            if cursor is None:
                return items

    async def call(self, name, arguments, progress=None):
        return wire(await self.client.call_tool(name, arguments, progress_callback=progress, meta=self.meta))

    async def cancelled(self, name, arguments):
        begun = anyio.Event()

        async def note(*_):
            begun.set()

        async with anyio.create_task_group() as group:

            async def slow():
                await self.client.call_tool(name, arguments, progress_callback=note)
                raise AssertionError("it was answered")

            group.start_soon(slow)
            await begun.wait()
            group.cancel_scope.cancel()

    async def read(self, uri):
        return wire(await self.client.read_resource(uri, cache_mode="refresh"))

    async def prompt(self, name, arguments):
        return wire(await self.client.get_prompt(name, arguments))

    async def complete(self, reference, argument):
        return wire(await self.client.complete(REFERENCES[reference["type"]].model_validate(reference), argument))

    async def level(self, level):
        if self.era == "legacy":
            await self.client.set_logging_level(level)
        else:
            self.meta = {types.LOG_LEVEL_META_KEY: level}

    @asynccontextmanager
    async def watch(self, uri):
        if self.era == "legacy":
            await self.client.subscribe_resource(uri)
            yield
            await self.client.unsubscribe_resource(uri)
            return
        async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            same(wire(subscription.honored), {"toolsListChanged": True, "resourceSubscriptions": [uri]})

            async def listen():
                async for event in subscription:
                    match event:
                        case ResourceUpdated(uri=changed):
                            self.heard.note("notifications/resources/updated", {"uri": changed})
                        case ToolsListChanged():
                            self.heard.note("notifications/tools/list_changed")

            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                yield
                group.cancel_scope.cancel()


def connection():
    if TRANSPORT == "stdio":
        return StdioServerParameters(command=TARGET, args=MORE, env=dict(os.environ))
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else None
    return streamable_http_client(TARGET, http_client=create_mcp_http_client(headers=headers))


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
        elif told.method != "notifications/message":
            heard.note(told.method, wire(told).get("params"))

    client = Client(
        connection(),
        mode={"modern": "2026-07-28"}.get(WANTED, WANTED),
        client_info=types.Implementation(name="interop-py2", version="1.0.0"),
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        logging_callback=log,
        message_handler=message,
    )
    async with client:
        era = "modern" if client.protocol_version == "2026-07-28" else "legacy"
        # Left to itself, a client that knows both takes the newer.
        same(era, "legacy" if WANTED == "legacy" else "modern")
        await play(Asking(client, era, heard), asked, heard)
    found("end")


anyio.run(main)

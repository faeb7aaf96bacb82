"""An MCP server on the official Python SDK, for tests. The same file runs on its first and its second major version.

It speaks on stdin and stdout, or with `--http` at a free loopback port that it prints.
"""

import asyncio
import socket
import sys

from pydantic import BaseModel

try:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.types import Completion, SamplingMessage, TextContent
except ImportError:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import Completion, SamplingMessage, TextContent

server = FastMCP("fastmcp-server", instructions="A server for tests.")


class Name(BaseModel):
    """What the user is asked for."""

    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two whole numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Answers with its argument."""
    return text


@server.tool()
def fail() -> str:
    """Fails."""
    raise ToolError("this tool always fails")


@server.tool()
async def slow(seconds: float, steps: int, ctx: Context) -> str:
    """Takes its time and reports progress, first that it has begun."""
    await ctx.report_progress(0, steps)
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds / steps)
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool()
async def log(line: str, ctx: Context) -> str:
    """Sends a log line to the client."""
    await ctx.info(line)
    return "logged"


@server.tool()
async def ask_model(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    question = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([question], max_tokens=100)
    return f"the model said: {answer.content.text}"


@server.tool()
async def ask_user(ctx: Context) -> str:
    """Asks the user for a name."""
    answer = await ctx.elicit("Who is there?", Name)
    return f"hello, {answer.data.name}" if answer.action == "accept" else f"the user chose to {answer.action}"


@server.tool()
async def ask_roots(ctx: Context) -> list[str]:
    """Asks the client for its roots."""
    answer = await ctx.session.list_roots()
    return [str(root.uri) for root in answer.roots]


@server.resource("memo://today")
def today() -> str:
    """A text that is always there."""
    return "buy bread"


@server.resource("memo://people/{name}")
def person(name: str) -> str:
    """A text about somebody."""
    return f"{name} likes tea"


@server.prompt()
def greet(name: str) -> str:
    """Asks for a greeting."""
    return f"Greet {name} warmly."


@server.completion()
async def complete(ref, argument, context):
    names = [name for name in ("ada", "alan", "grace") if name.startswith(argument.value)]
    return Completion(values=names, total=len(names))


def serve_http() -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    if sys.argv[1:] == ["--http"]:
        serve_http()
    elif sys.argv[1:]:
        sys.exit("usage: fastmcp_server.py [--http]")
    else:
        server.run()

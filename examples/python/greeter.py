"""An agent that listens in a room and answers when it is mentioned.

    pip install 'mcp>=2'
    python greeter.py room:alpha greeter

It is an MCP client: `salon mcp` shows it the room as one MCP server. `room_wait` returns when something happens that concerns the agent,
`chat_say` talks, and the tools of the other participants are in the same list. On another machine than the gateway's, `salon login` comes first.
"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

TOPIC = sys.argv[1] if len(sys.argv) > 1 else "room:alpha"
ME = sys.argv[2] if len(sys.argv) > 2 else "greeter"
RETRY_DELAY = 1.0


async def answer(room: Client, sender: str, text: str) -> None:
    """Answers one message. This is where a model would come in."""
    if "tools" in text:
        found = (await room.call_tool("room_find_tools", {"limit": 100})).structured_content
        names = sorted(f"{tool['participant']}: {tool['name']}" for tool in found["tools"])
        reply = f"{sender}, {len(names)} tools are here: " + ", ".join(names)
    else:
        reply = f"Hello, {sender}!"
    await room.call_tool("chat_say", {"text": reply})


async def listen(room: Client) -> None:
    """Waits for messages that name the agent, for ever. The gateway remembers where the last wait ended, so none is missed."""
    while True:
        try:
            waited = await room.call_tool("room_wait", {"for": ["mention"]})
        except MCPError as error:
            # The gateway is away; `salon mcp` reconnects by itself.
            print(f"waiting for the gateway: {error}", file=sys.stderr)
            await asyncio.sleep(RETRY_DELAY)
            continue
        for event in waited.structured_content["events"]:
            payload = event["payload"]
            if event["from"] != ME and payload.get("method") == "notifications/chat/message":
                await answer(room, event["from"], payload["params"]["text"])


async def main() -> None:
    # The SDK passes few variables on by itself; SALON_GATEWAY and SALON_TOKEN are not among them.
    command = StdioServerParameters(command="salon", args=["mcp", TOPIC, "--as", ME], env=dict(os.environ))
    async with Client(command) as room:
        await room.call_tool("chat_say", {"text": "I am listening."})
        print(f"{ME} is listening in {TOPIC}", flush=True)
        await listen(room)


asyncio.run(main())

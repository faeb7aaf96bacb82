"""A small MCP server on standard input and output, with one tool, `move`."""

import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "robot", "version": "1"},
        }
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
        answer["result"] = {"tools": [{"name": "move", "description": "Moves", "inputSchema": schema}]}
    elif method == "tools/call":
        text = f"moved to {params.get('arguments', {}).get('x')}"
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "method not found"}
    print(json.dumps(answer), flush=True)

"""A modern MCP server for tests: no handshake, and what it wants to know it asks by `input_required`."""
import json, sys

KEY = "io.modelcontextprotocol/"


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def complete(id, result):
    meta = {KEY + "serverInfo": {"name": "modern", "version": "1"}}
    say({"id": id, "result": {"resultType": "complete", "_meta": meta, **result}})


for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    meta = params.get("_meta", {})
    if id is None:
        continue
    if meta.get(KEY + "protocolVersion") != "2026-07-28" or KEY + "clientCapabilities" not in meta:
        say({"id": id, "error": {"code": -32601, "message": "unknown method"}})
    elif method == "server/discover":
        complete(id, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/list":
        complete(id, {"tools": [{"name": "ask", "inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}}], "ttlMs": 0, "cacheScope": "private"})
    elif method == "tools/call" and "inputResponses" in params:
        answer = params["inputResponses"]["name"]["content"]["name"]
        complete(id, {"content": [{"type": "text", "text": f"hello {answer}, {params['requestState']}"}], "structuredContent": answer})
    elif method == "tools/call" and "elicitation" in meta[KEY + "clientCapabilities"]:
        if "progressToken" in meta:
            say({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": 1}})
        question = {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}
        say({"id": id, "result": {"resultType": "input_required", "inputRequests": {"name": question}, "requestState": "state-1"}})
    else:
        complete(id, {"content": [{"type": "text", "text": "hello nobody"}]})

"""A legacy MCP server for tests. One thread; a call that waits is kept until something else ends it."""
import json, os, sys

waiting, together, watchers, asked, cancelled = {}, [], [], {}, 0
capabilities, next_id = {}, 100


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(id, words, **more):
    say({"id": id, "result": {"content": [{"type": "text", "text": words}], **more}})


def call(id, params):
    global next_id
    name, given = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    if name == "echo":
        text(id, given["text"])
    elif name == "pid":
        text(id, str(os.getpid()))
    elif name == "together":
        together.append((id, token, given["text"]))
        if len(together) == given["count"]:
            for id, token, words in reversed(together):
                say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": words}})
            for id, token, words in together:
                text(id, words)
            together.clear()
    elif name == "hang":
        waiting[id] = True
        say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 0}})
    elif name == "cancelled":
        watchers.append(id)
        notice()
    elif name == "crash":
        os._exit(3)
    elif name == "sample":
        next_id += 1
        asked[next_id] = id
        say({"id": next_id, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
    elif name == "big":
        text(id, "x" * given["bytes"])
    elif name == "grow":
        tools.append("grown")
        say({"method": "notifications/tools/list_changed"})
        text(id, "grown")
    else:
        say({"id": id, "error": {"code": -32602, "message": "no such tool"}})


def notice():
    while cancelled and watchers:
        text(watchers.pop(), f"{cancelled} cancelled")


tools = ["echo", "pid", "together", "hang", "cancelled", "crash", "sample", "big", "grow"]
if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
    sys.exit("told not to start")

for line in sys.stdin:
    message = json.loads(line)
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        capabilities = params["capabilities"]
        said = {"tools": {"listChanged": True}, "prompts": {}}
        say({"id": id, "result": {"protocolVersion": params["protocolVersion"], "capabilities": said, "serverInfo": {"name": "legacy", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}})
    elif method == "tools/call":
        call(id, params)
    elif method == "notifications/cancelled":
        cancelled += 1 if waiting.pop(params["requestId"], False) else 0
        notice()
    elif method is None and id in asked:
        text(asked.pop(id), json.dumps(message.get("result", message.get("error"))))
    elif id is not None:
        say({"id": id, "error": {"code": -32601, "message": "unknown method"}})

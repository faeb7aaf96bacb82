"""A legacy MCP server over HTTP for tests: one session, answers as JSON. Says its port; takes one as its argument."""
import json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        text = b"" if body is None else json.dumps({"jsonrpc": "2.0", **body}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def hang(self, token):
        """Begins a stream that could be resumed, and says nothing more on it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        self.wfile.write(f"id: 1\ndata: {json.dumps(progress)}\n\n".encode())
        self.wfile.flush()
        threading.Event().wait()

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if id is None:
            self.reply(202)
        elif method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
            self.reply(200, {"id": id, "result": result}, **{"Mcp-Session-Id": "one"})
        elif self.headers.get("Mcp-Session-Id") != "one":
            self.reply(400, {"id": id, "error": {"code": -32000, "message": "no session"}})
        elif method == "tools/list":
            self.reply(200, {"id": id, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "hang")]}})
        elif method == "tools/call" and params["name"] == "hang":
            self.hang(params["_meta"]["progressToken"])
        elif method == "tools/call":
            self.reply(200, {"id": id, "result": {"content": [{"type": "text", "text": params["arguments"]["text"]}]}})
        else:
            self.reply(200, {"id": id, "error": {"code": -32601, "message": "unknown method"}})


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

"""What the tests of bridges share: processes, a gateway, participants of a room, and waiting for facts."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
from pathlib import Path

SALON = os.environ.pop("SALON_BIN", "target/debug/salon")
TOPIC = "room:lab"
# How long a fact may take on a loaded machine. Nothing waits this long when all is well.
DEADLINE_SECONDS = float(os.environ.pop("SALON_TEST_DEADLINE", "180"))


class Failure(Exception):
    pass


def eventually(what, look, progress=None):
    """Waits until `look` returns something true, and returns it. The time begins anew whenever `progress` returns something else."""
    until, before = time.monotonic() + DEADLINE_SECONDS, None
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        now = progress and progress()
        if now != before:
            until, before = time.monotonic() + DEADLINE_SECONDS, now
        time.sleep(0.05)
    raise Failure(f"not within {DEADLINE_SECONDS:.0f} s: {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Processes:
    """The processes and the folder of a test; all end with it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="salon-bridges-"))
        self.running = []

    def start(self, name, command, **options):
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)
        self.running.append(process)
        return process

    def kill(self, process, how=signal.SIGKILL):
        process.send_signal(how)
        process.wait(timeout=30)
        self.running.remove(process)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.running:
            process.kill()
            process.wait()
        if kind is not None:
            for log in sorted(self.folder.glob("*.log")):
                print(f"--- {log.name}", log.read_text(errors="replace")[-6000:], sep="\n", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)


class Gateway:
    """A gateway, with bridges hosted by it or run alone."""

    def __init__(self, processes, bridges):
        self.processes = processes
        self.port = free_port()
        self.data = processes.folder / "data"
        self.file = processes.folder / "salon.toml"
        settings = f'listen = "127.0.0.1:{self.port}"\ndata = "{self.data}"\n'
        limits = "[limits]\nrate = 0\n"
        self.file.write_text(settings + limits + bridges)
        self.process = None
        self.start()

    def start(self):
        environment = dict(os.environ, SALON_LOG_FILTER="info,salon_bridges=debug")
        command = [SALON, "serve", "--config", str(self.file)]
        self.process = self.processes.start("gateway", command, env=environment)
        eventually("the gateway listens", lambda: is_open(self.port))

    def kill(self):
        self.processes.kill(self.process)

    def logged(self, text):
        """How many lines of the log have a text."""
        return (self.processes.folder / "gateway.log").read_text(errors="replace").count(text)

    def token(self, who, *more):
        command = [SALON, "token", "--data", str(self.data), "--topic", TOPIC, "--id", who, *more]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def participant(self, who):
        return Participant(self, who)


def check(processes, section):
    """`salon bridge check` as the pages of the documentation say: before there is a gateway, from a home without anything."""
    home = processes.folder / "home"
    home.mkdir()
    file = home / "salon.toml"
    file.write_text(f"[bridges.office]\n{section}\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run([SALON, "bridge", "check", str(file)], capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()[1:]
    if done.returncode != 0 or not lines or not all(line.startswith("  ok ") for line in lines):
        raise Failure(f"the check failed:\n{done.stdout}{done.stderr}")


class Participant:
    """Somebody in the room, over REST."""

    def __init__(self, gateway, who):
        self.gateway, self.who, self.bearer = gateway, who, gateway.token(who)
        self.connection = None

    def ask(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.bearer}", "Content-Type": "application/json"}
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=30)
            try:
                self.connection.request(method, path, body and json.dumps(body), headers)
                answer = self.connection.getresponse()
                text = answer.read()
                return answer.status, json.loads(text) if text else None
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise

    def publish(self, method, params, correlation=None):
        envelope = {
            "protocol": "mcp-x/v0",
            "id": str(uuid.uuid4()),
            "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "from": self.who,
            "to": [],
            "kind": "mcp",
            "payload": {"jsonrpc": "2.0", "method": method, "params": params},
        }
        if correlation:
            envelope["correlation_id"] = correlation
        topic = urllib.parse.quote(TOPIC, safe="")
        status, answer = self.ask("POST", f"/v0/topics/{topic}/messages", envelope)
        if status not in (200, 201):
            raise Failure(f"{self.who} could not publish: {status} {answer}")
        return envelope["id"]

    def say(self, text, reply_to=None, markdown=False):
        params = {"text": text, "format": "markdown" if markdown else "plain"}
        return self.publish("notifications/chat/message", params, reply_to)

    def edit(self, target, text):
        return self.publish("notifications/chat/edit", {"text": text, "format": "plain"}, target)

    def retract(self, target):
        return self.publish("notifications/chat/retract", {}, target)

    def history(self, limit=500):
        """The envelopes of the topic, the oldest first."""
        topic = urllib.parse.quote(TOPIC, safe="")
        found, before = [], ""
        while len(found) < limit:
            status, page = self.ask("GET", f"/v0/topics/{topic}/history?limit=200{before}")
            if status != 200:
                raise Failure(f"no history: {status} {page}")
            envelopes = page.get("envelopes") or page.get("messages") or []
            found += envelopes
            if not page.get("next"):
                break
            before = f"&before={urllib.parse.quote(page['next'])}"
        return list(reversed(found))

    def chats(self, prefix, limit=3000):
        """What ghosts with a prefix have said, as (sender, text, envelope)."""
        said = []
        for envelope in self.history(limit):
            payload = envelope.get("payload", {})
            if payload.get("method") == "notifications/chat/message" and envelope["from"].startswith(prefix):
                said.append((envelope["from"], payload["params"]["text"], envelope))
        return said

    def present(self):
        topic = urllib.parse.quote(TOPIC, safe="")
        _, answer = self.ask("GET", f"/v0/topics/{topic}/participants")
        return {one["id"]: one for one in answer["participants"]}


def expect(what, found, wanted):
    if found != wanted:
        raise Failure(f"{what}:\n  found  {found!r}\n  wanted {wanted!r}")


def step(text):
    print(f"  {text}", flush=True)

"""A homeserver of Matrix, and people on it by plain HTTP. `SALON_SYNAPSE` is a Python that has Synapse."""

import itertools
import json
import os
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

from support import SALON, TOPIC, eventually, free_port

SERVER_NAME = "salon.test"
BOT = f"@salon-matrix:{SERVER_NAME}"


class MatrixClient:
    """A person, independent of the bridge."""

    def __init__(self, base, name):
        self.base, self.token, self.said, self.members = base, None, [], set()
        self.numbers = itertools.count()
        body = {"auth": {"type": "m.login.dummy"}, "username": name, "password": "a password of the tests"}
        answer = self.ask("POST", "/v3/register", body)
        self.token, self.user, self.room = answer["access_token"], answer["user_id"], None

    def ask(self, method, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.base}/_matrix/client{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def create_room(self):
        body = {"preset": "public_chat", "room_alias_name": "lab", "invite": [BOT]}
        self.room = self.ask("POST", "/v3/createRoom", body)["room_id"]
        threading.Thread(target=self.listen, daemon=True).start()

    def say(self, text):
        path = f"/v3/rooms/{urllib.parse.quote(self.room)}/send/m.room.message/t{next(self.numbers)}"
        self.ask("PUT", path, {"msgtype": "m.text", "body": text})

    def listen(self):
        since, names = None, {}
        while True:
            query = {"timeout": "5000", "filter": '{"room":{"timeline":{"limit":1000}}}'}
            if since:
                query["since"] = since
            try:
                answer = self.ask("GET", "/v3/sync?" + urllib.parse.urlencode(query))
            except (OSError, ValueError):
                return
            since = answer["next_batch"]
            for room in answer.get("rooms", {}).get("join", {}).values():
                for event in room["state"]["events"] + room["timeline"]["events"]:
                    content = event["content"]
                    if event["type"] == "m.room.member" and content.get("membership") == "join":
                        names[event["state_key"]] = content.get("displayname", event["state_key"])
                        self.members.add(event["state_key"])
                    if event["type"] == "m.room.message":
                        self.said.append({"nick": names.get(event["sender"]), "body": content.get("body", "")})


class Synapse:
    name = "matrix"

    def __init__(self, processes):
        self.processes, self.port, self.listen = processes, free_port(), free_port()
        self.folder = processes.folder / "synapse"
        self.folder.mkdir()
        self.base = f"http://127.0.0.1:{self.port}"

    def section(self):
        """As `salon bridge init` writes it, with ports of the test's own."""
        command = [SALON, "bridge", "init", "matrix", "--server", self.base, "--channel", f"#lab:{SERVER_NAME}"]
        command += ["--topic", TOPIC, "--folder", str(self.processes.folder)]
        section = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        registration = (self.processes.folder / "matrix-registration.yaml").read_text()
        usual = "127.0.0.1:9009"
        (self.folder / "registration.yaml").write_text(registration.replace(usual, f"127.0.0.1:{self.listen}"))
        return section.replace("[bridges.matrix]\n", "").replace(usual, f"127.0.0.1:{self.listen}")

    def start(self):
        fast = {"per_second": 10_000, "burst_count": 10_000}
        resources = [{"names": ["client"], "compress": False}]
        listener = {"port": self.port, "bind_addresses": ["127.0.0.1"], "type": "http", "tls": False, "resources": resources}
        config = {
            "server_name": SERVER_NAME,
            "pid_file": f"{self.folder}/homeserver.pid",
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": f"{self.folder}/homeserver.db"}},
            "media_store_path": f"{self.folder}/media",
            "signing_key_path": f"{self.folder}/signing.key",
            "report_stats": False,
            "macaroon_secret_key": "for tests",
            "form_secret": "for tests",
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "enable_registration": True,
            "enable_registration_without_verification": True,
            "app_service_config_files": [f"{self.folder}/registration.yaml"],
            "presence": {"enabled": False},
            "bcrypt_rounds": 4,
            "rc_message": fast,
            "rc_registration": fast,
            "rc_joins": {"local": fast, "remote": fast},
            "rc_invites": {"per_room": fast, "per_user": fast, "per_issuer": fast},
        }
        # JSON is YAML.
        (self.folder / "homeserver.yaml").write_text(json.dumps(config))
        command = [os.environ["SALON_SYNAPSE"], "-m", "synapse.app.homeserver", "-c", f"{self.folder}/homeserver.yaml"]
        subprocess.run([*command, "--generate-keys"], check=True, capture_output=True, cwd=self.folder)
        self.processes.start("synapse", command, cwd=self.folder)
        eventually("Synapse answers", self.answers)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.base}/_matrix/client/versions", timeout=5):
                return True
        except OSError:
            return False

    def person(self, name):
        client = MatrixClient(self.base, name)
        client.create_room()
        return client

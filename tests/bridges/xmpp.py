"""A bridge to Prosody, or to ejabberd (`xmpp.py ejabberd`): people by slixmpp."""

import asyncio
import os
import subprocess
import sys
import threading

import slixmpp

import conversation
from conversation import heard
from support import DEADLINE_SECONDS, TOPIC, Failure, Processes, eventually, expect, free_port, is_open

MUC = "lab@muc.localhost"
SECRET = "shared secret"


class XmppClient(slixmpp.ClientXMPP):
    """A person with a client of its own."""

    def __init__(self, loop, port, user):
        super().__init__(f"{user}@localhost", "password")
        self.loop_of_thread, self.port, self.user = loop, port, user
        self.said, self.in_chat = [], threading.Event()
        self.register_plugin("xep_0045")
        self.register_plugin("xep_0308")
        self.enable_plaintext = True
        self.enable_starttls = False
        self.plugin["feature_mechanisms"].unencrypted_plain = True
        self.add_event_handler("session_start", self.begin)
        self.add_event_handler("groupchat_message", self.heard_one)

    def heard_one(self, message):
        nick = message["mucnick"]
        replaces = message.xml.find("{urn:xmpp:message-correct:0}replace")
        reply = message.xml.find("{urn:xmpp:reply:0}reply")
        sid = message.xml.find("{urn:xmpp:sid:0}stanza-id")
        retracted = message.xml.find("{urn:xmpp:message-retract:1}retract")
        self.said.append(
            {
                "nick": nick,
                "body": message["body"],
                "id": message["id"],
                "stanza_id": sid.get("id") if sid is not None else None,
                "replaces": replaces.get("id") if replaces is not None else None,
                "reply": reply.get("id") if reply is not None else None,
                "retracts": retracted.get("id") if retracted is not None else None,
                "unstyled": message.xml.find("{urn:xmpp:styling:0}unstyled") is not None,
            }
        )

    async def begin(self, _):
        self.send_presence()
        await self.plugin["xep_0045"].join_muc_wait(MUC, self.user, maxstanzas=0)
        self.in_chat.set()

    def say(self, body, reply=None, replaces=None, retracts=None):
        def send():
            message = self.make_message(mto=MUC, mbody=body, mtype="groupchat")
            if reply:
                element = slixmpp.ET.SubElement(message.xml, "{urn:xmpp:reply:0}reply")
                element.set("id", reply)
                element.set("to", MUC)
            if replaces:
                slixmpp.ET.SubElement(message.xml, "{urn:xmpp:message-correct:0}replace").set("id", replaces)
            if retracts:
                slixmpp.ET.SubElement(message.xml, "{urn:xmpp:message-retract:1}retract").set("id", retracts)
            message.send()

        self.loop_of_thread.call_soon_threadsafe(send)


class Prosody:
    """The server, with two people and a component."""

    def __init__(self, processes, client_port, component_port):
        self.processes, self.process = processes, None
        self.folder = processes.folder / "prosody"
        self.folder.mkdir()
        self.config = self.folder / "prosody.cfg.lua"
        self.config.write_text(
            f"""
run_as_root = true
pidfile = "{self.folder}/prosody.pid"
data_path = "{self.folder}"
log = {{ {{ levels = {{ min = "info" }}, to = "console" }} }}
modules_enabled = {{ "roster", "saslauth", "disco", "ping" }}
modules_disabled = {{ "s2s", "tls", "posix" }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_plain"
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {client_port} }}
c2s_direct_tls_ports = {{ }}
component_interfaces = {{ "127.0.0.1" }}
component_ports = {{ {component_port} }}
s2s_ports = {{ }}
VirtualHost "localhost"
Component "muc.localhost" "muc"
    modules_enabled = {{ "muc_mam" }}
Component "salon.localhost"
    component_secret = "{SECRET}"
"""
        )

    def start(self):
        self.process = self.processes.start("prosody", ["prosody", "-F", "--config", str(self.config)])

    def register(self, user):
        command = ["prosodyctl", "--root", "--config", str(self.config), "register", user, "localhost", "password"]
        subprocess.run(command, check=True, capture_output=True)

    def kill(self):
        self.processes.kill(self.process)


class Ejabberd:
    """Another server, as a second opinion. Anybody may log in."""

    def __init__(self, processes, client_port, component_port):
        self.processes, self.process = processes, None
        self.folder = processes.folder / "ejabberd"
        self.folder.mkdir()
        (self.folder / "ejabberd.yml").write_text(
            f"""
hosts: [localhost]
loglevel: info
auth_method: anonymous
anonymous_protocol: both
allow_multiple_connections: true
shaper_rules: {{}}
listen:
  - {{ port: {client_port}, ip: "127.0.0.1", module: ejabberd_c2s, starttls: false }}
  - port: {component_port}
    ip: "127.0.0.1"
    module: ejabberd_service
    hosts: {{ "salon.localhost": {{ password: "{SECRET}" }} }}
modules:
  mod_disco: {{}}
  mod_ping: {{}}
  mod_muc:
    host: muc.localhost
    min_message_interval: 0
    min_presence_interval: 0
"""
        )

    def start(self):
        # Without `ejabberdctl`, which needs a user of its own and leaves a daemon.
        libraries = "/usr/lib/x86_64-linux-gnu"
        environment = dict(
            os.environ,
            EJABBERD_CONFIG_PATH=f"{self.folder}/ejabberd.yml",
            EJABBERD_LOG_PATH=f"{self.folder}/ejabberd.log",
            ERL_LIBS=libraries,
            HOME=str(self.folder),
        )
        command = ["erl", "-noinput", "-mnesia", "dir", f'"{self.folder}/data"', "-s", "ejabberd"]
        self.process = self.processes.start("ejabberd", command, env=environment, cwd=self.folder)

    def register(self, user):
        pass

    def kill(self):
        self.processes.kill(self.process)


class Xmpp:
    name, nick, lost_in_crash = "xmpp", "salon", 0
    formatted = "*bold* and `code`"

    def __init__(self, processes, server=Prosody):
        self.client_port, self.component_port = free_port(), free_port()
        self.server = server(processes, self.client_port, self.component_port)
        self.secret = processes.folder / "xmpp.secret"
        self.secret.write_text(f"{SECRET}\n")
        self.secret.chmod(0o600)

    def section(self):
        return f"""platform = "xmpp"
server = "127.0.0.1:{self.component_port}"
domain = "salon.localhost"
secret_file = "{self.secret}"
channels = {{ "{MUC}" = "{TOPIC}" }}"""

    def start(self):
        self.server.start()
        eventually("the server listens", lambda: is_open(self.client_port) and is_open(self.component_port))
        for user in ("ann", "ben"):
            self.server.register(user)

    def kill(self):
        self.server.kill()

    def person(self, user):
        loop = asyncio.new_event_loop()
        ready, clients = threading.Event(), []

        def live():
            asyncio.set_event_loop(loop)
            client = XmppClient(loop, self.client_port, user)
            clients.append(client)
            client.connect("127.0.0.1", self.client_port)
            ready.set()
            loop.run_forever()

        threading.Thread(target=live, daemon=True).start()
        if not ready.wait(DEADLINE_SECONDS) or not clients[0].in_chat.wait(DEADLINE_SECONDS):
            raise Failure(f"{user} could not enter")
        return clients[0]

    def replies_and_edits(self, _gateway, bob, ann, said):
        indeed = eventually("a reply", lambda: heard(ann, "bob", "indeed"))
        own = eventually("its own message", lambda: heard(ann, "ann", "hello from the platform"))
        expect("it names the message", indeed["reply"], own["stanza_id"] or own["id"])
        ann.say("yes", reply=indeed["stanza_id"] or indeed["id"])
        reply = eventually("a reply in the room", lambda: [one for one in bob.chats("xmpp:") if one[1] == "yes"])
        if not reply[0][2].get("correlation_id"):
            raise Failure("the reply names nothing")
        bob.edit(said, "hello again")
        edited = eventually("a correction", lambda: heard(ann, "bob", "hello again"))
        expect("it corrects the message", edited["replaces"], heard(ann, "bob", "hello from the room")["id"])
        ann.say("hello from the platform, corrected", replaces=own["id"])
        first = eventually("the first message", lambda: [one for one in bob.chats("xmpp:") if one[1] == "hello from the platform"])[0][2]
        expect("the correction in the room", eventually("an edit", lambda: of_ghosts(bob, "edit")), [first["id"]])
        ann.say("deleted", retracts=own["stanza_id"] or own["id"])
        expect("the retraction in the room", eventually("a retraction", lambda: of_ghosts(bob, "retract")), [first["id"]])
        bob.retract(said)
        shown = heard(ann, "bob", "hello from the room")
        retraction = eventually("a retraction", lambda: next((one for one in ann.said if one["nick"] == "bob" and one["retracts"]), None))
        expect("it retracts the message", retraction["retracts"], shown["stanza_id"] or shown["id"])
        ann.say("*strong* words")
        eventually("formatting comes into the room", lambda: [one for one in bob.chats("xmpp:") if one[1] == "**strong** words"])
        bob.say("*as it is*")
        plain = eventually("a text without formatting", lambda: heard(ann, "bob", "*as it is*"))
        expect("it says that it has none", plain["unstyled"], True)


def of_ghosts(bob, what):
    """Which messages ghosts have edited or retracted."""
    method = f"notifications/chat/{what}"
    found = [one for one in bob.history() if one["payload"].get("method") == method and one["from"].startswith("xmpp:")]
    return [one["correlation_id"] for one in found]


if __name__ == "__main__":
    server = {"prosody": Prosody, "ejabberd": Ejabberd}[sys.argv[1] if len(sys.argv) > 1 else "prosody"]
    with Processes() as processes:
        conversation.run(processes, Xmpp(processes, server))
    print(f"xmpp with {server.__name__}: ok")

"""A bridge to ngircd: people by a client of lines."""

import socket
import threading

import conversation
from conversation import heard
from support import DEADLINE_SECONDS, TOPIC, Failure, Processes, eventually, free_port, is_open


class IrcClient:
    """A person with a client of lines, independent of the bridge's."""

    def __init__(self, port, nick):
        self.nick, self.said = nick, []
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.reader = self.socket.makefile("r", encoding="utf-8", newline="\r\n")
        self.joined = threading.Event()
        self.send(f"NICK {nick}")
        self.send(f"USER {nick} 0 * :{nick}")
        threading.Thread(target=self.listen, daemon=True).start()
        if not self.joined.wait(DEADLINE_SECONDS):
            raise Failure(f"{nick} could not join")

    def send(self, line):
        self.socket.sendall(f"{line}\r\n".encode())

    def say(self, text):
        self.send(f"PRIVMSG #lab :{text}")

    def listen(self):
        try:
            for line in self.reader:
                words = line.rstrip("\r\n").split(" ", 3)
                if words[0] == "PING":
                    self.send(f"PONG {words[1]}")
                elif words[1] == "001":
                    self.send("JOIN #lab")
                elif words[1] == "366":
                    self.joined.set()
                elif words[1] == "PRIVMSG":
                    self.hear(words[0][1:].split("!")[0], words[3][1:])
        except (OSError, ValueError):
            pass

    def hear(self, nick, text):
        # The bridge writes `<name> text` for everybody, after a mark that no client shows.
        text = text.removeprefix("\x0f\x0f")
        if nick.startswith("salon") and text.startswith("<"):
            nick, text = text[1:].split("> ", 1)
        self.said.append({"nick": nick, "body": text})


class Irc:
    name, nick, lost_in_crash = "irc", "salon", 1
    formatted = "\x02bold\x02 and \x11code\x11"

    def __init__(self, processes):
        self.processes, self.port, self.process = processes, free_port(), None

    def section(self):
        return f"""platform = "irc"
server = "127.0.0.1:{self.port}"
nick = "{self.nick}"
channels = {{ "#lab" = "{TOPIC}" }}
line_interval_ms = 1
line_burst = 1000"""

    def start(self):
        config = self.processes.folder / "ngircd.conf"
        config.write_text(
            f"[Global]\nName = irc.test\nInfo = test\nListen = 127.0.0.1\nPorts = {self.port}\n"
            "[Limits]\nMaxConnectionsIP = 0\nMaxJoins = 0\nMaxPenaltyTime = 0\nPingTimeout = 20\n"
            "[Options]\nDNS = no\nIdent = no\nPAM = no\nSyslogFacility = local1\n"
        )
        config.chmod(0o644)
        self.process = self.processes.start("ngircd", ["ngircd", "--nodaemon", "--config", str(config)])
        eventually("ngircd listens", lambda: is_open(self.port))

    def kill(self):
        self.processes.kill(self.process)

    def person(self, nick):
        return IrcClient(self.port, nick)

    def replies_and_edits(self, _gateway, bob, ann, said):
        eventually("a reply names its person", lambda: heard(ann, "bob", "ann: indeed"))
        bob.edit(said, "hello again")
        eventually("an edit is told", lambda: heard(ann, "bob", "(edited) hello again"))


if __name__ == "__main__":
    with Processes() as processes:
        conversation.run(processes, Irc(processes))
    print("irc: ok")

"""One room bridged to Matrix, XMPP and IRC at once: everybody reads everybody once, and nothing comes back to where it was written."""

from conversation import heard
from irc import Irc
from support import Gateway, Processes, eventually, expect, step
from synapse import BOT, Synapse
from xmpp import Xmpp

ROUNDS = 20
LAST = ROUNDS - 1


def run(processes):
    platforms = [Irc(processes), Xmpp(processes), Synapse(processes)]
    sections = [f"[bridges.{platform.name}]\n{platform.section()}\n" for platform in platforms]
    for platform in platforms:
        platform.start()
    gateway = Gateway(processes, "\n".join(sections))
    agent = gateway.participant("agent")
    irc, xmpp, matrix = platforms
    entered = "bridge: in the channel"
    # A chat that a person makes on XMPP is locked, so the bridge comes first there. A room of Matrix is made by a person.
    eventually("two bridges are in their channels", lambda: gateway.logged(entered) == 2)
    people = {"irc": irc.person("ann"), "xmpp": xmpp.person("ben"), "matrix": matrix.person("cleo")}
    eventually("the third is", lambda: gateway.logged(entered) == 3 and BOT in people["matrix"].members)
    names = {"irc": "ann", "xmpp": "ben", "matrix": "cleo", "agent": "agent"}

    step("everybody speaks in turn")
    speakers = people | {"agent": agent}
    for number in range(ROUNDS):
        for name, speaker in speakers.items():
            speaker.say(f"from {name} {number}")
    for reader, client in people.items():
        for name in speakers.keys() - {reader}:
            eventually(f"{reader} has {name}", lambda: heard(client, names[name], f"from {name} {LAST}"))
    for name in people:
        eventually(f"the room has {name}", lambda: len(agent.chats(f"{name}:")) >= ROUNDS)

    step("once each, in order, and no loop")
    # Whatever a loop would have sent comes before this.
    agent.say("the end")
    for reader, client in people.items():
        eventually(f"{reader} has the end", lambda: heard(client, "agent", "the end"))
        shown = [one["body"] for one in client.said if one["body"].startswith("from ")]
        for name in speakers:
            wanted = [f"from {name} {number}" for number in range(ROUNDS)]
            # A server of IRC does not repeat to its sender.
            wanted = [] if reader == name == "irc" else wanted
            expect(f"{reader}: {name}", [body for body in shown if body.startswith(f"from {name} ")], wanted)
    for name in people:
        found = [said for _, said, _ in agent.chats(f"{name}:")]
        expect(f"the room: {name}", found, [f"from {name} {number}" for number in range(ROUNDS)])


if __name__ == "__main__":
    with Processes() as processes:
        run(processes)
    print("together: ok")

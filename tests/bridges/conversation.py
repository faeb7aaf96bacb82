"""What is shown with every platform: two people on it, two participants and a robot in the room, crashes in the middle.

A platform has:
- `name`, the namespace of its ghosts; `nick`, the bridge's own name; `lost_in_crash`, how many messages a crash may lose
- `section()`, the lines of its `[bridges.NAME]`
- `start()`, `kill()` of its server
- `person(name)`, somebody with an independent client: `say(text)`, `said` as dictionaries with `nick` and `body`
- `bold(client)`, `replies(…)`, which are the platform's own
"""

import sys
from pathlib import Path

from support import TOPIC, Failure, Gateway, check, eventually, expect, step

MESSAGES = 1000


def heard(client, nick, body):
    """The first message with this text."""
    return next((one for one in client.said if one["nick"] == nick and one["body"] == body), None)


def run(processes, platform):
    platform.start()
    step("check")
    check(processes, platform.section())
    robot = Path(__file__).with_name("robot.py")
    gateway = Gateway(
        processes,
        f"""
[bridges.office]
{platform.section()}
ghosts_call = true
queue = {3 * MESSAGES}

[topics."{TOPIC}".guests.robot]
command = "{sys.executable}"
args = ["{robot}"]
""",
    )
    bob, carol = gateway.participant("bob"), gateway.participant("carol")
    # The bridge enters first, so that it finds a new chat of XMPP locked.
    eventually("the bridge is in the channel", lambda: gateway.logged("bridge: in the channel"))
    ann, ben = platform.person("ann"), platform.person("ben")
    prefix = f"{platform.name}:"

    def in_room(text):
        return next((one for one in bob.chats(prefix) if one[1] == text), None)

    step("chat both ways")
    ann.say("hello from the platform")
    ghost, _, first = eventually("the room has it", lambda: in_room("hello from the platform"))
    expect("a ghost has its bridge", bob.present()[ghost].get("via"), "bridge:office")
    said = bob.say("hello from the room")
    for person in (ann, ben):
        eventually("everybody has it", lambda: heard(person, "bob", "hello from the room"))
    carol.say("**bold** and `code`", markdown=True)
    eventually("formatting", lambda: heard(ben, "carol", platform.formatted))

    step("replies and edits")
    bob.say("indeed", reply_to=first["id"])
    platform.replies_and_edits(gateway, bob, ann, said)

    step("a tool called from the platform")
    eventually("the robot is there", lambda: "robot" in bob.present())
    ben.say("!call robot move x=7")
    eventually("the answer", lambda: heard(ben, platform.nick, "✓ moved to 7"))
    ben.say("!who")
    eventually("who is there", lambda: any("in the room" in one["body"] and "robot" in one["body"] for one in ben.said))

    step(f"{MESSAGES} messages in order and once, both ways, and kill -9 of gateway and bridge in the middle")
    half = MESSAGES // 2

    def shown_so_far():
        return len(ann.said)

    def written_so_far():
        return len(bob.chats(prefix))

    for number in range(half):
        bob.say(f"r{number}")
        ann.say(f"p{number}")
    eventually("half of them", lambda: heard(ann, "bob", f"r{half - 1}"), shown_so_far)
    eventually("half of them", lambda: in_room(f"p{half - 1}"), written_so_far)
    for number in range(half, half + 50):
        bob.say(f"r{number}")
    entered = gateway.logged("bridge: in the channel")
    gateway.kill()
    gateway.start()
    eventually("the bridge is back", lambda: gateway.logged("bridge: in the channel") > entered)
    for number in range(half + 50, MESSAGES):
        bob.say(f"r{number}")
    for number in range(half, MESSAGES):
        ann.say(f"p{number}")
    eventually("all of them", lambda: heard(ann, "bob", f"r{MESSAGES - 1}"), shown_so_far)
    eventually("all of them", lambda: in_room(f"p{MESSAGES - 1}"), written_so_far)
    shown = [int(one["body"][1:]) for one in ann.said if one["nick"] == "bob" and one["body"][:1] == "r" and one["body"][1:].isdigit()]
    expect("none twice, and in order", shown, sorted(set(shown)))
    lost = sorted(set(range(MESSAGES)) - set(shown))
    if len(lost) > platform.lost_in_crash:
        raise Failure(f"{len(lost)} messages were lost: {lost}")
    written = [text for _, text, _ in bob.chats(ghost) if text.startswith("p")]
    expect("from the platform, once and in order", written, [f"p{number}" for number in range(MESSAGES)])

    step("kill of the server in the middle")
    entered = gateway.logged("bridge: in the channel")
    platform.kill()
    for number in range(5):
        bob.say(f"said while the server is away {number}")
    platform.start()
    eventually("the bridge is back", lambda: gateway.logged("bridge: in the channel") > entered)
    ann = platform.person("ann")
    for number in range(20):
        bob.say(f"s{number}")
        ann.say(f"t{number}")
    eventually("they come when it is back", lambda: heard(ann, "bob", "s19"))
    shown = [one["body"] for one in ann.said if one["nick"] == "bob" and one["body"][:1] == "s" and one["body"][1:].isdigit()]
    expect("once and in order", shown, [f"s{number}" for number in range(20)])
    eventually("and the other way", lambda: in_room("t19"))
    written = [text for _, text, _ in bob.chats(prefix) if text[:1] == "t"]
    expect("once and in order", written, [f"t{number}" for number in range(20)])

"""What every client on a Python SDK does, and what must come of it. The clients differ only in how they ask.

Each part that went well is one line of JSON on stdout; the first that did not ends the program with the reason on stderr.
Results are looked at as the JSON they are on the wire.
"""

import json
import os

import anyio

PREFIX = os.environ.get("MCP_PREFIX", "")
"""What is put before the names of tools and prompts where a room offers them."""

ASKS = os.environ.get("MCP_ASKS", "requests")
"""How tools ask their caller: by "requests" while a call runs, or in "rounds" of `input_required`."""

ROOT = {"uri": "file:///project", "name": "project"}
MODEL_SAYS = "a model wrote it"
WATCHED = "test://watched-resource"
ANSWERS = {
    "username": "Carol",
    "email": "carol@example.com",
    "name": "Carol",
    "color": "green",
    "ok": True,
    "context": "tea",
}


def found(finding, **more):
    print(json.dumps({"finding": finding, **more}), flush=True)


def same(came, wanted):
    if came != wanted:
        raise AssertionError(f"{wanted!r} was expected, not {came!r}")


def wire(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def text(result):
    return result["content"][0]["text"]


def words(params):
    """What an elicitation asks, without the id of who asks, which the gateway puts before it."""
    return params["message"].rpartition(" asks: ")[2]


class Asked:
    """What this client is asked, and what it answers, as JSON."""

    def __init__(self):
        self.all = []
        self.mood = "accept"

    def sample(self, params):
        self.all.append(("sampling", wire(params)))
        content = {"type": "text", "text": MODEL_SAYS}
        return {"role": "assistant", "content": content, "model": "a-model", "stopReason": "endTurn"}

    def elicit(self, params):
        asked = wire(params)
        self.all.append(("elicitation", asked))
        if self.mood != "accept":
            return {"action": self.mood}
        wanted = asked["requestedSchema"].get("required", [])
        return {"action": "accept", "content": {name: ANSWERS[name] for name in wanted}}

    def roots(self):
        self.all.append(("roots", None))
        return {"roots": [ROOT]}


class Heard:
    """Notifications in the order in which they came, for a step that waits for one."""

    def __init__(self):
        self.all = []
        self.came = anyio.Event()

    def note(self, method, params=None):
        self.all.append((method, params))
        self.came.set()
        self.came = anyio.Event()

    def count(self, method):
        return sum(1 for one, _ in self.all if one == method)

    async def next(self, method):
        """What the next one said; those before it are forgotten."""
        while True:
            for at, (one, params) in enumerate(self.all):
                if one == method:
                    del self.all[: at + 1]
                    return params
            await self.came.wait()


async def play(client, asked, heard):
    """`client` has `era`, `missing`, which is the code of a resource that is not there, and the methods `pages(list)`,
    `call(name, arguments, progress=None)`, `cancelled(name, arguments)`, `read(uri)`, `prompt(name, arguments)`,
    `complete(reference, argument)`, `level(level)`, `watch(uri)`, a context, and `code(error)`.
    """

    async def call(name, arguments=None, **more):
        return await client.call(PREFIX + name, arguments or {}, **more)

    await lists(client)
    await calls(client, call)
    await contents(client)
    await progress(call)
    await cancelling(client, call)
    if ASKS == "requests":
        await questions(call, asked)
    else:
        await rounds(client, call, asked)
    await logging(client, call, heard)
    await news(client, call, heard)


async def failing(client, what):
    try:
        await what
    except Exception as error:
        return client.code(error)
    raise AssertionError("an error was expected")


async def lists(client):
    for name, key in [
        ("tools", "name"),
        ("prompts", "name"),
        ("resources", "uri"),
        ("resourceTemplates", "uriTemplate"),
    ]:
        found(name, names=[item[key] for item in await client.pages(name)])


async def calls(client, call):
    value = {
        "text": 'Grüße, 世界 🌍 \u2028"\\',
        "big": 9_007_199_254_740_993,
        "most": 18_446_744_073_709_551_615,
        "least": -9_223_372_036_854_775_808,
        "list": [None, True, -0.5, {}],
        "ключ": "",
    }
    echoed = await call("echo", {"value": value})
    same(json.loads(text(echoed)), {"value": value})
    same(echoed["structuredContent"], {"value": value})
    same(echoed.get("isError", False), False)
    found("echo")

    failed = await call("test_error_handling")
    same(failed["isError"], True)
    assert "intentionally" in text(failed), failed
    same(await failing(client, call("there_is_no_such_tool")), -32602)
    found("failure")

    me = (await call("who_am_i"))["structuredContent"]
    same(me["clientInfo"]["name"], os.environ.get("MCP_SEEN_AS", me["clientInfo"]["name"]))
    for capability in ["sampling", "elicitation", "roots"]:
        assert capability in me["capabilities"], me
    found("capabilities", clientInfo=me["clientInfo"], protocolVersion=me["protocolVersion"])


async def contents(client):
    plain = (await client.read("test://static-text"))["contents"][0]
    same(plain["text"], "This is the content of the static text resource.")
    same(plain["uri"], "test://static-text")
    binary = (await client.read("test://static-binary"))["contents"][0]
    assert binary["blob"].startswith("iVBOR"), binary
    made = (await client.read("test://template/7/data"))["contents"][0]
    same(json.loads(made["text"])["data"], "Data for ID: 7")
    same(await failing(client, client.read("nowhere://at/all")), int(os.environ.get("MCP_MISSING", client.missing)))
    found("read")

    name = PREFIX + "test_prompt_with_arguments"
    prompt = await client.prompt(name, {"arg1": "eins", "arg2": "zwei"})
    same(prompt["messages"][0]["content"]["text"], "Prompt with arguments: arg1='eins', arg2='zwei'")
    found("prompt")

    completed = await client.complete({"type": "ref/prompt", "name": name}, {"name": "arg1", "value": "par"})
    same(completed["completion"]["values"], ["paris", "park", "party"])
    template = {"type": "ref/resource", "uri": "test://template/{id}/data"}
    completed = await client.complete(template, {"name": "id", "value": "sal"})
    same(completed["completion"]["values"], ["salon"])
    found("completion")


async def progress(call):
    told = []

    async def note(progress, total, message):
        told.append((progress, total, message))

    same(text(await call("slow", {"ms": 30, "steps": 3}, progress=note)), "3 steps in 30 ms")
    same(told, [(0, 3, "begun"), (1, 3, "step 1 of 3"), (2, 3, "step 2 of 3"), (3, 3, "step 3 of 3")])
    found("progress")


async def cancelling(client, call):
    async def count():
        return (await call("cancellations"))["structuredContent"]["count"]

    before = await count()
    await client.cancelled(PREFIX + "slow", {"ms": 600_000, "steps": 2})
    while await count() != before + 1:
        pass
    found("cancel")


def first(content):
    return content[0] if isinstance(content, list) else content


async def questions(call, asked):
    same(text(await call("test_sampling", {"prompt": "Who wrote this?"})), f"LLM response: {MODEL_SAYS}")
    what, params = asked.all.pop()
    same(what, "sampling")
    same(first(params["messages"][0]["content"])["text"], "Who wrote this?")
    same(params["maxTokens"], 100)
    found("sampling")

    intro, content = text(await call("test_elicitation", {"message": "Who are you?"})).split(", content=")
    same(intro, "User response: action=accept")
    same(json.loads(content), {"username": "Carol", "email": "carol@example.com"})
    what, params = asked.all.pop()
    same((what, words(params)), ("elicitation", "Who are you?"))
    same(params["requestedSchema"]["required"], ["username", "email"])
    asked.mood = "decline"
    declined = text(await call("test_elicitation", {"message": "And now?"}))
    assert declined.startswith("User response: action=decline"), declined
    asked.mood = "accept"
    found("elicitation")

    same(json.loads(text(await call("test_roots")).removeprefix("Roots: ")), [ROOT])
    found("roots")

    # Several that ask at once get their own answers.
    said = []

    async def ask(name, arguments):
        said.append(text(await call(name, arguments)))

    async with anyio.create_task_group() as group:
        for prompt in ["one", "two", "three"]:
            group.start_soon(ask, "test_sampling", {"prompt": prompt})
        group.start_soon(ask, "test_roots", {})
    same(said.count(f"LLM response: {MODEL_SAYS}"), 3)
    found("together")


async def rounds(client, call, asked):
    said = text(await call("test_input_required_result_sampling"))
    same(said, f"The model says: {json.dumps(MODEL_SAYS)}")
    what, params = asked.all.pop()
    same(first(params["messages"][0]["content"])["text"], "What is the capital of France?")
    found("sampling")

    same(text(await call("test_input_required_result_elicitation")), "Hello, Carol!")
    what, params = asked.all.pop()
    same((what, words(params)), ("elicitation", "What is your name?"))
    found("elicitation")

    listed = text(await call("test_input_required_result_list_roots")).removeprefix("The roots are ")
    same(json.loads(listed), [ROOT])
    found("roots")

    asked.all.clear()
    same(text(await call("test_input_required_result_multiple_inputs")), "All three are there.")
    same(sorted(what for what, _ in asked.all), ["elicitation", "roots", "sampling"])
    asked.all.clear()
    same(text(await call("test_input_required_result_multi_round")), "Both steps are done.")
    steps = [words(params) for _, params in asked.all]
    same(steps, ["Step 1: What is your name?", "Step 2: What is your favorite color?"])
    same(text(await call("test_input_required_result_request_state")), "state-ok")
    prompt = await client.prompt(PREFIX + "test_input_required_result_prompt", {})
    same(prompt["messages"][0]["content"]["text"], 'Use this context: "tea"')
    found("together")


async def logging(client, call, heard):
    line = "notifications/message"
    heard.all.clear()
    await client.level("error")
    await call("test_tool_with_logging")
    await client.level("debug")
    await call("test_tool_with_logging")
    lines = [await heard.next(line) for _ in range(3)]
    same(
        [(params["level"], params["data"], params["logger"]) for params in lines],
        [
            ("info", data, "rmcp-server")
            for data in ["Tool execution started", "Tool processing data", "Tool execution completed"]
        ],
    )
    same(heard.count(line), 0)
    found("logging")


async def news(client, call, heard):
    updated, changed = "notifications/resources/updated", "notifications/tools/list_changed"

    async def appears(wanted):
        await call("test_trigger_tool_change")
        # The room may tell of other changes too.
        while True:
            await heard.next(changed)
            tools = [tool["name"] for tool in await client.pages("tools")]
            if (PREFIX + "appeared" in tools) == wanted:
                return

    heard.all.clear()
    async with client.watch(WATCHED):
        await call("touch", {"uri": "test://static-text"})
        await call("touch", {"uri": WATCHED})
        same((await heard.next(updated))["uri"], WATCHED)
        found("update")
        await appears(True)
        same(text(await call("appeared")), "Here I am.")
        found("changed")
    heard.all.clear()
    await call("touch", {"uri": WATCHED})
    if client.era == "legacy":
        # A later notification has come, so an earlier one would have.
        await appears(False)
        same(heard.count(updated), 0)
    else:
        # Nothing says when the other side knows that nobody listens any more.
        while heard.count(updated):
            heard.all.clear()
            await call("touch", {"uri": WATCHED})
    found("unsubscribed")

// What every client on a TypeScript SDK does, and what must come of it. The clients differ only in how they ask.
//
// Each part that went well is one line of JSON on stdout; the first that did not ends the program with the reason on stderr.
import assert from "node:assert/strict";

/** What is put before the names of tools and prompts where a room offers them. */
const prefix = process.env.MCP_PREFIX ?? "";
/** How tools ask their caller: by "requests" while a call runs, or in "rounds" of `input_required`. */
const asks = process.env.MCP_ASKS ?? "requests";

const ROOT = { uri: "file:///project", name: "project" };
const MODEL_SAYS = "a model wrote it";
const WATCHED = "test://watched-resource";

/** What this client was asked, and what it answers. */
export const asked = [];
let mood = "accept";

export function sample(params) {
  asked.push(["sampling", params]);
  return { role: "assistant", content: { type: "text", text: MODEL_SAYS }, model: "a-model", stopReason: "endTurn" };
}

/** What an elicitation asks, without the id of who asks, which the gateway puts before it. */
function words(params) {
  return params.message.split(" asks: ").at(-1);
}

export function elicit(params) {
  asked.push(["elicitation", params]);
  if (mood !== "accept") return { action: mood };
  const answers = { username: "Carol", email: "carol@example.com", name: "Carol", color: "green", ok: true, context: "tea" };
  const wanted = params.requestedSchema.required ?? [];
  return { action: "accept", content: Object.fromEntries(wanted.map((name) => [name, answers[name]])) };
}

export function roots() {
  asked.push(["roots", undefined]);
  return { roots: [ROOT] };
}

/** Notifications in the order in which they came, for a step that waits for one. */
export class Heard {
  #all = [];
  #waiting = [];
  /** Progress that the SDK did not know the call of any more. */
  late = [];

  /** What went wrong inside of the SDK. It takes an answer before a notification that was read together with it. */
  wrong(error) {
    const [, notification] = /progress notification for an unknown token: (.*)$/s.exec(error.message) ?? [];
    if (notification === undefined) console.error("told:", error);
    else this.late.push(JSON.parse(notification).params);
  }

  note(method, params) {
    this.#all.push({ method, params });
    for (const wake of this.#waiting.splice(0)) wake();
  }

  count(method) {
    return this.#all.filter((one) => one.method === method).length;
  }

  forget() {
    this.#all = [];
  }

  /** The next one that fits; those before it are forgotten. */
  async next(fits) {
    for (;;) {
      const at = this.#all.findIndex(fits);
      if (at >= 0) return this.#all.splice(0, at + 1)[at];
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}

function found(finding, more = {}) {
  console.log(JSON.stringify({ finding, ...more }));
}

const text = (result) => result.content[0].text;
const names = (items, key) => items.map((item) => item[key]);

async function code(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  assert.fail("an error was expected");
}

/** Runs `main` and ends the program, well or not. */
export function run(main) {
  main().then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

/**
 * `client` has `era`, `heard`, `missing`, which is the code of a resource that is not there, and the methods `pages(list)`, `call(name, args, options)`, `read(uri)`,
 * `prompt(name, args)`, `complete(ref, argument)`, `level(level)`, `watch(uri)`, which gives back how to stop, and `close()`.
 */
export async function play(client) {
  const call = (name, args = {}, options = {}) => client.call(prefix + name, args, options);
  await lists(client);
  await calls(client, call);
  await contents(client);
  await progress(client, call);
  await cancelling(call);
  await (asks === "requests" ? questions(call) : rounds(client, call));
  await logging(client, call);
  await news(client, call);
  await client.close();
  found("end");
}

async function lists(client) {
  for (const [list, key] of [["tools", "name"], ["prompts", "name"], ["resources", "uri"], ["resourceTemplates", "uriTemplate"]]) {
    found(list, { names: names(await client.pages(list), key) });
  }
}

async function calls(client, call) {
  const value = { text: "Grüße, 世界 🌍 \u2028\"\\", most: Number.MAX_SAFE_INTEGER, list: [null, true, -0.5, {}], "ключ": "" };
  const echoed = await call("echo", { value });
  assert.deepEqual(echoed.structuredContent, { value });
  assert.deepEqual(JSON.parse(text(echoed)), { value });
  assert.ok(!echoed.isError);
  found("echo");

  const failed = await call("test_error_handling");
  assert.equal(failed.isError, true);
  assert.match(text(failed), /intentionally/);
  assert.equal(await code(client.call(prefix + "there_is_no_such_tool", {})), -32602);
  found("failure");

  const { structuredContent: me } = await call("who_am_i");
  assert.equal(me.clientInfo.name, process.env.MCP_SEEN_AS ?? me.clientInfo.name);
  assert.ok(me.capabilities.sampling && me.capabilities.elicitation && me.capabilities.roots, JSON.stringify(me));
  found("capabilities", { clientInfo: me.clientInfo, protocolVersion: me.protocolVersion });
}

async function contents(client) {
  const [plain] = (await client.read("test://static-text")).contents;
  assert.equal(plain.uri, "test://static-text");
  assert.equal(plain.text, "This is the content of the static text resource.");
  const [binary] = (await client.read("test://static-binary")).contents;
  assert.ok(binary.blob.startsWith("iVBOR"));
  const [made] = (await client.read("test://template/ü 7/data")).contents;
  assert.equal(JSON.parse(made.text).data, "Data for ID: ü 7");
  assert.equal(await code(client.read("nowhere://at/all")), Number(process.env.MCP_MISSING ?? client.missing));
  found("read");

  const name = `${prefix}test_prompt_with_arguments`;
  const prompt = await client.prompt(name, { arg1: "eins", arg2: "zwei" });
  assert.equal(prompt.messages[0].content.text, "Prompt with arguments: arg1='eins', arg2='zwei'");
  found("prompt");

  const { completion } = await client.complete({ type: "ref/prompt", name }, { name: "arg1", value: "par" });
  assert.deepEqual(completion.values, ["paris", "park", "party"]);
  const template = { type: "ref/resource", uri: "test://template/{id}/data" };
  const other = await client.complete(template, { name: "id", value: "sal" });
  assert.deepEqual(other.completion.values, ["salon"]);
  found("completion");
}

async function progress(client, call) {
  const told = [];
  const result = await call("slow", { ms: 30, steps: 3 }, { onprogress: (report) => told.push(report) });
  // What was read together with the answer comes after it.
  await client.read("test://static-text");
  told.push(...client.heard.late.map(({ progressToken, ...report }) => report));
  assert.equal(text(result), "3 steps in 30 ms");
  const messages = ["begun", "step 1 of 3", "step 2 of 3", "step 3 of 3"];
  assert.deepEqual(told, messages.map((message, progress) => ({ progress, total: 3, message })));
  found("progress");
}

async function cancelling(call) {
  const cancelled = async () => (await call("cancellations")).structuredContent.count;
  const before = await cancelled();
  const abort = new AbortController();
  const onprogress = () => abort.abort(new Error("not wanted any more"));
  const slow = call("slow", { ms: 600_000, steps: 2 }, { onprogress, signal: abort.signal });
  await assert.rejects(slow, /not wanted any more/);
  while ((await cancelled()) !== before + 1);
  found("cancel");
}

async function questions(call) {
  assert.equal(text(await call("test_sampling", { prompt: "Who wrote this?" })), `LLM response: ${MODEL_SAYS}`);
  const [what, sampling] = asked.pop();
  assert.equal(what, "sampling");
  assert.equal([sampling.messages[0].content].flat()[0].text, "Who wrote this?");
  assert.equal(sampling.maxTokens, 100);
  found("sampling");

  const elicited = await call("test_elicitation", { message: "Who are you?" });
  const [intro, content] = text(elicited).split(", content=");
  assert.equal(intro, "User response: action=accept");
  assert.deepEqual(JSON.parse(content), { username: "Carol", email: "carol@example.com" });
  const [, question] = asked.pop();
  assert.equal(words(question), "Who are you?");
  assert.deepEqual(question.requestedSchema.required, ["username", "email"]);
  mood = "decline";
  assert.match(text(await call("test_elicitation", { message: "And now?" })), /^User response: action=decline/);
  mood = "accept";
  found("elicitation");

  const listed = text(await call("test_roots")).replace("Roots: ", "");
  assert.deepEqual(JSON.parse(listed), [ROOT]);
  found("roots");

  // Several that ask at once get their own answers.
  const prompts = ["one", "two", "three"];
  const all = await Promise.all([...prompts.map((prompt) => call("test_sampling", { prompt })), call("test_roots")]);
  assert.deepEqual(all.slice(0, 3).map(text), prompts.map(() => `LLM response: ${MODEL_SAYS}`));
  found("together");
}

async function rounds(client, call) {
  const said = await call("test_input_required_result_sampling");
  assert.equal(text(said), `The model says: ${JSON.stringify(MODEL_SAYS)}`);
  const [, sampling] = asked.pop();
  assert.equal([sampling.messages[0].content].flat()[0].text, "What is the capital of France?");
  found("sampling");

  assert.equal(text(await call("test_input_required_result_elicitation")), "Hello, Carol!");
  const [, question] = asked.pop();
  assert.equal(words(question), "What is your name?");
  found("elicitation");

  const listed = text(await call("test_input_required_result_list_roots")).replace("The roots are ", "");
  assert.deepEqual(JSON.parse(listed), [ROOT]);
  found("roots");

  asked.length = 0;
  assert.equal(text(await call("test_input_required_result_multiple_inputs")), "All three are there.");
  assert.deepEqual(asked.map(([what]) => what).sort(), ["elicitation", "roots", "sampling"]);
  asked.length = 0;
  assert.equal(text(await call("test_input_required_result_multi_round")), "Both steps are done.");
  const steps = asked.map(([, params]) => words(params));
  assert.deepEqual(steps, ["Step 1: What is your name?", "Step 2: What is your favorite color?"]);
  assert.equal(text(await call("test_input_required_result_request_state")), "state-ok");
  const prompt = await client.prompt(`${prefix}test_input_required_result_prompt`, {});
  assert.equal(prompt.messages[0].content.text, 'Use this context: "tea"');
  found("together");
}

async function logging(client, call) {
  const line = "notifications/message";
  client.heard.forget();
  await client.level("error");
  await call("test_tool_with_logging");
  await client.level("debug");
  await call("test_tool_with_logging");
  const lines = [];
  while (lines.length < 3) lines.push(await client.heard.next((one) => one.method === line));
  assert.deepEqual(
    lines.map(({ params }) => [params.level, params.data, params.logger]),
    ["Tool execution started", "Tool processing data", "Tool execution completed"].map((data) => ["info", data, "rmcp-server"]),
  );
  assert.equal(client.heard.count(line), 0);
  found("logging");
}

async function news(client, call) {
  const [updated, changed] = ["notifications/resources/updated", "notifications/tools/list_changed"];
  const appeared = async (wanted) => {
    await call("test_trigger_tool_change");
    // The room may tell of other changes too.
    for (;;) {
      await client.heard.next((one) => one.method === changed);
      if (names(await client.pages("tools"), "name").includes(`${prefix}appeared`) === wanted) return;
    }
  };
  client.heard.forget();
  const stop = await client.watch(WATCHED);
  await call("touch", { uri: "test://static-text" });
  await call("touch", { uri: WATCHED });
  const { params } = await client.heard.next((one) => one.method === updated);
  assert.equal(params.uri, WATCHED);
  found("update");

  await appeared(true);
  assert.equal(text(await call("appeared")), "Here I am.");
  found("changed");

  await stop();
  client.heard.forget();
  await call("touch", { uri: WATCHED });
  if (client.era === "legacy") {
    // A later notification has come, so an earlier one would have.
    await appeared(false);
    assert.equal(client.heard.count(updated), 0);
  } else {
    // Nothing says when the other side knows that nobody listens any more.
    while (client.heard.count(updated) > 0) {
      client.heard.forget();
      await call("touch", { uri: WATCHED });
    }
  }
  found("unsubscribed");
}

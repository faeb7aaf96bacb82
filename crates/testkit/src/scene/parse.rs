//! Reads the language of scenes. Knows nothing of gateways.

use serde_json::Value;

use super::matching::is_variable;
use super::{
    ConnectionName, Expected, ExpectedRefusal, Over, Scene, SceneIncoming, SceneLine, SceneOutgoing, SceneStep,
    SceneWay, With,
};
use crate::Failure;

pub(crate) fn scene(text: &str) -> Result<Scene, Failure> {
    let mut scene = Scene { settings: Vec::new(), steps: Vec::new() };
    for (number, line) in logical_lines(text) {
        let told = |e: String| format!("{number}: {e}\n    {line}");
        if let Some(settings) = line.strip_prefix("gateway with ") {
            if !scene.steps.is_empty() {
                return Err(told("settings come before the first step".into()));
            }
            scene.settings.extend(settings.split(',').map(setting));
        } else {
            let step = step(&line).map_err(told)?;
            scene.steps.push(SceneLine { number, text: line, step });
        }
    }
    if scene.steps.is_empty() { Err("1: nothing happens in this scene".into()) } else { Ok(scene) }
}

/// Lines without comments, each with its continuations. Only the end of a line is trimmed: raw text keeps its inner blanks.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match lines.last_mut() {
            Some((_, before)) if line.starts_with([' ', '\t']) => {
                before.push(' ');
                before.push_str(line.trim());
            }
            _ => lines.push((index + 1, line.trim_end().to_owned())),
        }
    }
    lines
}

fn setting(text: &str) -> (String, String) {
    let (key, value) = text.trim().split_once(' ').unwrap_or((text.trim(), "true"));
    (key.to_owned(), value.trim().to_owned())
}

fn step(line: &str) -> Result<SceneStep, Failure> {
    if line == "the gateway restarts" {
        return Ok(SceneStep::Restart);
    }
    if line == "no second gateway starts on the same data" {
        return Ok(SceneStep::NoRival);
    }
    let mut words = Words(line);
    if words.peek().is_some_and(is_variable) {
        let name = words.word("a variable")?[1..].to_owned();
        words.demand("is")?;
        let value = words.optional_json()?.ok_or("the value is missing")?;
        return Ok(SceneStep::Name { name, value });
    }
    let (subjects, verb) = subjects(&mut words)?;
    if let Some(owner) = subjects[0].0.strip_suffix("'s") {
        let who = ConnectionName(owner.to_owned());
        return match (verb, words.rest()) {
            ("connection", "breaks") => Ok(SceneStep::Break { who }),
            ("stream", "ends") => Ok(SceneStep::StreamEnds { who }),
            _ => Err(format!("`{verb}` is nothing that belongs to anybody")),
        };
    }
    match verb {
        "gets" | "get" => Ok(SceneStep::Get { who: subjects, what: incoming(words)? }),
        "waits" | "wait" => {
            words.demand("for")?;
            match incoming(words)? {
                what @ (SceneIncoming::Sent(_) | SceneIncoming::Json(_)) => Ok(SceneStep::Wait { who: subjects, what }),
                other => Err(format!("nobody can wait for {other:?}")),
            }
        }
        "is" | "are" => state(subjects, words),
        _ => match <[ConnectionName; 1]>::try_from(subjects) {
            Ok([who]) => action(who, verb, words),
            Err(several) => Err(format!("{} participants cannot do `{verb}` in one step", several.len())),
        },
    }
}

/// `alice, bob and carol`, up to the verb.
fn subjects<'a>(words: &mut Words<'a>) -> Result<(Vec<ConnectionName>, &'a str), Failure> {
    let mut subjects = Vec::new();
    loop {
        let word = words.word("a name")?;
        subjects.push(ConnectionName(word.trim_end_matches(',').to_owned()));
        let joined = words.eat("and");
        if !joined && !word.ends_with(',') {
            return Ok((subjects, words.word("a verb")?));
        }
    }
}

fn state(who: Vec<ConnectionName>, mut words: Words<'_>) -> Result<SceneStep, Failure> {
    match words.word("what somebody is")? {
        "closed" => {
            let code = words.word("a close code")?;
            let code = code.parse().map_err(|_| format!("`{code}` is no close code"))?;
            words.end(SceneStep::Closed { who, code })
        }
        verb @ ("refused" | "told") => {
            let code = words.word("a refusal's code")?.to_owned();
            let regarding = words.eat("regarding").then(|| words.word("an id").map(str::to_owned)).transpose()?;
            let what = match verb {
                "told" => SceneIncoming::ErrorNotice { code, regarding },
                _ => SceneIncoming::Refusal { code, regarding },
            };
            words.end(SceneStep::Get { who, what })
        }
        "asked" => match <[ConnectionName; 1]>::try_from(who) {
            Ok([who]) => asked(who, words),
            Err(_) => Err("everyone is asked alone".into()),
        },
        "welcomed" => match <[ConnectionName; 1]>::try_from(who) {
            Ok([who]) => Ok(SceneStep::Welcomed { who, expected: expected(String::new(), words)? }),
            Err(_) => Err("everyone is welcomed alone".into()),
        },
        other => Err(format!("nobody can be `{other}`")),
    }
}

/// `METHOD by X as $Y [PARAMS]`: a request to somebody in particular.
fn asked(who: ConnectionName, mut words: Words<'_>) -> Result<SceneStep, Failure> {
    let method = words.word("a method")?;
    words.demand("by")?;
    let from = words.word("whom")?;
    words.demand("as")?;
    let id = words.word("a variable")?;
    let mut wanted =
        serde_json::json!({"id": id, "from": from, "to": [who.participant()], "payload": {"method": method}});
    if let Some(params) = words.optional_json()? {
        wanted["payload"]["params"] = json(&params)?;
    }
    Ok(SceneStep::Wait { who: vec![who], what: SceneIncoming::Json(wanted) })
}

fn action(who: ConnectionName, verb: &str, mut words: Words<'_>) -> Result<SceneStep, Failure> {
    match verb {
        "joins" => {
            let topic = words.word("a topic")?.to_owned();
            let (way, with) = (way(&mut words)?, with(&mut words)?);
            words.end(SceneStep::Join { who, topic, way, with })
        }
        "finally" => {
            words.demand("joins")?;
            Ok(SceneStep::FinallyJoin(Box::new(action(who, "joins", words)?)))
        }
        "connects" => {
            words.demand("to")?;
            let topic = words.word("a topic")?.to_owned();
            let (way, with) = (way(&mut words)?, with(&mut words)?);
            words.end(SceneStep::Connect { who, topic, way, with })
        }
        "serves" => {
            let topic = words.word("a topic")?.to_owned();
            words.demand("by")?;
            let draft = words.eat("draft");
            if !draft {
                words.demand("mcp")?;
            }
            let tools = words.optional_json()?.unwrap_or_else(|| "[]".into());
            Ok(SceneStep::Serve { who, topic, draft, tools })
        }
        "offers" => {
            let tools = words.optional_json()?.ok_or("what is offered is missing")?;
            Ok(SceneStep::Offer { who, tools })
        }
        "meets" => {
            let whom = words.word("whom")?.to_owned();
            words.demand("as")?;
            let id = words.word("an id")?.to_owned();
            let capabilities = words.optional_json()?.unwrap_or_else(|| "{}".into());
            Ok(SceneStep::Meet { who, whom, id, capabilities })
        }
        "follows" => {
            let topic = words.word("a topic")?.to_owned();
            let with = with(&mut words)?;
            words.end(SceneStep::Follow { who, topic, with })
        }
        "enters" => {
            let ghost = words.word("a ghost")?.to_owned();
            let more = words.optional_json()?.unwrap_or_else(|| "{}".into());
            Ok(SceneStep::EnterGhost { who, ghost, more, refused: None })
        }
        "removes" => {
            let ghost = words.word("a ghost")?.to_owned();
            let reason = Some(words.rest()).filter(|reason| !reason.is_empty()).map(str::to_owned);
            Ok(SceneStep::RemoveGhost { who, ghost, reason })
        }
        "cannot" if words.eat("enter") => {
            let (attempt, code) = words.rest().rsplit_once(": ").ok_or("how it is refused comes after `: `")?;
            let mut words = Words(attempt);
            let ghost = words.word("a ghost")?.to_owned();
            let more = words.optional_json()?.unwrap_or_else(|| "{}".into());
            Ok(SceneStep::EnterGhost { who, ghost, more, refused: Some(code.to_owned()) })
        }
        "cannot" => {
            let (verb, line) = (words.word("`join` or `follow`")?, words.rest());
            let (attempt, refused) = line.rsplit_once(": ").ok_or("how it is refused comes after `: `")?;
            let mut words = Words(attempt);
            let topic = words.word("a topic")?.to_owned();
            let with = with(&mut words)?;
            words.end(())?;
            let (status, code) = refused.split_once(' ').ok_or("a refusal has a status and a code")?;
            let refused = ExpectedRefusal { status: status.into(), code: code.into() };
            match verb {
                "join" => Ok(SceneStep::CannotJoin { who, topic, with, refused }),
                "follow" => Ok(SceneStep::CannotFollow { who, topic, with, refused }),
                _ => Err(format!("`{verb}` is neither `join` nor `follow`")),
            }
        }
        "leaves" => words.end(SceneStep::Leave { who }),
        "floods" => {
            let topic = words.peek().filter(|word| word.contains(':')).map(str::to_owned);
            if let Some(topic) = &topic {
                words.demand(topic)?;
                words.demand("with")?;
            }
            let count = words.word("a count")?;
            let count = count.parse().map_err(|_| format!("`{count}` is no count"))?;
            if topic.is_some() {
                words.demand("posts")?;
            }
            words.demand("until")?;
            words.demand("refused")?;
            let code = words.word("a refusal's code")?.to_owned();
            words.end(match topic {
                None => SceneStep::Flood { who, count, code },
                Some(topic) => SceneStep::FloodByPosts { who, topic, count, code },
            })
        }
        "posts" => {
            words.demand("to")?;
            let topic = words.word("a topic")?.to_owned();
            let (envelope, answer) = arrow(words.rest())?;
            Ok(SceneStep::Post { who, topic, envelope: envelope.to_owned(), answer })
        }
        "asks" => {
            let (question, answer) = arrow(words.rest())?;
            let mut words = Words(question);
            let (method, path) = (words.word("a method")?.to_owned(), words.word("a path")?.to_owned());
            let with = with(&mut words)?;
            let who = (who.0 != "nobody").then_some(who);
            Ok(SceneStep::Ask { who, method, path, with, body: words.rest().to_owned(), answer })
        }
        _ => Ok(SceneStep::Send { who, what: outgoing(verb, words)? }),
    }
}

/// `by mcpx`, or `by mcp` with whom it sees and what carries it.
fn way(words: &mut Words<'_>) -> Result<SceneWay, Failure> {
    words.demand("by")?;
    if words.eat("mcpx") {
        return Ok(SceneWay::Mcpx);
    }
    if words.eat("framed") {
        return Ok(SceneWay::Framed);
    }
    if words.eat("machine") {
        return Ok(SceneWay::Machine { over: over(words)? });
    }
    if words.eat("draft") {
        let at = words.eat("at").then(|| words.word("a participant").map(str::to_owned)).transpose()?;
        return Ok(SceneWay::Draft { at, over: over(words)? });
    }
    if !words.eat("mcp") {
        return Err(format!("expected `mcpx` or `mcp` before `{}`", words.rest()));
    }
    let at = words.eat("at").then(|| words.word("a participant").map(str::to_owned)).transpose()?;
    let over = over(words)?;
    Ok(SceneWay::Mcp { at, over })
}

/// What carries a client, where that is said.
fn over(words: &mut Words<'_>) -> Result<Over, Failure> {
    Ok(match words.eat("over").then(|| words.word("a carrier")).transpose()? {
        None => Over::WebSocket,
        Some("http") => Over::Http,
        Some("sse") => Over::Sse,
        Some("poll") => Over::Poll,
        Some(other) => return Err(format!("`{other}` is neither `http` nor `sse`")),
    })
}

fn outgoing(verb: &str, mut words: Words<'_>) -> Result<SceneOutgoing, Failure> {
    match verb {
        "sends" if words.eat("raw") => Ok(SceneOutgoing::Raw(words.rest().to_owned())),
        "sends" => {
            let text = words.rest().to_owned();
            json(&text).map(|_| SceneOutgoing::Filled(text))
        }
        "says" => {
            let (text, id) = words.rest().rsplit_once(" as ").ok_or("a chat line ends with ` as ID`")?;
            Ok(SceneOutgoing::Chat { text: text.to_owned(), id: id.to_owned() })
        }
        "notifies" => {
            let to = Some(words.word("whom")?).filter(|&to| to != "everyone").map(str::to_owned);
            words.demand("as")?;
            let id = words.word("an id")?.to_owned();
            words.end(SceneOutgoing::Notify { to, id })
        }
        "calls" => {
            let to = words.word("whom")?.to_owned();
            let method = if words.eat("as") {
                "tools/list".to_owned()
            } else {
                let method = words.word("a method")?.to_owned();
                words.demand("as")?;
                method
            };
            let id = words.word("an id")?.to_owned();
            Ok(SceneOutgoing::Call { to, method, id, params: words.optional_json()? })
        }
        "answers" => {
            let request = words.word("a request's id")?.to_owned();
            let id = words.eat("as").then(|| words.word("an id").map(str::to_owned)).transpose()?;
            let failed = words.eat("error");
            let result = words.optional_json()?;
            Ok(match id {
                Some(id) => SceneOutgoing::Answer { request, id, failed, result },
                None => SceneOutgoing::Reply { request, failed, result },
            })
        }
        "repeats" => {
            let id = words.word("an id")?.to_owned();
            words.end(SceneOutgoing::Repeat { id })
        }
        _ => Err(format!("`{verb}` is nothing a participant does")),
    }
}

fn incoming(mut words: Words<'_>) -> Result<SceneIncoming, Failure> {
    for event in ["join", "leave", "heartbeat"] {
        if words.eat(event) {
            let of = words.word("whose presence")?.to_owned();
            let more = words.optional_json()?.map(|text| json(&text)).transpose()?;
            return Ok(SceneIncoming::Presence { event, of, more });
        }
    }
    match words.rest() {
        "" => Err("what somebody gets is missing".into()),
        "nothing more" => Ok(SceneIncoming::NothingMore),
        text if text.starts_with('{') => Ok(SceneIncoming::Json(json(text)?)),
        text if text.starts_with("raw ") => Ok(SceneIncoming::Raw(text[4..].to_owned())),
        text => Ok(SceneIncoming::Sent(text.replace(',', " ").split_whitespace().map(str::to_owned).collect())),
    }
}

/// What stands before and after the arrow.
fn arrow(text: &str) -> Result<(&str, Expected), Failure> {
    let (question, answer) = text.rsplit_once('→').ok_or("the answer comes after `→`")?;
    let mut words = Words(answer.trim());
    let status = words.word("a status")?.to_owned();
    Ok((question.trim(), expected(status, words)?))
}

fn expected(status: String, mut words: Words<'_>) -> Result<Expected, Failure> {
    let mut expected = Expected { status, headers: with(&mut words)?, ..Expected::default() };
    if words.eat("listing") {
        let text = words.rest();
        let (terms, more) = text.split_at(text.find('{').unwrap_or(text.len()));
        let terms = terms.replace(',', " ");
        expected.listing = Some(terms.split_whitespace().filter(|&term| term != "none").map(str::to_owned).collect());
        words = Words(more);
    }
    expected.json = words.optional_json()?.map(|text| json(&text)).transpose()?;
    Ok(expected)
}

fn with(words: &mut Words<'_>) -> Result<With, Failure> {
    let mut with = With::new();
    if !words.eat("with") {
        return Ok(with);
    }
    while let Some((key, _)) = words.peek().and_then(|word| word.split_once('=')) {
        let value = &words.rest()[key.len() + 1..];
        // In single quotes a value may have double quotes, as entity tags have.
        let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
        let value = match quote {
            Some(quote) => {
                let (value, rest) = value[1..].split_once(quote).ok_or("a quoted value has no end")?;
                words.0 = rest;
                value
            }
            None => {
                let (value, rest) = value.split_at(value.find(char::is_whitespace).unwrap_or(value.len()));
                words.0 = rest;
                value
            }
        };
        with.push((key.to_owned(), value.to_owned()));
    }
    if with.is_empty() { Err("`with` is followed by KEY=VALUE".into()) } else { Ok(with) }
}

fn json(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|e| format!("not JSON ({e}): {text}"))
}

/// What is left of a line.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.0.split_whitespace().next()
    }

    fn word(&mut self, what: &str) -> Result<&'a str, Failure> {
        let text = self.0.trim_start();
        let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        self.0 = rest;
        if word.is_empty() { Err(format!("{what} is missing")) } else { Ok(word) }
    }

    fn eat(&mut self, word: &str) -> bool {
        let eaten = self.peek() == Some(word);
        if eaten {
            self.0 = self.0.trim_start()[word.len()..].trim_start();
        }
        eaten
    }

    fn demand(&mut self, word: &str) -> Result<(), Failure> {
        if self.eat(word) { Ok(()) } else { Err(format!("expected `{word}` before `{}`", self.rest())) }
    }

    fn rest(&self) -> &'a str {
        self.0.trim_start()
    }

    fn optional_json(&mut self) -> Result<Option<String>, Failure> {
        match self.rest() {
            "" => Ok(None),
            text => json(text).map(|_| Some(text.to_owned())),
        }
    }

    fn end<T>(self, value: T) -> Result<T, Failure> {
        match self.rest() {
            "" => Ok(value),
            rest => Err(format!("`{rest}` was not understood")),
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// The step of a line, or the error about it.
    fn read(line: &str) -> String {
        match scene(line) {
            Ok(scene) => format!("{:?}", scene.steps[0].step),
            Err(told) => told.lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn coming_and_going() {
        assert_snapshot!(read("alice joins room:alpha by mcpx"), @r#"Join { who: ConnectionName("alice"), topic: "room:alpha", way: Mcpx, with: [] }"#);
        assert_snapshot!(read("alice finally joins room:alpha by mcpx"), @r#"FinallyJoin(Join { who: ConnectionName("alice"), topic: "room:alpha", way: Mcpx, with: [] })"#);
        assert_snapshot!(read(r#"bob/tab joins r by mcpx with after=e1 Origin="a b" echo=false"#), @r#"Join { who: ConnectionName("bob/tab"), topic: "r", way: Mcpx, with: [("after", "e1"), ("Origin", "a b"), ("echo", "false")] }"#);
        assert_snapshot!(read("dave cannot join room:alpha with auth=none: 401 unauthorized"), @r#"CannotJoin { who: ConnectionName("dave"), topic: "room:alpha", with: [("auth", "none")], refused: ExpectedRefusal { status: "401", code: "unauthorized" } }"#);
        assert_snapshot!(read(r#"$X is {"n": 1.10}"#), @r#"Name { name: "X", value: "{\"n\": 1.10}" }"#);
        assert_snapshot!(read("$X is"), @"1: the value is missing");
        assert_snapshot!(read("alice's connection breaks"), @r#"Break { who: ConnectionName("alice") }"#);
        assert_snapshot!(read("alice and bob are closed 1001"), @r#"Closed { who: [ConnectionName("alice"), ConnectionName("bob")], code: 1001 }"#);
        assert_snapshot!(read("the gateway restarts"), @"Restart");
    }

    #[test]
    fn by_the_mcp_door() {
        assert_snapshot!(read("carol joins r by mcp"), @r#"Join { who: ConnectionName("carol"), topic: "r", way: Mcp { at: None, over: WebSocket }, with: [] }"#);
        assert_snapshot!(read("carol connects to r by mcp at bob over http with version=2025-06-18"), @r#"Connect { who: ConnectionName("carol"), topic: "r", way: Mcp { at: Some("bob"), over: Http }, with: [("version", "2025-06-18")] }"#);
        assert_snapshot!(read("bob meets carol as i1 {\"tools\":{}}"), @r#"Meet { who: ConnectionName("bob"), whom: "carol", id: "i1", capabilities: "{\"tools\":{}}" }"#);
        assert_snapshot!(read("carol answers $Q {\"roots\":[]}"), @r#"Send { who: ConnectionName("carol"), what: Reply { request: "$Q", result: Some("{\"roots\":[]}"), failed: false } }"#);
        assert_snapshot!(read("bob is asked tools/call by carol as $C {\"name\":\"x\"}"), @r#"Wait { who: [ConnectionName("bob")], what: Json(Object {"from": String("carol"), "id": String("$C"), "payload": Object {"method": String("tools/call"), "params": Object {"name": String("x")}}, "to": Array [String("bob")]}) }"#);
        assert_snapshot!(read("carol joins r by mcp over pigeon"), @"1: `pigeon` is neither `http` nor `sse`");
    }

    #[test]
    fn sending() {
        assert_snapshot!(read("alice says well, hello as e1"), @r#"Send { who: ConnectionName("alice"), what: Chat { text: "well, hello", id: "e1" } }"#);
        assert_snapshot!(read("alice sends raw  {\"a\" :1}"), @r#"Send { who: ConnectionName("alice"), what: Raw("{\"a\" :1}") }"#);
        assert_snapshot!(read("alice calls bob as c1"), @r#"Send { who: ConnectionName("alice"), what: Call { to: "bob", method: "tools/list", id: "c1", params: None } }"#);
        assert_snapshot!(read("alice calls bob ping as c1 {}"), @r#"Send { who: ConnectionName("alice"), what: Call { to: "bob", method: "ping", id: "c1", params: Some("{}") } }"#);
        assert_snapshot!(read("bob answers c1 as r1 {\"ok\":true}"), @r#"Send { who: ConnectionName("bob"), what: Answer { request: "c1", id: "r1", result: Some("{\"ok\":true}"), failed: false } }"#);
        assert_snapshot!(read("alice posts to r {\"id\":\"e1\"} → 2xx"), @r#"Post { who: ConnectionName("alice"), topic: "r", envelope: "{\"id\":\"e1\"}", answer: Expected { status: "2xx", headers: [], listing: None, json: None } }"#);
    }

    #[test]
    fn receiving() {
        assert_snapshot!(read("alice, bob and carol get e1, e2"), @r#"Get { who: [ConnectionName("alice"), ConnectionName("bob"), ConnectionName("carol")], what: Sent(["e1", "e2"]) }"#);
        assert_snapshot!(read("bob gets nothing more"), @r#"Get { who: [ConnectionName("bob")], what: NothingMore }"#);
        assert_snapshot!(read("bob gets join alice"), @r#"Get { who: [ConnectionName("bob")], what: Presence { event: "join", of: "alice", more: None } }"#);
        assert_snapshot!(read("bob is refused from_mismatch regarding e7"), @r#"Get { who: [ConnectionName("bob")], what: Refusal { code: "from_mismatch", regarding: Some("e7") } }"#);
    }

    #[test]
    fn asking() {
        assert_snapshot!(read("nobody asks GET /health → 200 {\"status\":\"(any)\"}"), @r#"Ask { who: None, method: "GET", path: "/health", with: [], body: "", answer: Expected { status: "200", headers: [], listing: None, json: Some(Object {"status": String("(any)")}) } }"#);
        assert_snapshot!(read("carol asks GET /h with Origin=x → 200 listing e2, join:bob {\"next\":\"$N\"}"), @r#"Ask { who: Some(ConnectionName("carol")), method: "GET", path: "/h", with: [("Origin", "x")], body: "", answer: Expected { status: "200", headers: [], listing: Some(["e2", "join:bob"]), json: Some(Object {"next": String("$N")}) } }"#);
        assert_snapshot!(read("carol asks POST /t {\"a\":1} → 400"), @r#"Ask { who: Some(ConnectionName("carol")), method: "POST", path: "/t", with: [], body: "{\"a\":1}", answer: Expected { status: "400", headers: [], listing: None, json: None } }"#);
    }

    #[test]
    fn an_answer_may_have_headers() {
        assert_snapshot!(read("nobody asks GET /x → 200 with Vary=Origin"), @r#"Ask { who: None, method: "GET", path: "/x", with: [], body: "", answer: Expected { status: "200", headers: [("Vary", "Origin")], listing: None, json: None } }"#);
    }

    #[test]
    fn settings_come_first_and_lines_go_on() {
        let read = scene("# x\ngateway with dev, limits.rate 5\n\nalice gets\n  e1\n").expect("a scene");
        assert_eq!(read.settings, [("dev".into(), "true".into()), ("limits.rate".into(), "5".into())]);
        assert_eq!((read.steps[0].number, read.steps[0].text.as_str()), (4, "alice gets e1"));
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        assert_snapshot!(read("\n\nalice dances"), @"3: `dances` is nothing a participant does");
        assert_snapshot!(read("alice joins"), @"1: a topic is missing");
        assert_snapshot!(read("alice joins r by carrier pigeon"), @"1: expected `mcpx` or `mcp` before `carrier pigeon`");
        assert_snapshot!(read("alice joins r by mcpx twice"), @"1: `twice` was not understood");
        assert_snapshot!(read("alice sends {"), @"1: not JSON (EOF while parsing an object at line 1 column 1): {");
        assert_snapshot!(read("alice asks GET /x"), @"1: the answer comes after `→`");
        assert_snapshot!(read("alice leaves\ngateway with dev"), @"2: settings come before the first step");
        assert_snapshot!(read("# nothing"), @"1: nothing happens in this scene");
    }
}

//! Frames that must be refused: each with its code, to its sender alone, on a connection that stays usable.

use libtest_mimic::Trial;
use salon_testkit::{Failure, TestEngine};
use serde_json::Value;

use crate::room::{Room, TO_ALICE, TO_MALLORY, envelope, next};
use crate::tables::{Case, Logs, check_all, trial};

/// The default message limit, in bytes.
const LIMIT: usize = 1 << 20;

enum Frame {
    Text(String),
    Binary(Vec<u8>),
}

/// Whether the refusal must name the frame's id, must name none, or may do either.
#[derive(Clone, Copy)]
enum Regarding {
    Id,
    Nothing,
    Either,
}

struct Bad {
    name: String,
    frame: Frame,
    codes: &'static [&'static str],
    regarding: Regarding,
}

/// The id of every frame that has one.
const ID: &str = "bad";

impl Case for Bad {
    fn name(&self) -> String {
        self.name.clone()
    }
}

/// An envelope that must be accepted.
struct Good {
    name: &'static str,
    text: String,
}

impl Case for Good {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    // What is refused because of what the room holds is refused by what its log has; the rest is refused by its text alone.
    let tables: [(&str, Logs, Vec<Bad>); 8] = [
        ("not_json", Logs::SqliteOnly, not_json()),
        ("not_envelopes", Logs::SqliteOnly, not_envelopes()),
        ("wrong_fields", Logs::SqliteOnly, wrong_fields()),
        ("wrong_payloads", Logs::SqliteOnly, wrong_payloads()),
        ("beyond_limits", Logs::SqliteOnly, beyond_limits()),
        ("forged", Logs::Every, forged()),
        ("spoofed", Logs::Every, spoofed()),
        ("chat", Logs::SqliteOnly, chat()),
    ];
    let tables = tables.into_iter().filter(|(_, logs, _)| logs.include(engine));
    let refused = tables.map(|(name, _, table)| {
        trial(engine, &format!("bad::{name}"), move || async move {
            check_all(table, async || Room::open(engine).await, refuse).await?.close().await
        })
    });
    let accepted = trial(engine, "good::within_limits", move || async move {
        check_all(within_limits(), async || Room::open(engine).await, accept).await?.close().await
    });
    refused.chain([accepted]).collect()
}

async fn refuse(room: &mut Room, bad: Bad) -> Result<(), Failure> {
    match bad.frame {
        Frame::Text(text) => room.mallory.text(text).await?,
        Frame::Binary(bytes) => room.mallory.binary(bytes).await?,
    }
    let came = next(&mut room.mallory).await?;
    let refusal: Value = serde_json::from_str(&came).map_err(|e| format!("{e}: {came}"))?;
    let payload = &refusal["payload"];
    let code = payload["code"].as_str().unwrap_or_default();
    let sentence = payload["message"].as_str().is_some_and(|message| !message.is_empty());
    let regards = match bad.regarding {
        Regarding::Id => refusal["correlation_id"] == ID,
        Regarding::Nothing => refusal.get("correlation_id").is_none(),
        Regarding::Either => true,
    };
    let fits = refusal["kind"] == "system"
        && refusal["from"] == "system:gateway"
        && payload["event"] == "error"
        && payload["type"] == "error"
        && sentence;
    if !fits || !bad.codes.contains(&code) || !regards {
        return Err(format!("expected to be refused with {}, came {came}", bad.codes.join(" or ")));
    }
    room.goes_on().await
}

async fn accept(room: &mut Room, good: Good) -> Result<(), Failure> {
    room.mallory.text(&good.text).await?;
    for socket in [&mut room.mallory, &mut room.alice, &mut room.bob] {
        let came = next(socket).await?;
        if came != good.text {
            let start: String = came.chars().take(300).collect();
            return Err(format!("expected it as it was sent, came {start}"));
        }
    }
    room.goes_on().await
}

/// A whole envelope whose fields can be taken out or replaced by any text.
struct Fields(Vec<(String, String)>);

fn fields() -> Fields {
    let field = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Fields(vec![
        field("protocol", r#""mcp-x/v0""#),
        field("id", r#""bad""#),
        field("ts", r#""2025-08-17T14:00:00Z""#),
        field("from", r#""mallory""#),
        field("to", "[]"),
        field("kind", r#""mcp""#),
        field("payload", r#"{"jsonrpc":"2.0","method":"notifications/note"}"#),
    ])
}

impl Fields {
    fn with(mut self, key: &str, value: &str) -> Self {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_owned(),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.0.retain(|(known, _)| known != key);
        self
    }

    fn text(&self) -> String {
        let fields: Vec<String> = self.0.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

fn bad(name: impl Into<String>, text: impl Into<String>, code: &'static [&'static str], regarding: Regarding) -> Bad {
    Bad { name: name.into(), frame: Frame::Text(text.into()), codes: code, regarding }
}

/// One text for each way in which the scan can fail; all of them are in the tests of `protocol::scan`.
fn not_json() -> Vec<Bad> {
    let good = fields().text();
    let texts = [
        ("an empty frame", String::new()),
        ("a word", "hello".into()),
        ("cut in half", good[..good.len() / 2].into()),
        ("two at once", format!("{good}{good}")),
        ("a lone surrogate in the id", fields().with("id", r#""\ud800""#).text()),
        ("id twice", good.replacen('{', r#"{"id":"bad","#, 1)),
        ("a key twice, once escaped", good.replacen('{', r#"{"\u0069d":"other","#, 1)),
    ];
    // Whether an id can be read from invalid JSON is chance.
    texts.into_iter().map(|(name, text)| bad(name, text, &["invalid_json"], Regarding::Either)).collect()
}

fn not_envelopes() -> Vec<Bad> {
    let good = fields().text();
    let mut table: Vec<Bad> = vec![
        ("null", "null".to_owned()),
        ("true", "true".to_owned()),
        ("a number", "42".to_owned()),
        ("a string", "\"hello\"".to_owned()),
        ("an array", "[]".to_owned()),
        ("an envelope in an array", format!("[{good}]")),
        ("an empty object", "{}".to_owned()),
        ("a bare JSON-RPC message", r#"{"jsonrpc":"2.0","method":"notifications/note"}"#.to_owned()),
    ]
    .into_iter()
    .map(|(name, text)| bad(name, text, &["invalid_envelope"], Regarding::Nothing))
    .collect();
    for (name, bytes) in [
        ("an empty binary frame", Vec::new()),
        ("an envelope in a binary frame", good.into_bytes()),
        ("noise in a binary frame", (0..=255).collect()),
    ] {
        let frame = Frame::Binary(bytes);
        table.push(Bad { name: name.into(), frame, codes: &["invalid_envelope"], regarding: Regarding::Either });
    }
    table
}

fn wrong_fields() -> Vec<Bad> {
    let mut table: Vec<Bad> = ["protocol", "ts", "from", "kind", "payload"]
        .map(|key| bad(format!("no {key}"), fields().without(key).text(), &["invalid_envelope"], Regarding::Id))
        .into();
    table.push(bad("no id", fields().without("id").text(), &["invalid_envelope"], Regarding::Nothing));
    for (key, value) in [
        ("protocol", "0"),
        ("protocol", "null"),
        ("ts", "1723903200"),
        ("ts", "\"\""),
        ("ts", "\"yesterday\""),
        ("ts", "\"2025-08-17\""),
        ("ts", "\"2025-08-17T14:00:00\""),
        ("ts", "\"2025-02-30T14:00:00Z\""),
        ("ts", "\"2025-08-17T25:00:00Z\""),
        ("from", "7"),
        ("from", "null"),
        ("from", "\"\""),
        ("from", "[\"mallory\"]"),
        ("from", "\"mallory \""),
        // A Cyrillic а, a full-width m, a soft hyphen, a direction mark, a NUL: all of them look like somebody.
        ("from", "\"m\u{430}llory\""),
        ("from", "\"\u{ff4d}allory\""),
        ("from", "\"mal\u{ad}lory\""),
        ("from", "\"mallory\u{200f}\""),
        ("from", "\"mallory\\u0000\""),
        ("to", "\"bob\""),
        ("to", "null"),
        ("to", "{}"),
        ("to", "[1]"),
        ("to", "[null]"),
        ("to", "[[\"bob\"]]"),
        ("to", "[\"\"]"),
        ("to", "[\"b/o/b\"]"),
        ("to", "[\"b\u{43e}b\"]"),
        ("to", "[\"bob\\n\"]"),
        ("kind", "1"),
        ("kind", "null"),
        ("kind", "\"\""),
        ("kind", "\"MCP\""),
        ("kind", "\"chat\""),
        ("correlation_id", "1"),
        ("correlation_id", "null"),
        ("correlation_id", "\"\""),
        ("correlation_id", "\"a\\u0007\""),
        ("payload", "null"),
        ("payload", "\"{}\""),
        ("payload", "[]"),
        ("payload", "{}"),
    ] {
        let text = fields().with(key, value).text();
        table.push(bad(format!("{key} {}", value.escape_default()), text, &["invalid_envelope"], Regarding::Id));
    }
    let long = format!("\"{}\"", "x".repeat(129));
    for value in ["1", "null", "{}", "\"\"", "\"a\\nb\"", "\"a\\u007fb\"", "\"a\\u0085b\"", "\"a\\u0000\"", &long] {
        let text = fields().with("id", value).text();
        table.push(bad(format!("id {value}"), text, &["invalid_envelope"], Regarding::Nothing));
    }
    for value in ["\"\"", "\"mcp-x/v1\"", "\"MCP-X/V0\"", "\"mcp-x/v0 \"", "\"mcp-\u{445}/v0\""] {
        let (name, text) = (format!("protocol {}", value.escape_default()), fields().with("protocol", value).text());
        table.push(bad(name, text, &["unsupported_protocol"], Regarding::Id));
    }
    table
}

fn wrong_payloads() -> Vec<Bad> {
    [
        r#"{"method":"notifications/x"}"#,
        r#"{"jsonrpc":"1.0","method":"notifications/x"}"#,
        r#"{"jsonrpc":2.0,"method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","method":5}"#,
        r#"{"jsonrpc":"2.0","method":""}"#,
        r#"{"jsonrpc":"2.0","method":null}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":"text"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":7}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","result":{}}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#,
    ]
    .map(|payload| {
        let text = fields().with("payload", payload).text();
        bad(format!("payload {payload}"), text, &["invalid_envelope"], Regarding::Id)
    })
    .into()
}

/// An envelope nested to `levels`, itself and its payload included.
fn nested(levels: usize, open: &str, close: &str) -> String {
    let inner = levels - 2;
    let params = format!("{}1{}", open.repeat(inner), close.repeat(inner));
    fields().with("payload", &format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{params}}}"#)).text()
}

/// An envelope of exactly so many bytes.
fn sized(id: &str, bytes: usize) -> String {
    let padded = |pad: usize| {
        let pad = "x".repeat(pad);
        envelope("mallory", id, "", &format!(r#""method":"notifications/x","params":{{"pad":"{pad}"}}"#))
    };
    padded(bytes - padded(0).len())
}

fn beyond_limits() -> Vec<Bad> {
    let deep = &["too_deep"];
    let mut table: Vec<Bad> = [65, 10_000, 200_000]
        .map(|levels| bad(format!("{levels} levels of arrays"), nested(levels, "[", "]"), deep, Regarding::Id))
        .into();
    for levels in [65, 10_000] {
        let text = nested(levels, r#"{"a":"#, "}");
        table.push(bad(format!("{levels} levels of objects"), text, deep, Regarding::Id));
    }
    // Nobody has to have closed them: what is too deep is refused before its end is looked for.
    table.push(bad("a hundred thousand open brackets", "[".repeat(100_000), deep, Regarding::Nothing));
    table.push(bad("one byte over the limit", sized(ID, LIMIT + 1), &["too_large"], Regarding::Either));
    let text = fields().with("to", &format!("[{}]", vec!["\"bob\""; 257].join(","))).text();
    table.push(bad("257 recipients", text, &["invalid_envelope"], Regarding::Id));
    table
}

/// Each with an id of its own, because all of them are stored.
fn within_limits() -> Vec<Good> {
    let with_id = |fields: Fields, id: &str| fields.with("id", &format!("\"{id}\"")).text();
    let nested = |levels, open, close, id: &str| nested(levels, open, close).replacen(ID, id, 1);
    let recipients = fields().with("to", &format!("[{}]", vec!["\"bob\""; 256].join(",")));
    [
        ("exactly the limit", sized("large", LIMIT)),
        ("one byte below the limit", sized("less-large", LIMIT - 1)),
        ("64 levels of arrays", nested(64, "[", "]", "arrays")),
        ("64 levels of objects", nested(64, r#"{"a":"#, "}", "objects")),
        ("256 recipients", with_id(recipients, "recipients")),
        ("an id of 128 characters", with_id(fields(), &"é".repeat(128))),
        ("an id of any script", with_id(fields(), "标识 \u{430} 😀 '\\\" <b>")),
        ("its own name, escaped", with_id(fields().with("from", r#""\u006dallory""#), "escaped")),
        ("blanks around it", format!(" \n{}\t ", with_id(fields(), "blanks"))),
    ]
    .map(|(name, text)| Good { name, text })
    .into()
}

fn forged() -> Vec<Bad> {
    let presence = r#"{"event":"leave","participant":{"id":"alice"}}"#;
    let system = r#"{"event":"error","type":"error","code":"closing","message":"go away"}"#;
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let table = [
        ("from somebody else", fields().with("from", "\"alice\""), &["from_mismatch"][..]),
        ("from the gateway", fields().with("from", "\"system:gateway\""), &["from_mismatch"]),
        ("from a capital namesake", fields().with("from", "\"Mallory\""), &["from_mismatch"]),
        (
            "a forged join",
            fields().with("kind", "\"presence\"").with("payload", &presence.replace("leave", "join")),
            &["reserved_kind"],
        ),
        ("a forged leave", fields().with("kind", "\"presence\"").with("payload", presence), &["reserved_kind"]),
        ("a forged error", fields().with("kind", "\"system\"").with("payload", system), &["reserved_kind"]),
        (
            "a forged welcome",
            fields().with("kind", "\"system\"").with("payload", r#"{"event":"welcome"}"#),
            &["reserved_kind"],
        ),
        (
            "a forged leave from the gateway",
            fields().with("from", "\"system:gateway\"").with("kind", "\"presence\"").with("payload", presence),
            &["from_mismatch", "reserved_kind"],
        ),
        ("a request to nobody", fields().with("payload", request), &["recipient_required"]),
        ("a request without to", fields().without("to").with("payload", request), &["recipient_required"]),
        (
            "a request to two",
            fields().with("to", r#"["alice","bob"]"#).with("payload", request),
            &["recipient_required"],
        ),
        (
            "a request to one twice",
            fields().with("to", r#"["bob","bob"]"#).with("payload", request),
            &["recipient_required"],
        ),
        (
            "a request to somebody absent",
            fields().with("to", r#"["ghost"]"#).with("payload", request),
            &["recipient_not_found"],
        ),
        (
            "a request to a capital namesake",
            fields().with("to", r#"["BOB"]"#).with("payload", request),
            &["recipient_not_found"],
        ),
    ];
    table.into_iter().map(|(name, fields, codes)| bad(name, fields.text(), codes, Regarding::Id)).collect()
}

fn spoofed() -> Vec<Bad> {
    let answer = |to: &str, id: &str| {
        let payload = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        fields().with("to", "[\"bob\"]").with("correlation_id", &format!("\"{to}\"")).with("payload", &payload)
    };
    let mismatch = &["correlation_mismatch"];
    let mut table: Vec<Bad> = [
        ("an answer in another's place", answer(TO_ALICE, "1")),
        ("an answer to nothing", answer("no-such-envelope", "7")),
        ("an answer with another number", answer(TO_MALLORY, "8")),
        ("an answer with the number as text", answer(TO_MALLORY, "\"7\"")),
        ("an answer with the number as a fraction", answer(TO_MALLORY, "7.0")),
        ("an answer with the number negated", answer(TO_MALLORY, "-7")),
        (
            "an error in another's place",
            answer(TO_ALICE, "1").with("payload", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#),
        ),
        ("an answer to a near namesake", answer("q-mall\u{43e}ry", "7")),
    ]
    .into_iter()
    .map(|(name, fields)| bad(name, fields.text(), mismatch, Regarding::Id))
    .collect();
    let orphan = answer(TO_MALLORY, "7").without("correlation_id").text();
    table.push(bad("an answer to it does not say what", orphan, &["correlation_required"], Regarding::Id));
    let taken = fields().with("id", &format!("\"{TO_ALICE}\"")).text();
    table.push(bad("somebody else's id", taken, &["id_conflict"], Regarding::Either));
    table
}

fn chat() -> Vec<Bad> {
    [
        "{}",
        "[]",
        r#"["hello"]"#,
        r#"{"text":5}"#,
        r#"{"text":null}"#,
        r#"{"text":"x","format":"html"}"#,
        r#"{"text":"x","format":1}"#,
    ]
    .map(|params| {
        let payload = format!(r#"{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{params}}}"#);
        let text = fields().with("payload", &payload).text();
        bad(format!("chat {params}"), text, &["invalid_parameters"], Regarding::Id)
    })
    .into()
}

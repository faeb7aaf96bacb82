//! Frames that must be refused: each with its code, to its sender alone, on a connection that stays usable.

use libtest_mimic::Trial;
use salon_testkit::{Engine, Failure};
use serde_json::Value;

use crate::room::{Room, TO_ALICE, TO_MALLORY, envelope, next};

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

pub(crate) fn trials(engine: Engine) -> Vec<Trial> {
    let table: Vec<Bad> =
        [not_json(), not_envelopes(), wrong_fields(), wrong_payloads(), beyond_limits(), forged(), spoofed(), chat()]
            .into_iter()
            .flatten()
            .collect();
    assert!(table.len() >= 80, "the table has only {} frames", table.len());
    let refused = table.into_iter().map(|bad| {
        let name = format!("{}::bad::{}", engine.name(), bad.name);
        Trial::test(name, move || Ok(salon_testkit::run(refuse(engine, bad))?))
    });
    let accepted = within_limits().into_iter().map(|(name, text)| {
        let name = format!("{}::good::{name}", engine.name());
        Trial::test(name, move || Ok(salon_testkit::run(accept(engine, text))?))
    });
    refused.chain(accepted).collect()
}

async fn refuse(engine: Engine, bad: Bad) -> Result<(), Failure> {
    let mut room = Room::open(engine).await?;
    match bad.frame {
        Frame::Text(text) => room.mallory.text(text).await?,
        Frame::Binary(bytes) => room.mallory.binary(bytes).await?,
    }
    let came = next(&mut room.mallory).await?;
    let refusal: Value = serde_json::from_str(&came).map_err(|e| format!("{e}: {came}"))?;
    let payload = &refusal["payload"];
    let told = payload["code"].as_str().unwrap_or_default();
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
    if !fits || !bad.codes.contains(&told) || !regards {
        return Err(format!("expected to be refused with {}, came {came}", bad.codes.join(" or ")));
    }
    room.goes_on().await
}

async fn accept(engine: Engine, text: String) -> Result<(), Failure> {
    let mut room = Room::open(engine).await?;
    room.mallory.text(&text).await?;
    for socket in [&mut room.mallory, &mut room.alice, &mut room.bob] {
        let came = next(socket).await?;
        if came != text {
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

fn not_json() -> Vec<Bad> {
    let good = fields().text();
    let params = |value: &str| {
        fields()
            .with("payload", &format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":[{value}]}}"#))
            .text()
    };
    let texts = vec![
        ("an empty frame", String::new()),
        ("only blanks", " \t\r\n ".into()),
        ("a lone brace", "{".into()),
        ("a word", "hello".into()),
        ("undefined", "undefined".into()),
        ("cut in half", good[..good.len() / 2].into()),
        ("without its last brace", good[..good.len() - 1].into()),
        ("a trailing comma", good.replace("}}", "},}")),
        ("a comma too many in an array", params("1,,2")),
        ("something behind it", format!("{good}x")),
        ("two at once", format!("{good}{good}")),
        ("single quotes", good.replace('"', "'")),
        ("an unquoted key", good.replace("\"kind\"", "kind")),
        ("a comment", good.replacen('{', "{/* hello */", 1)),
        ("a byte order mark", format!("\u{feff}{good}")),
        ("a no-break space", good.replacen('{', "{\u{a0}", 1)),
        ("a NUL", format!("\0{good}")),
        ("NaN", params("NaN")),
        ("Infinity", params("-Infinity")),
        ("a leading zero", params("01")),
        ("a leading plus", params("+1")),
        ("a bare point", params(".5")),
        ("a point at the end", params("1.")),
        ("an empty exponent", params("1e")),
        ("hexadecimal", params("0x10")),
        ("a capital True", params("True")),
        ("a newline in a string", params("\"a\nb\"")),
        ("a control character in a string", params("\"\u{1}\"")),
        ("an unknown escape", params(r#""\x41""#)),
        ("a short escape", params(r#""\u12""#)),
        ("a lone high surrogate", params(r#""\ud800""#)),
        ("a lone low surrogate", params(r#""\udc00""#)),
        ("a high surrogate before a letter", params(r#""\ud800\u0041""#)),
        ("two high surrogates", params(r#""\ud83d\ud83d""#)),
        ("a lone surrogate in the id", fields().with("id", r#""\ud800""#).text()),
        ("a lone surrogate in a key", params(r#"{"\udfff":1}"#)),
        ("id twice", good.replacen('{', r#"{"id":"bad","#, 1)),
        ("from twice", good.replacen('{', r#"{"from":"alice","#, 1)),
        ("payload twice", good.replacen('{', r#"{"payload":{},"#, 1)),
        ("a key twice, once escaped", good.replacen('{', r#"{"\u0069d":"other","#, 1)),
        ("a key twice in the payload", good.replace(r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0","method":"x""#)),
        ("a key twice far inside", params(r#"{"a":{"b":[{"c":1,"d":2,"c":3}]}}"#)),
    ];
    // Whether an id can be read from what is no JSON is chance.
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
        ("to", "[\"b o b\"]"),
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
fn sized(bytes: usize) -> String {
    let padded = |pad: usize| {
        let pad = "x".repeat(pad);
        envelope("mallory", "large", "", &format!(r#""method":"notifications/x","params":{{"pad":"{pad}"}}"#))
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
    table.push(bad("one byte over the limit", sized(LIMIT + 1), &["too_large"], Regarding::Either));
    let text = fields().with("to", &format!("[{}]", vec!["\"bob\""; 257].join(","))).text();
    table.push(bad("257 recipients", text, &["invalid_envelope"], Regarding::Id));
    table
}

fn within_limits() -> Vec<(String, String)> {
    let recipients = |count: usize| fields().with("to", &format!("[{}]", vec!["\"bob\""; count].join(","))).text();
    let id = |id: &str| fields().with("id", &format!("\"{id}\"")).text();
    vec![
        ("exactly the limit".into(), sized(LIMIT)),
        ("one byte below the limit".into(), sized(LIMIT - 1)),
        ("64 levels of arrays".into(), nested(64, "[", "]")),
        ("64 levels of objects".into(), nested(64, r#"{"a":"#, "}")),
        ("256 recipients".into(), recipients(256)),
        ("an id of 128 characters".into(), id(&"é".repeat(128))),
        ("an id of any script".into(), id("标识 \u{430} 😀 '\\\" <b>")),
        ("its own name, escaped".into(), fields().with("from", r#""\u006dallory""#).text()),
        ("blanks around it".into(), format!(" \n{}\t ", fields().text())),
    ]
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

//! How much a context holds, and how that comes in pages.

use libtest_mimic::Trial;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket};
use serde_json::{Value, json};

use crate::room::{envelope, join, next};
use crate::tables::{self, Logs};

const MAX_VALUE_BYTES: usize = 64 * 1024;

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "context",
        &[
            ("a value is as long as it may be and no longer", Logs::Every, |engine| Box::pin(longest_value(engine))),
            ("history comes in pages that lead to its end", Logs::Every, |engine| Box::pin(long_history(engine))),
            ("keys and resources come in pages that lead to their end", Logs::Every, |engine| {
                Box::pin(many_keys(engine))
            }),
        ],
    )
}

/// Somebody who asks the gateway, and waits for each answer.
struct Asker {
    socket: TestSocket,
    asked: usize,
}

impl Asker {
    async fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        self.asked += 1;
        let (id, asked) = (format!("q{}", self.asked), self.asked);
        let payload = format!(r#""id":{asked},"method":"{method}","params":{params}"#);
        self.socket.text(envelope("alice", &id, r#""to":["system:gateway"],"#, &payload)).await?;
        loop {
            let heard: Value = serde_json::from_str(&next(&mut self.socket).await?).map_err(|e| e.to_string())?;
            if heard["correlation_id"] == *id {
                return Ok(heard["payload"].clone());
            }
        }
    }

    /// Calls a tool; what it has to say, or its JSON-RPC error.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments })).await?;
        Ok(if answer["error"].is_null() {
            answer["result"]["structuredContent"].clone()
        } else {
            answer["error"].clone()
        })
    }
}

async fn open(engine: TestEngine) -> Result<(TestGateway, Asker), Failure> {
    let gateway =
        TestGateway::start(TestOptions::new(engine).set("limits.rate", "0")?.set("sqlite.durability", "os")?).await?;
    let socket = join(&gateway, "alice").await?;
    Ok((gateway, Asker { socket, asked: 0 }))
}

fn same(what: &str, found: &Value, expected: &Value) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}")) }
}

async fn longest_value(engine: TestEngine) -> Result<(), Failure> {
    let (gateway, mut alice) = open(engine).await?;
    // With its quotes it is as long as it may be; every character of it is written as two when it is said in a text.
    let longest = "\\".repeat((MAX_VALUE_BYTES - 2) / 2);
    let written = alice.call("context.put", json!({ "key": "long", "value": longest })).await?;
    same("the longest", &written["version"], &json!(1))?;
    let read = alice.call("context.get", json!({ "key": "long" })).await?;
    same("what was read", &json!(read["value"].as_str().map(str::len)), &json!(longest.len()))?;
    let contents = alice.ask("resources/read", &json!({ "uri": "context://topic/long" })).await?;
    let text = contents["result"]["contents"][0]["text"].as_str().unwrap_or_default();
    same("the resource", &json!(text.len()), &json!(MAX_VALUE_BYTES))?;

    let longer = "x".repeat(MAX_VALUE_BYTES - 1);
    let refused = alice.call("context.put", json!({ "key": "long", "value": longer })).await?;
    same("one byte more", &refused["code"], &json!("too_large"))?;
    let message = "the value has 65537 bytes, and the limit is 65536";
    same("one byte more", &refused["message"], &json!(message))?;
    let read = alice.call("context.get", json!({ "key": "long" })).await?;
    same("after that", &read["version"], &json!(1))?;

    let written = alice.call("context.put", json!({ "key": "é".repeat(256), "value": 1 })).await?;
    same("the longest key", &written["version"], &json!(1))?;
    let refused = alice.call("context.put", json!({ "key": "é".repeat(257), "value": 1 })).await?;
    let message = "the argument `key` of `context.put`: it has more than 256 characters";
    same("a longer key", &refused["message"], &json!(message))?;
    drop(alice);
    gateway.stop().await
}

async fn long_history(engine: TestEngine) -> Result<(), Failure> {
    let (gateway, mut alice) = open(engine).await?;
    let value = "x".repeat(MAX_VALUE_BYTES - 2);
    for _ in 0..12 {
        alice.call("context.put", json!({ "key": "long", "value": value })).await?;
    }
    let (mut seen, mut before, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = alice.call("context.history", json!({ "key": "long", "limit": 100, "before": before })).await?;
        let versions = page["versions"].as_array().ok_or_else(|| format!("no page: {page}"))?;
        seen.extend(versions.iter().map(|version| version["version"].clone()));
        (before, pages) = (page["next"].clone(), pages + 1);
        if before.is_null() {
            break;
        }
    }
    let expected: Vec<_> = (1..=12).rev().collect();
    same("the versions", &json!(seen), &json!(expected))?;
    if pages < 2 {
        return Err("twelve long values came in one page".into());
    }
    drop(alice);
    gateway.stop().await
}

async fn many_keys(engine: TestEngine) -> Result<(), Failure> {
    let (gateway, mut alice) = open(engine).await?;
    let mut uris = Vec::new();
    for (scope, encoded) in
        [("topic", "topic"), ("participant", "participant"), ("tool:a", "tool%3Aa"), ("tool:b", "tool%3Ab")]
    {
        for n in 0..70 {
            let key = format!("{n:03}");
            alice.call("context.put", json!({ "scope": scope, "key": key, "value": n })).await?;
            uris.push(format!("context://{encoded}/{key}"));
        }
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let page = alice.ask("resources/list", &params).await?;
        let resources = page["result"]["resources"].as_array().ok_or_else(|| format!("no page: {page}"))?;
        seen.extend(resources.iter().map(|resource| resource["uri"].clone()));
        (cursor, pages) = (page["result"]["nextCursor"].as_str().map(ToOwned::to_owned), pages + 1);
        if cursor.is_none() {
            break;
        }
    }
    same("the resources", &json!(seen), &json!(uris))?;
    same("their pages", &json!(pages), &json!(2))?;

    let (mut seen, mut after) = (0, Value::Null);
    loop {
        let page = alice.call("context.list", json!({ "limit": 30, "after": after })).await?;
        seen += page["keys"].as_array().map_or(0, Vec::len);
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    same("the keys", &json!(seen), &json!(70))?;
    drop(alice);
    gateway.stop().await
}

//! What a server of the legacy era says, as a client of the modern era understands it.

use salon_protocol::{Members, RpcError};
use serde_json::value::RawValue;

use crate::{code, meta};

/// Results that say how long they may be kept.
// MCP 2026-07-28, Caching, "Cacheable Results".
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

/// A result with what every modern result has. What it says already stays.
// MCP 2026-07-28, Overview, "ResultType" and "_meta".
pub fn result(method: &str, result: &RawValue, info: Option<&RawValue>) -> Box<RawValue> {
    let Some(mut members) = Members::parse(result.get()) else { return result.to_owned() };
    let mut add = |key: &str, value: &serde_json::Value| {
        if members.get(key).is_none() {
            members.set(key, value);
        }
    };
    add("resultType", &"complete".into());
    if CACHEABLE.contains(&method) {
        add("ttlMs", &0.into());
        add("cacheScope", &"private".into());
    }
    let stamped = members.to_raw();
    info.and_then(|info| meta::with_server_info(&stamped, info)).unwrap_or(stamped)
}

/// An error whose code the modern era has another for; `None` when it can stay.
pub fn error(error: &RawValue) -> Option<Box<RawValue>> {
    let mut members = Members::parse(error.get())?;
    if members.get("code")?.get() != code::RESOURCE_NOT_FOUND.to_string() {
        return None;
    }
    members.set("code", &RpcError::INVALID_PARAMS);
    Some(members.to_raw())
}

/// The questions in an error that says that pages must be opened first, as a modern client is asked them.
pub fn url_elicitation(error: &RawValue) -> Option<Vec<Box<RawValue>>> {
    let error = Members::parse(error.get())?;
    if error.get("code")?.get() != code::URL_ELICITATION_REQUIRED.to_string() {
        return None;
    }
    let data = Members::parse(error.get("data")?.get())?;
    let elicitations: Vec<Members> = serde_json::from_str(data.get("elicitations")?.get()).ok()?;
    let asked = elicitations.into_iter().map(|mut elicitation| {
        // MCP 2026-07-28, changelog: `elicitationId` is gone, the retry itself tells that the page was opened.
        elicitation.remove("elicitationId");
        elicitation.to_raw()
    });
    Some(asked.collect()).filter(|asked: &Vec<_>| !asked.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn a_result_is_given_what_the_modern_era_has() {
        let info = raw(r#"{"name":"s"}"#);
        let said = |method: &str, text: &str| result(method, &raw(text), Some(&info)).get().to_owned();
        assert_snapshot!(said("tools/call", r#"{"content":[ ],"n":12345678901234567890}"#), @r#"{"content":[ ],"n":12345678901234567890,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#);
        assert_snapshot!(said("resources/read", r#"{"contents":[],"ttlMs":5,"_meta":{"k":1}}"#), @r#"{"contents":[],"ttlMs":5,"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"s"}},"resultType":"complete","cacheScope":"private"}"#);
        assert_snapshot!(said("x", "[1]"), @"[1]");
    }

    #[test]
    fn errors_have_the_modern_codes() {
        let said = |text: &str| error(&raw(text)).map_or("as it was".into(), |error| error.get().to_owned());
        assert_snapshot!(said(r#"{"code":-32002,"message":"gone","data":{"uri":"a"}}"#), @r#"{"code":-32602,"message":"gone","data":{"uri":"a"}}"#);
        assert_snapshot!(said(r#"{"code":-32603,"message":"x"}"#), @"as it was");
    }

    #[test]
    fn pages_to_be_opened_become_questions() {
        let asked = |text: &str| {
            let asked = url_elicitation(&raw(text));
            asked.map_or("none".into(), |asked| {
                asked.iter().map(|one| one.get().to_owned()).collect::<Vec<_>>().join(" ")
            })
        };
        assert_snapshot!(asked(r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example","message":"open"}]}}"#), @r#"{"mode":"url","url":"https://a.example","message":"open"}"#);
        assert_snapshot!(asked(r#"{"code":-32042,"message":"m"}"#), @"none");
        assert_snapshot!(asked(r#"{"code":-32000,"message":"m"}"#), @"none");
    }
}

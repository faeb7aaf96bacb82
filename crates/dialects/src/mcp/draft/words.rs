//! The words of the dialect and those of MCP, row by row, both ways.
//!
//! Pure. Only what must change is changed: numbers, order and unknown members of the rest stay as they were written.

use salon_mcp::listing::Listing;
use salon_mcp::{Revision, RpcHead, meta};
use salon_protocol::{Members, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Number, json};

use super::{INVALID_PARAMETERS, VERSION};
use crate::tool_result::{only_text, take_own_result};

/// The total of a progress in percent.
const WHOLE: u64 = 100;

/// What a client says of itself in `initialize`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Declared {
    /// It wants to hear how requests get on.
    pub progress: bool,
    /// It may take requests back.
    pub cancellation: bool,
}

/// Whether a message is the `initialize` of a client that speaks the dialect. One that speaks MCP as well is answered in that.
pub fn is_initialize_message(text: &str) -> bool {
    RpcHead::read(text).is_some_and(|head| is_initialize_head(&head))
}

/// The same of a message that has been read.
pub(super) fn is_initialize_head(head: &RpcHead<'_>) -> bool {
    let RpcHead { id: Some(_), method: Some(method), params: Some(params), .. } = head else { return false };
    let Some(params) = Members::parse(params.get()) else { return false };
    method == "initialize" && params.get("mcpVersion").is_some() && params.get("protocolVersion").is_none()
}

/// Whether this is the result by which a server that speaks the dialect answers `initialize`.
pub fn is_introduction(result: &RawValue) -> bool {
    Members::parse(result.get()).is_some_and(|result| {
        result.get("protocolVersion").is_none()
            && (result.get("server").is_some() || result.get("serverCapabilities").is_some())
    })
}

/// Reads the parameters of a client's `initialize`, and says them as MCP does.
pub fn initialize_mcp(params: Option<&RawValue>) -> Result<(Declared, Box<RawValue>), RpcError> {
    let wrong = |told: &str| RpcError::new(INVALID_PARAMETERS, told);
    let params = params.and_then(|params| Members::parse(params.get()));
    let params = params.ok_or_else(|| wrong("`params` must be an object"))?;
    let version = params.get("mcpVersion").and_then(|version| serde_json::from_str::<String>(version.get()).ok());
    if version.as_deref() != Some(VERSION) {
        let told = format!("`mcpVersion` must be \"{VERSION}\"");
        return Err(RpcError::new(INVALID_PARAMETERS, told).with_data(&json!({ "supported": [VERSION] })));
    }
    let declared = match params.get("clientCapabilities") {
        None => Members::default(),
        Some(said) => Members::parse(said.get()).ok_or_else(|| wrong("`clientCapabilities` must be an object"))?,
    };
    let flag = |name: &str| match declared.get(name).map(RawValue::get) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(wrong(&format!("`clientCapabilities.{name}` must be true or false"))),
    };
    let declared = Declared { progress: flag("supportsProgress")?, cancellation: flag("supportsCancellation")? };
    let mut hello = Members::default();
    hello.set("protocolVersion", Revision::ROOM.date());
    hello.set("capabilities", &Members::default());
    // The dialect has no such member, but a client that names itself is shown under that name.
    if let Some(info) = params.get("clientInfo").filter(|info| info.get().starts_with('{')) {
        hello.set("clientInfo", info);
    }
    Ok((declared, hello.to_raw()))
}

/// The parameters of an `initialize` to a server that speaks the dialect.
pub fn initialize_draft() -> Box<RawValue> {
    let mut params = Members::default();
    speak_both(&mut params);
    params.to_raw()
}

/// The parameters of an `initialize` to a server of which it is not known what it speaks: both sets.
pub fn initialize_either(official: &RawValue) -> Box<RawValue> {
    let mut params = Members::parse(official.get()).unwrap_or_default();
    speak_both(&mut params);
    params.to_raw()
}

fn speak_both(params: &mut Members) {
    params.set("mcpVersion", VERSION);
    params.set("clientCapabilities", &json!({ "supportsProgress": true, "supportsCancellation": true }));
}

/// A server's answer to `initialize`, for a client that speaks the dialect.
pub fn introduction_to_draft(result: &RawValue) -> Box<RawValue> {
    let said = Members::parse(result.get()).unwrap_or_default();
    let capabilities = said.get("capabilities").and_then(|said| Members::parse(said.get())).unwrap_or_default();
    let has = |name: &str| capabilities.get(name).is_some();
    let tells = |name: &str| {
        let details = capabilities.get(name).and_then(|said| Members::parse(said.get())).unwrap_or_default();
        ["listChanged", "subscribe"].iter().any(|key| details.get(key).is_some_and(|said| said.get() == "true"))
    };
    let mut server = Members::default();
    server.set("supportsToolDiscovery", &has("tools"));
    server.set("supportsResourceDiscovery", &has("resources"));
    server.set("supportsNotifications", &(tells("tools") || tells("resources")));
    let mut result = Members::default();
    match said.get("serverInfo") {
        Some(info) => result.set("server", info),
        None => result.set("server", &json!({ "name": "unnamed", "version": "" })),
    }
    result.set("serverCapabilities", &server);
    if let Some(instructions) = said.get("instructions") {
        result.set("instructions", instructions);
    }
    result.to_raw()
}

/// What a server that speaks the dialect answers to `initialize`, as MCP says it.
pub fn introduction_to_mcp(result: &RawValue) -> Box<RawValue> {
    let mut said = Members::parse(result.get()).unwrap_or_default();
    let supports = |name: &str| {
        let server = said.get("serverCapabilities").and_then(|said| Members::parse(said.get()));
        // Who says nothing at all of what it can is still asked for its tools: what else would it be for.
        server
            .map_or(name == "supportsToolDiscovery", |server| server.get(name).is_some_and(|said| said.get() == "true"))
    };
    let told = supports("supportsNotifications");
    let mut capabilities = Members::default();
    if supports("supportsToolDiscovery") {
        capabilities.set("tools", &json!({ "listChanged": told }));
    }
    if supports("supportsResourceDiscovery") {
        capabilities.set("resources", &json!({ "subscribe": told, "listChanged": told }));
    }
    let info = said.remove("server").filter(|info| info.get().starts_with('{'));
    let mut result = Members::default();
    result.set("protocolVersion", Revision::ROOM.date());
    result.set("capabilities", &capabilities);
    match info {
        Some(info) => result.set("serverInfo", &info),
        None => result.set("serverInfo", &json!({ "name": "unnamed", "version": "" })),
    }
    if let Some(instructions) = said.get("instructions") {
        result.set("instructions", instructions);
    }
    result.to_raw()
}

/// A list as the dialect answers it, as MCP does. What is neither's is left as it is.
pub fn list_to_mcp(listing: Listing, result: &RawValue) -> Box<RawValue> {
    if !result.get().starts_with('[') {
        return result.to_owned();
    }
    let mut page = Members::default();
    page.set(listing.key(), result);
    page.to_raw()
}

/// The elements of a list, all of its pages together, as the dialect answers it.
pub fn list_to_draft<'a>(items: impl Iterator<Item = &'a RawValue>) -> Box<RawValue> {
    let items: Vec<&RawValue> = items.collect();
    raw(&items)
}

/// The parameters of `tools/invoke`, for `tools/call`. `token` asks for progress.
pub fn invoke_to_mcp(params: Option<&RawValue>, token: Option<u64>) -> Option<Box<RawValue>> {
    // A token of the client's own would come back as one that nobody here gave out.
    let params = call_to_draft(params)?;
    let with_token = token.and_then(|token| meta::with_progress_token(&params, &token));
    Some(with_token.unwrap_or(params))
}

/// The parameters of `tools/call`, for `tools/invoke`: progress carries the request's id, so it needs no token.
pub fn call_to_draft(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let params = params?;
    let without_token = || {
        let mut members = Members::parse(params.get())?;
        let mut meta = Members::parse(members.get("_meta")?.get())?;
        meta.remove("progressToken")?;
        if meta.is_empty() {
            members.remove("_meta");
        } else {
            members.set("_meta", &meta);
        }
        Some(members.to_raw())
    };
    Some(without_token().unwrap_or_else(|| params.to_owned()))
}

/// What `tools/call` results in, as `tools/invoke` does: the structured content, else the text, else the content as it is. An output that MCP
/// has no place for stands beside the content, and counts where that says the same.
pub fn outcome_to_draft(result: &RawValue) -> Box<RawValue> {
    let mut said = Members::parse(result.get()).unwrap_or_default();
    let failed = said.get("isError").is_some_and(|said| said.get() == "true");
    let content = said.remove("content").filter(|content| content.get() != "[]");
    let structured = said.remove("structuredContent").filter(|said| said.get() != "null");
    let mut meta = said.get("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
    let own = take_own_result(&mut meta, only_text(content.as_deref()).as_deref());
    let output = match (own.or(structured), content) {
        (Some(output), _) => output,
        (None, Some(content)) => text_of(&content).map_or(content, |text| raw(&text)),
        (None, None) => RawValue::NULL.to_owned(),
    };
    let mut outcome = Members::default();
    outcome.set("status", if failed { "error" } else { "success" });
    outcome.set("output", &output);
    if !meta.is_empty() {
        outcome.set("_meta", &meta.to_raw());
    }
    outcome.to_raw()
}

/// The text of a content that is nothing else.
fn text_of(content: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Block {
        r#type: String,
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).ok()?;
    let texts: Option<Vec<String>> =
        blocks.into_iter().map(|block| block.text.filter(|_| block.r#type == "text")).collect();
    texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n"))
}

/// What `tools/invoke` results in, as `tools/call` does. An object is structured content, and text as well, as MCP wants it.
pub fn outcome_to_mcp(result: &RawValue) -> Box<RawValue> {
    let Some(mut said) = Members::parse(result.get()).filter(is_outcome) else {
        return result.to_owned();
    };
    let failed = said.get("status").is_some_and(|said| said.get() == "\"error\"");
    let output = said.remove("output").filter(|output| output.get() != "null");
    let mut outcome = Members::default();
    match output.as_deref() {
        None => outcome.set("content", &[(); 0]),
        Some(output) if is_content(output) => outcome.set("content", output),
        Some(output) => {
            let text = serde_json::from_str::<String>(output.get());
            let is_text = text.is_ok();
            let text = text.unwrap_or_else(|_| output.get().to_owned());
            outcome.set("content", &[json!({ "type": "text", "text": text })]);
            if output.get().starts_with('{') {
                outcome.set("structuredContent", output);
            } else if !is_text {
                // What has no place of its own in MCP would come back as text.
                let mut meta = said.get("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
                meta.set(meta::RESULT, output);
                said.set("_meta", &meta.to_raw());
            }
        }
    }
    if failed {
        outcome.set("isError", &true);
    }
    if let Some(meta) = said.get("_meta") {
        outcome.set("_meta", meta);
    }
    outcome.to_raw()
}

fn is_outcome(said: &Members) -> bool {
    said.get("status").is_some() || said.get("output").is_some()
}

/// Whether this is a list of MCP's content blocks.
fn is_content(output: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
    }
    let blocks: Option<Vec<Block<'_>>> = serde_json::from_str(output.get()).ok();
    let known = ["text", "image", "audio", "resource", "resource_link"];
    blocks.is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(|block| known.contains(&&*block.r#type)))
}

/// The parameters of `progress`, about the request that its client calls `id`. Without a total there is no percent to tell.
pub fn progress_to_draft(params: &Members, id: &RawValue) -> Box<RawValue> {
    let number = |key: &str| params.get(key).and_then(|said| serde_json::from_str::<f64>(said.get()).ok());
    let percent = number("progress").zip(number("total").filter(|total| *total > 0.0));
    let percent = percent.map(|(progress, total)| (progress / total * WHOLE as f64).clamp(0.0, WHOLE as f64));
    let mut told = Members::default();
    told.set("id", id);
    if let Some(percent) = percent.and_then(written) {
        told.set("percent", &percent);
    }
    if let Some(message) = params.get("message") {
        told.set("message", message);
    }
    told.to_raw()
}

/// A percentage, whole where it is, with two digits behind the point where it is not.
fn written(percent: f64) -> Option<Number> {
    let rounded = (percent * 100.0).round() / 100.0;
    match rounded.fract() == 0.0 {
        true => Number::from_f64(rounded).and_then(|whole| whole.to_string().trim_end_matches(".0").parse().ok()),
        false => Number::from_f64(rounded),
    }
}

/// The parameters of `progress`, as `notifications/progress` has them: the request's id is its token. `None` without a percentage.
pub fn progress_to_mcp(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let params = Members::parse(params?.get())?;
    let percent = params.get("percent").filter(|said| serde_json::from_str::<Number>(said.get()).is_ok())?;
    let mut told = Members::default();
    told.set("progressToken", params.get("id")?);
    told.set("progress", percent);
    told.set("total", &WHOLE);
    if let Some(message) = params.get("message") {
        told.set("message", message);
    }
    Some(told.to_raw())
}

/// The request that `cancel` names.
pub fn cancelled(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    Members::parse(params?.get())?.remove("id")
}

/// The parameters of `cancel`, from those of `notifications/cancelled`.
pub fn cancel_to_draft(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let request = Members::parse(params?.get())?.remove("requestId")?;
    let mut told = Members::default();
    told.set("id", &request);
    Some(told.to_raw())
}

/// The resources that `resources/changed` names.
pub fn updated(params: Option<&RawValue>) -> Vec<String> {
    let read = || serde_json::from_str(Members::parse(params?.get())?.get("updated")?.get()).ok();
    read().unwrap_or_default()
}

/// An error, with the code that the dialect has for it.
pub fn error_to_draft(error: &RawValue) -> Box<RawValue> {
    recoded(error, RpcError::INVALID_PARAMS, INVALID_PARAMETERS)
}

/// An error of the dialect's, with the code that MCP has for it.
pub fn error_to_mcp(error: &RawValue) -> Box<RawValue> {
    recoded(error, INVALID_PARAMETERS, RpcError::INVALID_PARAMS)
}

fn recoded(error: &RawValue, from: i64, to: i64) -> Box<RawValue> {
    let members = Members::parse(error.get());
    let named = members.filter(|error| error.get("code").is_some_and(|code| code.get() == from.to_string()));
    match named {
        Some(mut error) => {
            error.set("code", &to);
            error.to_raw()
        }
        None => error.to_owned(),
    }
}

pub(super) fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).expect("texts, numbers and raw values can be written")
}

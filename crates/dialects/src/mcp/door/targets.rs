//! What a request is about, and what an answer says of things that the room names differently.

use std::time::Duration;

use salon_mcp::listing::Listing;
use salon_mcp::{Era, code};
use salon_protocol::{Code, Members, ParticipantId, RpcError};
use serde_json::json;
use serde_json::value::RawValue;

use super::incoming::text_of;

/// When a client may try again what a participant that is on its way back will take.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What of a request names its target.
pub(super) enum RequestTarget {
    Name(Listing, String),
    Uri(String),
    Template(String),
}

pub(super) fn completed(params: Option<&RawValue>) -> Option<RequestTarget> {
    let params = Members::parse(params?.get())?;
    let named = params.get("ref")?;
    match text_of(Some(named), "type")?.as_str() {
        "ref/prompt" => text_of(Some(named), "name").map(|name| RequestTarget::Name(Listing::Prompts, name)),
        "ref/resource" => text_of(Some(named), "uri").map(RequestTarget::Template),
        _ => None,
    }
}

pub(super) fn ambiguous(target: &RequestTarget, owners: &[ParticipantId]) -> RpcError {
    let owners: Vec<_> = owners.iter().map(|owner| format!("`{owner}`")).collect();
    let owners = owners.join(", ");
    RpcError::invalid_params(match target {
        RequestTarget::Name(_, name) => {
            format!("`{name}` is offered by {owners}; name the one you mean: `owner__{name}`")
        }
        RequestTarget::Uri(uri) | RequestTarget::Template(uri) => {
            format!("`{uri}` is offered by {owners}; name the one you mean: `salon://owner/{uri}`")
        }
    })
}

/// What to say of a target that nobody offers while participants may still be on their way back: nothing is wrong with the request, and the
/// client may try again.
pub(super) fn not_yet(target: &RequestTarget) -> RpcError {
    let (what, name) = match target {
        RequestTarget::Name(Listing::Tools, name) => ("tool", name),
        RequestTarget::Name(_, name) => ("prompt", name),
        RequestTarget::Uri(uri) | RequestTarget::Template(uri) => ("resource", uri),
    };
    let told = format!(
        "the gateway has just started, and the participant that offers the {what} `{name}` may not be back yet; try again in a moment"
    );
    let retry_after = u64::try_from(RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
    RpcError::new(code::GONE, told).with_data(&json!({ "code": Code::RecipientNotFound, "retryAfterMs": retry_after }))
}

pub(super) fn unknown(target: &RequestTarget, era: Era) -> RpcError {
    match target {
        RequestTarget::Name(Listing::Tools, name) => {
            RpcError::invalid_params(format!("nobody here offers a tool `{name}`"))
        }
        RequestTarget::Name(_, name) => RpcError::invalid_params(format!("nobody here offers a prompt `{name}`")),
        RequestTarget::Uri(uri) | RequestTarget::Template(uri) => {
            let error_code = if era == Era::Legacy { code::RESOURCE_NOT_FOUND } else { RpcError::INVALID_PARAMS };
            let told = format!("nobody here offers a resource `{uri}`");
            RpcError::new(error_code, told).with_data(&json!({ "uri": uri }))
        }
    }
}

/// The contents of a resource under the URI it was asked for by.
pub(super) fn renamed_contents(result: &RawValue, theirs: &str, asked: &str) -> Option<Box<RawValue>> {
    let mut result = Members::parse(result.get())?;
    let mut contents: Vec<Members> = serde_json::from_str(result.get("contents")?.get()).ok()?;
    for content in &mut contents {
        let uri = content.get("uri").and_then(|uri| serde_json::from_str::<String>(uri.get()).ok());
        if uri.as_deref() == Some(theirs) {
            content.set("uri", asked);
        }
    }
    result.set("contents", &contents);
    Some(result.to_raw())
}

/// The resources that a tool's result links to.
pub(super) fn links(result: &RawValue) -> Vec<String> {
    let content = Members::parse(result.get()).and_then(|mut result| result.remove("content"));
    let blocks: Vec<Members> = content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    let is_link = |block: &&Members| block.get("type").is_some_and(|kind| kind.get() == "\"resource_link\"");
    let uri = |block: &Members| serde_json::from_str(block.get("uri")?.get()).ok();
    blocks.iter().filter(is_link).filter_map(uri).collect()
}

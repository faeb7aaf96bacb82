//! Results and errors, from JSON literals where those say it best.

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) type ToolResult = Result<CallToolResponse, ErrorData>;

/// A value of the SDK's, written as the JSON it stands for.
pub(crate) fn from_json<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the literals of this program have the types that it gives them")
}

pub(crate) fn text(text: impl Into<String>) -> ToolResult {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

pub(crate) fn content(blocks: Value) -> ToolResult {
    Ok(CallToolResult::success(from_json(blocks)).into())
}

pub(crate) fn structured(value: Value) -> ToolResult {
    Ok(CallToolResult::structured(value).into())
}

/// A tool that ran and failed.
pub(crate) fn failure(text: impl Into<String>) -> ToolResult {
    Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
}

pub(crate) fn invalid(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}

/// The arguments of a call as the type a tool wants.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(arguments: JsonObject) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| invalid(format!("invalid arguments: {error}")))
}

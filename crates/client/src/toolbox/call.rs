//! One call of a tool, as the tool sees it.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use salon_protocol::{Members, ParticipantId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{json_of, read};
use crate::mcp::{Elicitation, ElicitationAnswer, Sampling, SamplingAnswer, ToolResult, empty_object};
use crate::{CallError, Request, RequestOptions, ResultError, Room, RpcError};

/// How long a person or a model may think.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A call of one of a [`Toolbox`](crate::Toolbox)'s tools.
pub struct ToolCall {
    request: Request,
    name: String,
    arguments: Box<RawValue>,
}

impl ToolCall {
    pub(super) fn read(request: Request) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Params {
            name: String,
            arguments: Option<Box<RawValue>>,
        }
        let Params { name, arguments } = read(request.params_raw())?;
        let arguments = arguments.unwrap_or_else(empty_object);
        Ok(Self { request, name, arguments })
    }

    /// The tool that is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who calls.
    pub fn caller(&self) -> &ParticipantId {
        self.request.from()
    }

    /// One argument by name. One that is missing can be read as an `Option`.
    pub fn argument<T: DeserializeOwned>(&self, name: &str) -> Result<T, ToolError> {
        let all: Members = self.arguments()?;
        match all.get(name) {
            Some(value) => serde_json::from_str(value.get())
                .map_err(|error| ToolError::invalid(format!("the argument `{name}`: {error}"))),
            None => serde_json::from_str("null")
                .map_err(|_| ToolError::invalid(format!("the argument `{name}` is missing"))),
        }
    }

    /// All arguments together.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        if !self.arguments.get().starts_with('{') {
            return Err(ToolError::invalid(format!("the arguments of `{}` must be an object", self.name)));
        }
        serde_json::from_str(self.arguments.get())
            .map_err(|error| ToolError::invalid(format!("the arguments of `{}` do not fit: {error}", self.name)))
    }

    /// All arguments, as they were written; an empty object when none were given.
    pub fn arguments_raw(&self) -> &RawValue {
        &self.arguments
    }

    /// Tells the caller how far the work is, if it wants to know. It must grow from one report to the next.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.request.progress(progress, total, message).await;
    }

    /// Is cancelled when the caller no longer wants the result. The tool is dropped then, wherever it waits; this is for what it has
    /// started elsewhere.
    pub fn cancelled(&self) -> CancellationToken {
        self.request.cancelled()
    }

    /// The room it was called in.
    pub fn room(&self) -> Room {
        self.request.room()
    }

    /// The request that carries the call.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Asks the person behind the caller, and waits up to ten minutes. The caller waits too: it should give such a call time with
    /// [`CallTool::timeout`](crate::CallTool::timeout).
    pub async fn elicit(&self, question: &Elicitation) -> Result<ElicitationAnswer, CallError> {
        self.ask_back("elicitation/create", question).await
    }

    /// Asks the caller's model.
    pub async fn sample(&self, conversation: &Sampling) -> Result<SamplingAnswer, CallError> {
        self.ask_back("sampling/createMessage", conversation).await
    }

    async fn ask_back<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<T, CallError> {
        let options = RequestOptions {
            timeout: ANSWER_TIMEOUT,
            correlation: Some(self.request.envelope().id().clone()),
            to_session: self.request.envelope().from_session().cloned(),
            ..RequestOptions::default()
        };
        let answer = self.room().request_with(self.caller(), method, params, options).await?.result().await?;
        Ok(serde_json::from_str(answer.get()).map_err(ResultError::from)?)
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("name", &self.name).field("caller", self.caller()).finish_non_exhaustive()
    }
}

/// Why a tool gives no result.
///
/// Any error can be turned into one with `?`; the caller's model then reads what went wrong, as MCP wants it, in a result that is
/// marked as an error. An [`RpcError`] is passed on as the JSON-RPC error it is.
#[derive(Debug)]
pub struct ToolError(ToolErrorCause);

#[derive(Debug)]
enum ToolErrorCause {
    Failed(String),
    Answer(RpcError),
}

impl ToolError {
    /// The tool failed, with a text for a model.
    pub fn failed(why: impl Into<String>) -> Self {
        Self(ToolErrorCause::Failed(why.into()))
    }

    /// The arguments do not fit.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self(ToolErrorCause::Answer(RpcError::invalid_params(why)))
    }

    pub(super) fn into_answer(self) -> Result<Box<RawValue>, RpcError> {
        match self.0 {
            ToolErrorCause::Failed(why) => json_of(&ToolResult::error(why)),
            ToolErrorCause::Answer(error) => Err(error),
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ToolErrorCause::Failed(why) => f.write_str(why),
            ToolErrorCause::Answer(error) => error.fmt(f),
        }
    }
}

// Not an `Error` itself: that is what lets every error become one.
impl<E: std::error::Error + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<RpcError>() {
            Some(error) => Self(ToolErrorCause::Answer(error.clone())),
            None => Self::failed(error.to_string()),
        }
    }
}

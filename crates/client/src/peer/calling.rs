//! Calling a tool, and the options of a call.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use salon_protocol::{EnvelopeId, ParticipantId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Named, Peer, arguments_of, read};
use crate::mcp::ToolResult;
use crate::{Call, CallError, DEFAULT_TIMEOUT, Progress, RequestOptions};

/// How long a call may take in all, however much progress it reports.
const MAX_CALL_TIME: Duration = Duration::from_secs(60 * 60);

type OnProgress = Box<dyn FnMut(Progress) + Send>;

/// A call of a tool that is about to be made. Made by [`Peer::call_tool`]; awaiting it makes the call and waits for the result.
///
/// Dropping what was awaited cancels the call.
#[must_use = "the tool is called when this is awaited or started"]
pub struct CallTool {
    peer: Peer,
    name: String,
    arguments: Result<Option<Box<RawValue>>, CallError>,
    options: RequestOptions,
    at_most: Duration,
    on_progress: Option<OnProgress>,
}

impl CallTool {
    pub(super) fn new(peer: Peer, name: String, arguments: &(impl Serialize + ?Sized)) -> Self {
        let options = RequestOptions { timeout: DEFAULT_TIMEOUT, ..RequestOptions::default() };
        Self { peer, name, arguments: arguments_of(arguments), options, at_most: MAX_CALL_TIME, on_progress: None }
    }

    /// How long to wait without an answer or progress: 60 s by default. Every progress notification restarts it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// How long to wait in all, whatever progress is reported: an hour by default.
    pub fn at_most(mut self, at_most: Duration) -> Self {
        self.at_most = at_most;
        self
    }

    /// Hears every report of progress while the result is awaited.
    pub fn on_progress(mut self, tell: impl FnMut(Progress) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(tell));
        self
    }

    /// Names the envelope that this call replies to.
    pub fn because_of(mut self, envelope: EnvelopeId) -> Self {
        self.options.correlation = Some(envelope);
        self
    }

    /// Makes the call, and hands it out without waiting for the result.
    pub async fn start(self) -> Result<RunningTool, CallError> {
        let until = Instant::now().checked_add(self.at_most);
        let params = Named { name: &self.name, arguments: self.arguments? };
        let call = self.peer.start("tools/call", &params, self.options).await?;
        Ok(RunningTool { call, until, on_progress: self.on_progress })
    }
}

impl IntoFuture for CallTool {
    type Output = Result<ToolResult, CallError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.start().await?.result().await }.boxed()
    }
}

impl fmt::Debug for CallTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTool").field("peer", self.peer.id()).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A call of a tool under way. Dropping it cancels it.
pub struct RunningTool {
    call: Call,
    /// When it has taken too long in all; never, when that is beyond the end of time.
    until: Option<Instant>,
    on_progress: Option<OnProgress>,
}

impl RunningTool {
    /// The envelope that carries the call.
    pub fn id(&self) -> &EnvelopeId {
        self.call.id()
    }

    /// Who was called.
    pub fn callee(&self) -> &ParticipantId {
        self.call.callee()
    }

    /// The next report of progress; `None` when the call is over and [`result`](Self::result) does not wait.
    pub async fn progress(&mut self) -> Option<Progress> {
        match self.until {
            Some(until) => tokio::time::timeout_at(until, self.call.progress()).await.unwrap_or_default(),
            None => self.call.progress().await,
        }
    }

    /// Waits for the result.
    pub async fn result(mut self) -> Result<ToolResult, CallError> {
        let mut on_progress = self.on_progress.take();
        while let Some(progress) = self.progress().await {
            if let Some(tell) = &mut on_progress {
                tell(progress);
            }
        }
        let result = self.call.result();
        match self.until {
            // Giving the call up cancels it.
            Some(until) => tokio::time::timeout_at(until, result).await.unwrap_or(Err(CallError::TimedOut)),
            None => result.await,
        }
        .and_then(|answer| read(&answer))
    }

    /// Tells the participant to stop, and why.
    pub async fn cancel(self, reason: &str) {
        self.call.cancel(reason).await;
    }
}

impl fmt::Debug for RunningTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningTool").field("id", self.id()).field("callee", self.callee()).finish_non_exhaustive()
    }
}

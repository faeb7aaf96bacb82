//! What the transcript consists of.

use std::time::Duration;

use salon_protocol::{EnvelopeId, ParticipantId, ParticipantKind, RpcId, Timestamp};

/// One thing that happened. A call and its answer are one thing.
#[derive(Debug, Clone)]
pub(crate) struct ChatItem {
    /// Its place: ascending, and kept when older items come before it.
    pub(crate) key: i64,
    /// The envelope it stands for; none for a local note.
    pub(crate) envelope: Option<EnvelopeId>,
    pub(crate) at: Timestamp,
    pub(crate) body: ItemBody,
}

#[derive(Debug, Clone)]
pub(crate) enum ItemBody {
    Chat(ChatMessage),
    Presence {
        who: ParticipantId,
        kind: Option<ParticipantKind>,
        joined: bool,
    },
    Call(CallItem),
    /// An answer whose request is not in the window.
    Answer {
        from: ParticipantId,
        to: Vec<ParticipantId>,
        about: Option<EnvelopeId>,
        outcome: CallOutcome,
    },
    /// Any other notification.
    Notice {
        from: ParticipantId,
        to: Vec<ParticipantId>,
        text: String,
        minor: bool,
    },
    /// Said by this program to its person.
    Note {
        tone: TextTone,
        text: String,
        /// Pairs of a label and its text.
        rows: Vec<(String, String)>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct ChatMessage {
    pub(crate) from: ParticipantId,
    /// Whom it is for, though everybody sees it; nobody in particular when empty.
    pub(crate) to: Vec<ParticipantId>,
    pub(crate) text: String,
    pub(crate) markdown: bool,
    pub(crate) reply_to: Option<EnvelopeId>,
    /// It names the person at this terminal, or is for them.
    pub(crate) names_me: bool,
    pub(crate) state: MessageState,
}

/// What became of a message after it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageState {
    AsSaid,
    Edited,
    Retracted,
    /// Its text was removed by somebody who moderates.
    Redacted,
}

#[derive(Debug, Clone)]
pub(crate) struct CallItem {
    pub(crate) from: ParticipantId,
    pub(crate) to: ParticipantId,
    pub(crate) rpc: RpcId,
    /// Its progress token, as JSON.
    pub(crate) token: Option<String>,
    /// The tool, or the method where no tool is called.
    pub(crate) what: String,
    pub(crate) details: String,
    /// Handshakes and lists, which are machines getting ready.
    pub(crate) minor: bool,
    /// Put to the person at this terminal, who has to answer.
    pub(crate) question: bool,
    /// When it was seen to begin; none when it comes from history.
    pub(crate) began: Option<Duration>,
    pub(crate) progress: Option<CallProgress>,
    pub(crate) cancelled: bool,
    pub(crate) outcome: Option<CallOutcome>,
}

impl CallItem {
    /// Whether the callee has reported progress.
    pub(crate) fn is_running(&self) -> bool {
        self.outcome.is_none() && !self.cancelled && (self.began.is_some() || self.progress.is_some())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CallProgress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: String,
}

#[derive(Debug, Clone)]
pub(crate) struct CallOutcome {
    pub(crate) well: bool,
    pub(crate) text: String,
    pub(crate) at: Timestamp,
    /// How long it took; none when that cannot be known.
    pub(crate) took: Option<Duration>,
    /// The envelope of the answer, where there is one.
    pub(crate) answer: Option<EnvelopeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextTone {
    /// Something the person asked to see.
    Requested,
    /// Something that happened to the connection.
    Dim,
    /// Something that went wrong.
    Bad,
}

impl ChatItem {
    /// Whether it is folded away unless everything is wanted.
    pub(crate) fn is_minor(&self) -> bool {
        match &self.body {
            ItemBody::Call(call) => call.minor && call.outcome.as_ref().is_none_or(|outcome| outcome.well),
            ItemBody::Notice { minor, .. } => *minor,
            ItemBody::Answer { outcome, .. } => outcome.well,
            ItemBody::Chat(_) | ItemBody::Presence { .. } | ItemBody::Note { .. } => false,
        }
    }
}

//! The person as a participant: others put questions to them by the tool `ask_human`, or, while being called, by elicitation.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use salon_client::mcp::{Elicitation, ElicitationAnswer, ToolResult};
use salon_client::{Request, RpcError, ToolCall, ToolError, Toolbox};
use salon_protocol::EnvelopeId;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::ASK_HUMAN;
use super::event::{ChatInput, PersonQuestion, QuestionAnswer};
use super::model::MAX_QUESTIONS;
use super::run::LoopEvent;
use crate::arguments::ArgumentSchema;

/// The questions that wait for the person. Clones are the same.
#[derive(Clone)]
pub(super) struct Person {
    open: Arc<Mutex<HashMap<EnvelopeId, oneshot::Sender<QuestionAnswer>>>>,
    tell: mpsc::Sender<LoopEvent>,
}

/// Removes the question when its asker cancels it.
struct WaitingQuestion<'a> {
    person: &'a Person,
    id: EnvelopeId,
}

impl Drop for WaitingQuestion<'_> {
    fn drop(&mut self) {
        if self.person.open().remove(&self.id).is_some() {
            // When the queue is full, answering fails with "too late".
            let _ = self.person.tell.try_send(LoopEvent::Input(ChatInput::Withdrawn(self.id.clone())));
        }
    }
}

impl Person {
    pub(super) fn new(tell: mpsc::Sender<LoopEvent>) -> Self {
        Self { open: Arc::default(), tell }
    }

    /// What others see of the person.
    pub(super) fn toolbox(&self) -> Toolbox {
        let (human, form) = (self.clone(), self.clone());
        let schema = json!({
            "type": "object",
            "properties": {"question": {"type": "string", "description": "What to ask"}},
            "required": ["question"],
        });
        Toolbox::new("salon chat")
            .tool(ASK_HUMAN, "Asks the person at the terminal and waits for the answer", schema, move |call| {
                let human = human.clone();
                async move { human.ask_person(call).await }
            })
            .on_elicitation(move |question, request| {
                let form = form.clone();
                async move { form.elicited(question, request).await }
            })
    }

    /// Hands over an answer; whether somebody still waited for it.
    pub(super) fn answer(&self, question: &EnvelopeId, answer: QuestionAnswer) -> bool {
        self.open().remove(question).is_some_and(|waiting| waiting.send(answer).is_ok())
    }

    /// The question was answered elsewhere.
    pub(super) fn forget(&self, question: &EnvelopeId) {
        self.open().remove(question);
    }

    async fn ask_person(&self, call: ToolCall) -> Result<ToolResult, ToolError> {
        // Read for its shape: what is shown comes from the envelope.
        call.argument::<String>("question")?;
        match self.ask(call.request(), None).await? {
            QuestionAnswer::Text(text) => Ok(ToolResult::text_only(text)),
            QuestionAnswer::Form(content) => Ok(ToolResult::text_only(content.get())),
            QuestionAnswer::Declined => Err(ToolError::failed("the person does not want to answer")),
        }
    }

    async fn elicited(&self, question: Elicitation, request: Request) -> Result<ElicitationAnswer, RpcError> {
        let schema = ArgumentSchema::new(Some(&question.requested_schema));
        match self.ask(&request, Some(schema)).await? {
            QuestionAnswer::Form(content) => {
                ElicitationAnswer::accept(&content).map_err(|e| RpcError::internal(e.to_string()))
            }
            QuestionAnswer::Text(_) | QuestionAnswer::Declined => Ok(ElicitationAnswer::decline()),
        }
    }

    async fn ask(&self, request: &Request, form: Option<ArgumentSchema>) -> Result<QuestionAnswer, RpcError> {
        let (id, from) = (request.envelope().id().clone(), request.from().clone());
        let (sender, answered) = oneshot::channel();
        {
            let mut open = self.open();
            if open.len() >= MAX_QUESTIONS {
                return Err(RpcError::internal("the person has too many questions to answer; ask again later"));
            }
            open.insert(id.clone(), sender);
        }
        let waiting = WaitingQuestion { person: self, id: id.clone() };
        let gone = |_| RpcError::internal("the person has left");
        self.tell.send(LoopEvent::Input(ChatInput::Question(PersonQuestion { id, from, form }))).await.map_err(gone)?;
        let answer = answered.await.map_err(|_| RpcError::internal("the question was answered elsewhere"));
        drop(waiting);
        answer
    }

    fn open(&self) -> MutexGuard<'_, HashMap<EnvelopeId, oneshot::Sender<QuestionAnswer>>> {
        // Nothing that can panic runs while it is held.
        self.open.lock()
    }
}

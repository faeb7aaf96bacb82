//! A bridge in a scene: it enters ghosts and removes them by messages to the gateway.

use serde_json::{Value, json};

use super::ConnectionName;
use super::compose::parse;
use super::stage::{AwaitedFrame, SceneStage, shorten};
use crate::Failure;

impl SceneStage {
    pub(crate) async fn enter_ghost(
        &mut self,
        who: &ConnectionName,
        ghost: &str,
        more: &str,
        refused: Option<&str>,
    ) -> Result<(), Failure> {
        let mut payload = parse(more)?;
        payload["event"] = json!("ghost.enter");
        payload["id"] = json!(ghost);
        let answer = self.ask_for_ghost(who, payload).await?;
        let is_expected = match refused {
            None => answer["payload"]["event"] == "ghost.entered" && answer["payload"]["participant"]["id"] == ghost,
            Some(code) => answer["payload"]["event"] == "error" && answer["payload"]["code"] == code,
        };
        if is_expected { Ok(()) } else { Err(format!("the answer is {answer}")) }
    }

    pub(crate) async fn remove_ghost(
        &mut self,
        who: &ConnectionName,
        ghost: &str,
        reason: Option<&str>,
    ) -> Result<(), Failure> {
        let answer = self.ask_for_ghost(who, json!({"event": "ghost.leave", "id": ghost, "reason": reason})).await?;
        if answer["payload"]["event"] == "ghost.left" { Ok(()) } else { Err(format!("the answer is {answer}")) }
    }

    /// Sends a message about a ghost, and takes its answer from among what comes. The join of a ghost may come before the answer or after it.
    async fn ask_for_ghost(&mut self, who: &ConnectionName, payload: Value) -> Result<Value, Failure> {
        // Not one of the numbers of calls, which a scene may name.
        let id = format!("ghost-{}", self.transcript.len());
        let message = json!({"id": id, "to": ["system:gateway"], "kind": "system", "payload": payload});
        let text = self.fill(who, &message.to_string())?;
        self.transcript.push(format!("      {} → {}", who.0, shorten(&text)));
        self.connection(who)?.send(&text).await?;
        let mut others = Vec::new();
        let answer = loop {
            let text = self.next_text(who, AwaitedFrame::Frame).await?;
            let came: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if came["kind"] == "system" && came["correlation_id"] == id.as_str() {
                break came;
            }
            others.push(text);
        };
        self.connection(who)?.put_back(others);
        Ok(answer)
    }
}

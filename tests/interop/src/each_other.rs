//! Guests that use each other. A server cannot call by itself, but it can ask its caller's model; here that model is another guest.

use salon_client::mcp::{Content, SamplingAnswer};
use salon_client::protocol::ParticipantId;
use salon_client::{RpcError, Toolbox};
use salon_testkit::{Failure, within};
use serde_json::{Value, json};

use crate::features::{contains, told};
use crate::origin::{Installed, Origin};
use crate::stage::Stage;

const GUESTS: [(&str, Origin); 3] =
    [("rust", Origin::Rmcp), ("typescript", Origin::Everything), ("python", Origin::Python2)];

/// Every guest's tool that asks a model is answered by each of the other guests.
pub(crate) async fn all(installed: Installed) -> Result<(), Failure> {
    let stage = Stage::hosting(installed, &GUESTS).await?;
    let broker = stage.enter_with("broker", passing_on()).await?;
    for (guest, _) in GUESTS {
        stage.peer(&broker, guest).await?;
    }
    for (asking, origin) in GUESTS {
        let peer = stage.peer(&broker, asking).await?;
        let (tool, _) = origin.known().sampling;
        for (answering, other) in GUESTS.iter().filter(|(name, _)| *name != asking) {
            let call = peer.call_tool(tool, &json!({ "prompt": format!("ask {answering}") }));
            let said = within(&format!("{asking} to hear from {answering}"), call.into_future()).await?;
            let said =
                said.map_err(told).map_err(|why| format!("{asking} → {answering}: {why}\n{}", stage.output()))?;
            // A text in a text may be written with escapes.
            let expected = other.known().echo.2;
            contains(&said.text(), expected).map_err(|why| format!("{asking} → {answering}: {why}"))?;
        }
    }
    broker.leave().await;
    stage.close().await
}

/// A participant whose model is the participant that the last word of the prompt names: its `echo` is the answer.
fn passing_on() -> Toolbox {
    Toolbox::new("broker").on_sampling(|conversation, request| async move {
        let prompt = conversation.messages.last().map(|message| message.content.clone());
        let prompt = prompt.as_ref().and_then(Content::as_text).unwrap_or_default().to_owned();
        let name = prompt.rsplit(' ').next().unwrap_or_default();
        let origin = GUESTS.iter().find(|(guest, _)| *guest == name).map(|(_, origin)| *origin);
        let origin = origin.ok_or_else(|| RpcError::invalid_params(format!("nobody is asked in `{prompt}`")))?;
        let name: ParticipantId = name.parse().map_err(|_| RpcError::invalid_params("no participant is named"))?;
        let (tool, arguments, _): (_, Value, _) = origin.known().echo;
        let answer = request.room().peer(&name).call_tool(tool, &arguments).await;
        let answer = answer.map_err(|error| RpcError::internal(error.to_string()))?;
        Ok(SamplingAnswer::new(answer.text(), "another-guest"))
    })
}

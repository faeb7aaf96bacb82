//! `dm.open`: a topic of the caller and some others, and nobody else. `salon dm` does the same.

use salon_control::{Act, DirectConversation};
use salon_protocol::{Code, ParticipantId, Refusal, RpcError};
use salon_rooms::Rooms;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, derived_id, failed, structured};
use crate::topic_control::{NoticeTerms, SettingsEdit, TopicControl};

/// Answers `dm.open`. Whether a token opens the topic then is for the doors to decide, as for every topic.
pub(super) async fn open(
    office: &Office,
    rooms: &Rooms,
    request: &HostRequest,
    mut arguments: Arguments<'_>,
) -> HostOutcome {
    let with: Vec<ParticipantId> = arguments.required("with")?;
    arguments.end()?;
    let conversation = DirectConversation::new(request.caller(), with)
        .map_err(|why| RpcError::invalid_params(format!("the argument `with` of `dm.open`: {why}")))?;
    match open_topic(office, rooms, request, &conversation).await {
        Ok(created) => Ok(structured(
            &json!({ "topic": conversation.topic(), "members": conversation.members(), "created": created }),
        )),
        Err(refusal) => Ok(failed(&refusal.message)),
    }
}

/// Makes the topic, or makes sure that it is of exactly these members. Says whether it was made.
async fn open_topic(
    office: &Office,
    rooms: &Rooms,
    request: &HostRequest,
    conversation: &DirectConversation,
) -> Result<bool, Refusal> {
    let (who, stamp) = (request.caller(), request.entry.stamp.as_ref());
    let is_same = |settings: &_| {
        let other = |why: salon_control::InvalidConversation| Refusal::new(Code::Forbidden, why.to_string());
        conversation.check(settings).map(|()| false).map_err(other)
    };
    if let Some(settings) = rooms.settings_of_topic(conversation.topic()).await? {
        return is_same(&settings);
    }
    let desk = rooms.desk(conversation.topic(), who).await?;
    let make: SettingsEdit<'_> = Box::new(|before| match before.version {
        0 => Ok(conversation.settings()),
        _ => Err(Refusal::new(Code::VersionConflict, "somebody else has made the topic meanwhile")),
    });
    let namespace = &office.toolbox.namespace;
    let asked = request.entry.envelope.id();
    let id = |number: usize| {
        let id = derived_id(namespace, &format!("direct {number} {}", office.desk.topic()), asked);
        salon_protocol::EnvelopeId::new(id).expect("a UUID is an id")
    };
    let terms = NoticeTerms { id: &id, about: None, reason: None };
    let control = TopicControl { desk: &desk, creation: office.toolbox.topic_creation, who, stamp };
    match control.change(Act::Manage, terms, make).await {
        Ok(_) => Ok(true),
        // One of the others was quicker.
        Err(refusal) => desk.settings().map_or(Err(refusal), |settings| is_same(&settings)),
    }
}

/// The tool as `tools/list` shows it.
pub(super) fn description() -> Value {
    let ids = |description: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description });
    let mut with = ids("With whom, by id; you are part of it anyway");
    (with["minItems"], with["maxItems"]) = (json!(1), json!(salon_control::MAX_DIRECT_MEMBERS));
    json!({
        "name": "dm.open",
        "title": "Talk to somebody alone",
        "description": "Opens a topic of you and the participants you name, which nobody else can enter, and answers with its name. The \
            same participants always get the same topic. To speak there, enter it with a token that names it, such as one for `dm:*`",
        "inputSchema": {
            "type": "object", "properties": { "with": with }, "required": ["with"], "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "topic": { "type": "string", "description": "The topic" },
                "members": ids("Everybody who may enter it"),
                "created": { "type": "boolean", "description": "Whether it was made now" }
            },
            "required": ["topic", "members", "created"],
            "additionalProperties": false
        },
        "annotations": { "idempotentHint": true, "destructiveHint": false }
    })
}

//! What participants offer, as the gateway's catalogue has it: nothing is stored for it, and no seat is needed.

use salon_client::{Client, HttpRefusal, ParticipantOffer, RestError};
use salon_gateway::config::nearest;
use salon_protocol::{ParticipantId, TopicName};

use super::outcome::{GONE, HintContext};
use crate::safe;
use crate::trouble::Trouble;

/// How many letters of a name may be wrong for another to be meant.
const MAX_WRONG: usize = 3;

/// Whether the gateway cannot say what there is, so that the participants themselves must be asked: it is of an earlier version, or another gateway has
/// them.
pub(super) fn is_unknown_there(error: &RestError) -> bool {
    matches!(error, RestError::Refused(HttpRefusal { status: 404 | 503, .. }))
}

/// The list of one participant. `None` where the gateway does not know it, though the participant is there.
pub(super) async fn of_one<T>(
    offers: Result<Vec<ParticipantOffer<T>>, RestError>,
    client: &Client,
    topic: &TopicName,
    participant: &ParticipantId,
    asking: &HintContext<'_>,
) -> Result<Option<Vec<T>>, Trouble> {
    let known = match offers {
        Ok(offers) => offers.into_iter().next().and_then(|offer| offer.items),
        Err(error) if is_unknown_there(&error) => None,
        Err(error) => return Err(asking.trouble(&error)),
    };
    if known.is_none() && !participant.is_host() {
        let present = client.participants(topic).await.map_err(|error| asking.trouble(&error))?;
        if !present.iter().any(|one| one.id == *participant) {
            let names = present.iter().map(|one| one.id.as_str());
            let meant = did_you_mean(participant.as_str(), names).map(|meant| format!("{meant} ")).unwrap_or_default();
            let hint = format!("{meant}`salon who {}` shows who is there", safe::shell(topic.as_str()));
            return Err(Trouble::coded(GONE, format_args!("`{participant}` is not in this room"), hint));
        }
    }
    Ok(known)
}

/// The question whether a name was meant that is nearly the same.
pub(crate) fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Of a short name, fewer letters may be wrong.
    let most = MAX_WRONG.min(wrong.chars().count() / 2);
    nearest(wrong, known, most).map(|near| format!("did you mean `{}`?", safe::line(near)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let known = ["robot", "rover", "x"];
        assert_eq!(did_you_mean("robto", known).as_deref(), Some("did you mean `robot`?"));
        assert_eq!(did_you_mean("y", known), None);
        assert_eq!(did_you_mean("submarine", known), None);
    }
}

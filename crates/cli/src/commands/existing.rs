//! A topic that a command names must exist: a misspelt name would make a room in which nobody is.

use clap::Args;
use salon_client::{Client, RestError};
use salon_protocol::TopicName;

use super::outcome::{GONE, HintContext};
use crate::safe;
use crate::trouble::Trouble;

/// How different a name may be that is suggested in place of another.
const MAX_DISTANCE: usize = 3;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CreateOption {
    /// Make the topic if it does not exist
    #[arg(long)]
    create: bool,
}

impl CreateOption {
    /// Refuses a topic that does not exist, unless it is to be made. Nothing is stored for the question.
    pub(crate) async fn require(
        self,
        client: &Client,
        topic: &TopicName,
        asking: &HintContext<'_>,
    ) -> Result<(), Trouble> {
        if self.create {
            return Ok(());
        }
        match client.topic_exists(topic).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // Who may not read its settings is told so when it is entered; an older gateway has no such address.
            Err(RestError::Refused(refusal)) if matches!(refusal.status, 403..=405) => return Ok(()),
            Err(error) => return Err(asking.trouble(&error)),
        }
        // A list that cannot be had suggests nothing.
        let known = client.topics().await.unwrap_or_default();
        let hint = match similar(topic, &known) {
            Some(other) => format!("did you mean `{}`? `--create` makes a new topic", safe::line(other.as_str())),
            None => "`salon topics` lists the topics; `--create` makes this one".to_owned(),
        };
        Err(Trouble::coded(GONE, format!("there is no topic `{}`", safe::line(topic.as_str())), hint))
    }
}

/// What to say of a topic that shows nothing, because it does not exist. `None` where it exists, or where that cannot be seen.
pub(super) async fn missing(client: &Client, topic: &TopicName) -> Option<String> {
    if client.topic_exists(topic).await.ok()? {
        return None;
    }
    let known = client.topics().await.unwrap_or_default();
    let meant = similar(topic, &known).map(|other| format!("; did you mean `{}`?", safe::line(other.as_str())));
    Some(format!("there is no topic `{}`{}", safe::line(topic.as_str()), meant.unwrap_or_default()))
}

/// The name that is most like another, where one is.
fn similar<'a>(wanted: &TopicName, known: &'a [TopicName]) -> Option<&'a TopicName> {
    let distances = known.iter().map(|name| (strsim::levenshtein(wanted.as_str(), name.as_str()), name));
    let nearest = distances.min_by_key(|(distance, _)| *distance)?;
    // Of a short name, less may be different.
    let most = MAX_DISTANCE.min(wanted.as_str().chars().count() / 3);
    (nearest.0 <= most).then_some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(wanted: &str) -> Option<&'static str> {
        let known: Vec<TopicName> =
            ["room:alpha", "room:beta", "#ops"].iter().map(|name| TopicName::new(name).expect("a name")).collect();
        let name = TopicName::new(wanted).expect("a name");
        let found = similar(&name, &known)?.as_str().to_owned();
        ["room:alpha", "room:beta", "#ops"].into_iter().find(|known| *known == found)
    }

    #[test]
    fn a_misspelt_name_is_found() {
        assert_eq!(suggested("room:alhpa"), Some("room:alpha"));
        assert_eq!(suggested("rom:beta"), Some("room:beta"));
        assert_eq!(suggested("#op"), Some("#ops"));
        assert_eq!(suggested("#xyz"), None);
        assert_eq!(suggested("kitchen"), None);
    }
}

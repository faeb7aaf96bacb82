//! Changing a topic's settings, and deleting it: by the host's tools and by REST alike.
//!
//! Every change is a notice in the topic's log ([`salon_control`]), so that all nodes agree on it and everybody can see who made it.

use salon_control::{
    Act, Authority, CapabilitySet, DELETED_METHOD, OPERATOR_PERMISSION, RoleName, SETTINGS_METHOD, SettingsChange,
    TopicDeletion, TopicSettings,
};
use salon_log::FileStore;
use salon_protocol::{Code, EnvelopeId, ParticipantId, Refusal, Stamp};
use salon_rooms::{HostAccess, Rooms, notice};
use serde_json::Value;

use crate::config::TopicCreation;

/// How often a change is made again that another one was quicker than.
pub(crate) const MAX_TRIES: usize = 5;

/// A change of the settings: what it makes of those of before, or why it does not.
pub(crate) type SettingsEdit<'a> = Box<dyn Fn(&TopicSettings) -> Result<Value, Refusal> + Send + Sync + 'a>;

/// A topic, and who wants to change it.
pub(crate) struct TopicControl<'a> {
    pub(crate) desk: &'a HostAccess,
    pub(crate) creation: TopicCreation,
    pub(crate) who: &'a ParticipantId,
    pub(crate) stamp: Option<&'a Stamp>,
}

/// How the notices of a change are written.
pub(crate) struct NoticeTerms<'a> {
    /// The id of each try's notice.
    pub(crate) id: &'a (dyn Fn(usize) -> EnvelopeId + Send + Sync),
    /// The request that it follows from.
    pub(crate) about: Option<&'a EnvelopeId>,
    pub(crate) reason: Option<String>,
}

impl TopicControl<'_> {
    /// Changes the settings, again where another change was quicker. Who makes the change is judged by the settings that it changes: those
    /// that a request was judged by may be older, or none.
    pub(crate) async fn change(
        &self,
        act: Act<'_>,
        terms: NoticeTerms<'_>,
        make: SettingsEdit<'_>,
    ) -> Result<TopicSettings, Refusal> {
        for number in 0..MAX_TRIES {
            let before = match self.desk.settings() {
                Some(settings) => {
                    self.check(&act)?;
                    (*settings).clone()
                }
                None => self.founded()?,
            };
            let invalid = |why: salon_control::InvalidSettings| Refusal::new(Code::InvalidParameters, why.to_string());
            let settings = before.patched(&make(&before)?).map_err(invalid)?;
            self.check_retention(&before, &settings)?;
            let change = SettingsChange { settings, by: self.who.clone(), reason: terms.reason.clone() };
            let notice = notice(&(terms.id)(number), terms.about, SETTINGS_METHOD, &change);
            match self.desk.append(notice).await {
                Ok(_) => return Ok(change.settings),
                Err(refusal) if refusal.code == Code::VersionConflict => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Err(Refusal::new(Code::VersionConflict, "the settings change too often; try again"))
    }

    /// Deletes the topic. What would refuse that is asked before anything is removed. Its files go first, so that whatever ends this in the
    /// middle leaves none to a later topic of that name; and once more afterwards, because until then some may have been put there.
    pub(crate) async fn delete(
        &self,
        rooms: &Rooms,
        files: &dyn FileStore,
        terms: NoticeTerms<'_>,
    ) -> Result<(), Refusal> {
        match self.desk.settings() {
            Some(_) => self.check(&Act::Manage)?,
            // Who may own the topic may delete it as well.
            None => check_creation(self.creation, self.stamp)?,
        }
        self.desk.check_deletion()?;
        let topic = self.desk.topic();
        files.remove_topic(topic).await.map_err(|error| crate::files::not_removed(topic, &error))?;
        let deletion = TopicDeletion { by: self.who.clone(), reason: terms.reason };
        rooms.delete(topic, notice(&(terms.id)(0), terms.about, DELETED_METHOD, &deletion)).await?;
        files.remove_topic(topic).await.map_err(|error| crate::files::not_removed(topic, &error))
    }

    /// Whether somebody may moderate here. In a topic without settings nobody has a role.
    pub(crate) fn check_moderation(&self) -> Result<(), Refusal> {
        match self.desk.settings() {
            Some(_) => self.check(&Act::Moderate),
            None if may_moderate(self.stamp) => Ok(()),
            None => check_creation(self.creation, self.stamp),
        }
    }

    fn check(&self, act: &Act<'_>) -> Result<(), Refusal> {
        let authority = Authority::new(self.desk.settings().as_ref(), self.stamp);
        authority.map_or(Ok(()), |authority| authority.check(self.who, act))
    }

    /// The settings that a topic without any begins with: its first owner is the participant that configures it, if it may.
    fn founded(&self) -> Result<TopicSettings, Refusal> {
        check_creation(self.creation, self.stamp)?;
        let members = [(self.who.clone(), RoleName::owner())].into();
        Ok(TopicSettings { members, ..TopicSettings::default() })
    }

    /// Only operators have a topic keep more than the gateway does.
    fn check_retention(&self, before: &TopicSettings, after: &TopicSettings) -> Result<(), Refusal> {
        let is_changed = before.retention != after.retention;
        let is_beyond = before.retention.beyond_gateway || after.retention.beyond_gateway;
        if is_changed && is_beyond && !is_operator(self.stamp) {
            let message =
                "`retention.beyond_gateway`, and retention where it is set, is changed with the permission `operator`";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        Ok(())
    }
}

/// Whether a token says of itself that its owner may moderate.
fn may_moderate(stamp: Option<&Stamp>) -> bool {
    let capabilities = stamp.and_then(Stamp::capabilities).and_then(|list| CapabilitySet::parse(&list).ok());
    capabilities.is_some_and(|allowed| allowed.allows(&Act::Moderate))
}

fn is_operator(stamp: Option<&Stamp>) -> bool {
    let permissions = stamp.map(Stamp::permissions).unwrap_or_default();
    permissions.iter().any(|permission| permission == OPERATOR_PERMISSION)
}

/// Whether a token may make the first settings of a topic.
pub(crate) fn check_creation(creation: TopicCreation, stamp: Option<&Stamp>) -> Result<(), Refusal> {
    let may_manage = || {
        let capabilities = stamp.and_then(Stamp::capabilities)?;
        Some(CapabilitySet::parse(&capabilities).is_ok_and(|allowed| allowed.allows(&Act::Manage)))
    };
    if may_manage() == Some(false) {
        let message = "this needs the capability `manage`, which your token does not have";
        return Err(Refusal::new(Code::Forbidden, message));
    }
    let needed = match creation {
        TopicCreation::Anyone => return Ok(()),
        _ if is_operator(stamp) => return Ok(()),
        TopicCreation::Permitted if may_manage() == Some(true) => return Ok(()),
        TopicCreation::Permitted => "the capability `manage` or the permission `operator`",
        TopicCreation::Operator => "the permission `operator`",
    };
    let message = format!("this topic has no settings, and to make or delete them your token needs {needed}");
    Err(Refusal::new(Code::Forbidden, message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Bytes;
    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use salon_log::files::{FileError, FileId, NewFile, StoredFile};
    use salon_log::sqlite::{Sqlite, SqliteOptions};
    use salon_log::{Durability, FileUpload, ReadError, TopicLog};
    use salon_protocol::{Envelope, Timestamp, TopicName};
    use salon_rooms::{ByteRates, Rate, Settings};

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_token_that_is_limited_to_other_things_makes_no_settings() {
        let may = |creation, permissions: &[&str], capabilities: Option<&[&str]>| {
            let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
            let capabilities = capabilities.map(owned);
            let stamp = Stamp::new(Some("t"), &owned(permissions), capabilities.as_deref());
            check_creation(creation, stamp.as_ref()).is_ok()
        };
        for creation in [TopicCreation::Anyone, TopicCreation::Permitted, TopicCreation::Operator] {
            assert!(!may(creation, &[], Some(&["read"])));
            assert!(!may(creation, &[OPERATOR_PERMISSION], Some(&["read"])));
            assert!(may(creation, &[OPERATOR_PERMISSION], None));
        }
        assert!(may(TopicCreation::Anyone, &[], None));
        assert!(!may(TopicCreation::Permitted, &[], None));
        assert!(may(TopicCreation::Permitted, &[], Some(&["manage"])));
        assert!(!may(TopicCreation::Operator, &[], Some(&["manage"])));
    }

    /// Notes at each removal whether the topic is still there.
    struct OrderedFiles {
        log: Arc<Sqlite>,
        topic_was_there: Arc<Mutex<Vec<bool>>>,
    }

    impl FileStore for OrderedFiles {
        fn begin(&self, file: NewFile) -> BoxFuture<'static, Result<Box<dyn FileUpload>, FileError>> {
            self.log.begin(file)
        }
        fn find(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<Option<StoredFile>, ReadError>> {
            FileStore::find(&*self.log, topic, id)
        }
        fn read(&self, topic: &TopicName, id: &FileId, offset: u64) -> BoxFuture<'static, Result<Bytes, ReadError>> {
            FileStore::read(&*self.log, topic, id, offset)
        }
        fn list(&self) -> BoxFuture<'static, Result<Vec<StoredFile>, ReadError>> {
            FileStore::list(&*self.log)
        }
        fn remove(&self, topic: &TopicName, id: &FileId) -> BoxFuture<'static, Result<(), FileError>> {
            self.log.remove(topic, id)
        }
        fn remove_topic(&self, topic: &TopicName) -> BoxFuture<'static, Result<(), FileError>> {
            let (log, noted, topic) = (self.log.clone(), self.topic_was_there.clone(), topic.clone());
            Box::pin(async move {
                let topics = log.topics().await.expect("listed");
                noted.lock().push(topics.iter().any(|known| known.name == topic));
                log.remove_topic(&topic).await
            })
        }
    }

    /// Rooms over a log, as a gateway has them.
    fn rooms_over(log: &Arc<Sqlite>) -> Rooms {
        let settings = Settings {
            ring: 1 << 20,
            rings: 1 << 20,
            rate: Rate::UNLIMITED,
            byte_rates: ByteRates::UNLIMITED,
            bridges: salon_rooms::BridgeSettings::default(),
            participants: 0,
            rooms: 0,
            rooms_each: 0,
            grace: std::time::Duration::from_secs(600),
            leaves: [7; 16],
            witness: None,
            timings: salon_rooms::Timings::default(),
        };
        Rooms::new(log.clone(), settings, Box::new(|_| Box::pin(std::future::pending())))
    }

    fn alice() -> ParticipantId {
        ParticipantId::new("alice").expect("an id")
    }

    fn topic() -> TopicName {
        TopicName::new("room:a").expect("a topic")
    }

    /// Says something in the topic, and puts a file there.
    async fn use_topic(log: &Sqlite, number: u8) {
        let said = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e{number}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"x"}}}}"#
        );
        log.append(&topic(), Envelope::restore(said).expect("an envelope")).await.expect("stored");
        put_file(log, number).await;
    }

    async fn put_file(log: &Sqlite, number: u8) {
        let file = NewFile {
            id: FileId::from_bytes([number; 16]),
            topic: topic(),
            name: "plan.txt".parse().expect("a name"),
            mime_type: "text/plain".into(),
            author: alice(),
            created: Timestamp(0),
        };
        log.begin(file).await.expect("begun").finish(String::new()).await.expect("stored");
    }

    async fn delete(rooms: &Rooms, desk: &HostAccess, files: &dyn FileStore) -> Result<(), Refusal> {
        let control = TopicControl { desk, creation: TopicCreation::Anyone, who: &alice(), stamp: None };
        let id = |_| EnvelopeId::new("d1").expect("an id");
        control.delete(rooms, files, NoticeTerms { id: &id, about: None, reason: None }).await
    }

    /// Wherever a deletion ends, a later topic of that name has no old files: they go before the topic does.
    #[tokio::test]
    async fn files_go_before_their_topic_and_once_more_after_it() {
        let options = SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() };
        let log = Arc::new(Sqlite::temporary(options).expect("a temporary log"));
        let rooms = rooms_over(&log);
        use_topic(&log, 1).await;
        let files = OrderedFiles { log: log.clone(), topic_was_there: Arc::default() };
        let desk = rooms.desk(&topic(), &alice()).await.expect("a desk");
        delete(&rooms, &desk, &files).await.expect("deleted");
        assert_eq!(*files.topic_was_there.lock(), [true, false]);
        assert_eq!(FileStore::list(&*log).await, Ok(Vec::new()));
        // There is nothing left to delete. The file is of an upload that the deletion has met in the middle, or of another topic of this name.
        put_file(&log, 2).await;
        let refused = delete(&rooms, &desk, &files).await.expect_err("deleted already");
        assert_eq!(refused.code, Code::NotFound);
        assert_eq!(FileStore::list(&*log).await.expect("listed").len(), 1, "a refused deletion has removed a file");
        drop(desk);
        rooms.close().await;
    }

    #[tokio::test]
    async fn a_deletion_that_the_log_refuses_removes_no_file() {
        let scratch = Scratch::new();
        let options = SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() };
        let log = Sqlite::open(scratch.path(), options.clone()).expect("a log");
        use_topic(&log, 1).await;
        log.close().await;
        drop(log);
        // The log can only be read: no disk has so much room.
        let log = Sqlite::open(scratch.path(), SqliteOptions { disk_reserve: u64::MAX, ..options }).expect("a log");
        let log = Arc::new(log);
        let rooms = rooms_over(&log);
        let desk = rooms.desk(&topic(), &alice()).await.expect("a desk");
        let refused = delete(&rooms, &desk, &*log).await.expect_err("not stored");
        assert_eq!(refused.code, Code::Closing);
        assert_eq!(FileStore::list(&*log).await.expect("listed").len(), 1, "a refused deletion has removed a file");
        drop(desk);
        rooms.close().await;
    }
}

//! How streams and buckets are laid out, and how those that an earlier version has made become like those of this one.
//!
//! A stream names its layout in its metadata. One of an earlier layout is migrated when the log is opened, by updating its settings. One of a
//! later layout is refused. One of this layout that has other settings was changed by hand, and is refused, too, so that nobody loses
//! entries by it.
//!
//! A change of a setting here raises [`LAYOUT`]. Gateways of both versions then run side by side until those of the earlier one are
//! restarted; a gateway of the earlier version does not start any more.

use std::time::{Duration, SystemTime};

use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, StorageType};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::bucket::Bucket;
use super::context;
use super::fault::NatsFault;
use super::link::NatsLink;
use super::names::StreamNames;
use super::open::{OpenError, patiently};
use super::reader::{FIRST_ANSWER, described};
use super::timings::Timings;
use crate::cluster::Keyspace;

/// The layout that this program makes. Salon 0.1 made streams that name none: theirs is 0. Up to layout 1 a topic had a stream of its own.
pub(super) const LAYOUT: u32 = 2;
/// The bucket with what topics and shards add up to.
pub(super) const FOLDS: &str = "folds";
/// Where a stream's metadata has its layout.
const LAYOUT_KEY: &str = "salon-layout";
/// How long the server remembers message ids. None are sent: what is doubled is known by its subject, for as long as it is kept.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
/// How many streams are made at once.
const MAX_MAKING: usize = 8;

/// How everything is made that is there from the beginning, but for the record's bucket.
pub(super) fn streams(names: &StreamNames, timings: &Timings, replicas: usize, shards: u16) -> Vec<Config> {
    let bucket = |purpose, age| Bucket::new(names, purpose).config(replicas, age);
    let others = [
        context::config(names.context(), replicas),
        bucket(FOLDS, Duration::ZERO),
        bucket("seats", Duration::ZERO),
        bucket("nodes", timings.lease),
    ];
    others.into_iter().chain((0..shards).map(|number| shard(names, number, replicas))).collect()
}

/// How the buckets of keyspaces are made.
pub(super) fn keyspaces(names: &StreamNames, replicas: usize, spaces: &[Keyspace]) -> Vec<Config> {
    spaces.iter().map(|space| Bucket::new(names, space.name).config(replicas, space.time_to_live)).collect()
}

/// How the stream of a shard is made.
fn shard(names: &StreamNames, number: u16, replicas: usize) -> Config {
    // Positions in a stream of this name that was removed are all before those of a later one.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
    Config {
        name: names.shard(number),
        subjects: vec![names.shard_subjects(number)],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: replicas,
        duplicate_window: DUPLICATE_WINDOW,
        // Messages that were redacted are erased ([`super::redact`]).
        deny_delete: false,
        allow_direct: true,
        // Marks replace those before them, and may expire ([`super::mark`]).
        allow_rollup: true,
        allow_message_ttl: true,
        first_sequence: Some(u64::try_from(now).unwrap_or(1).max(1)),
        ..Config::default()
    }
}

/// Makes streams, some at a time.
pub(super) async fn make_all(link: &NatsLink, configs: Vec<Config>) -> Result<(), OpenError> {
    let made = stream::iter(configs).map(|config| async move { make(link, config).await.map(drop) });
    made.buffer_unordered(MAX_MAKING).try_collect().await
}

/// Which layout a stream is of.
fn layout_of(config: &Config) -> u32 {
    // One that cannot be read is nobody's of ours, and is refused as a later one.
    config.metadata.get(LAYOUT_KEY).map_or(0, |layout| layout.parse().unwrap_or(u32::MAX))
}

/// Makes a stream, or finds it and sees that it is as it must be.
pub(super) async fn make(link: &NatsLink, mut config: Config) -> Result<Info, OpenError> {
    config.metadata.insert(LAYOUT_KEY.into(), LAYOUT.to_string());
    let asked = &config;
    // A request for a stream that another node is making at that moment may never be answered, so the first wait is short.
    let mut wait = FIRST_ANSWER;
    let made = patiently(link, || {
        let made = tokio::time::timeout(wait, link.ask::<Info>(format!("STREAM.CREATE.{}", asked.name), asked));
        wait = link.timings.answer_timeout.min(2 * wait);
        async {
            let refused = match made.await.unwrap_or_else(|_| Err(NatsFault::unavailable("nobody answers"))) {
                Err(refused @ (NatsFault::Raced | NatsFault::Refused(_))) => refused,
                made => return made,
            };
            // One of that name with other settings, if only its first sequence.
            match described(link, &asked.name, || true).await {
                Err(NatsFault::Missing) if refused == NatsFault::Raced => {
                    Err(NatsFault::unavailable("another node is making it"))
                }
                Err(NatsFault::Missing) => Err(refused),
                found => found,
            }
        }
    });
    let info = made.await.map_err(|fault| match fault {
        NatsFault::Unavailable(why) => OpenError::Unavailable(why.to_string()),
        fault => OpenError::Refused { what: config.name.clone(), why: fault.to_string() },
    })?;
    settle(link, &config, info).await
}

/// Makes the bucket of a keyspace, or finds it. For how long its values are kept is the gateway's to say, in every version of it.
pub(super) async fn make_keyspace(link: &NatsLink, config: Config) -> Result<(), OpenError> {
    match found(link, &config).await? {
        Some(found) if found.config.max_age != config.max_age => {
            compare_keyspace(&config, &found.config)?;
            migrate(link, &config, &found.config).await.map(drop)
        }
        _ => make(link, config).await.map(drop),
    }
}

/// A stream, if it is there.
pub(super) async fn found(link: &NatsLink, wanted: &Config) -> Result<Option<Info>, OpenError> {
    match patiently(link, || link.info(&wanted.name)).await {
        Ok(info) => Ok(Some(info)),
        Err(NatsFault::Missing) => Ok(None),
        Err(fault) => Err(OpenError::Unavailable(fault.to_string())),
    }
}

/// Sees that a stream is as this layout has it, which one of an earlier layout becomes.
async fn settle(link: &NatsLink, wanted: &Config, found: Info) -> Result<Info, OpenError> {
    compare(wanted, &found.config)?;
    if layout_of(&found.config) == LAYOUT { Ok(found) } else { migrate(link, wanted, &found.config).await }
}

/// Whether a stream is as this layout has it, or can be migrated to it.
pub(super) fn compare(wanted: &Config, found: &Config) -> Result<(), OpenError> {
    let stream = || wanted.name.clone();
    match layout_of(found) {
        layout if layout > LAYOUT => Err(OpenError::NewerLayout { stream: stream(), found: layout }),
        layout if layout < LAYOUT => Ok(()),
        _ => match differences(wanted, found) {
            what if what.is_empty() => Ok(()),
            what => Err(OpenError::Settings { stream: stream(), what: what.join("; ") }),
        },
    }
}

/// The same for the bucket of a keyspace, whatever time its values are kept for.
pub(super) fn compare_keyspace(wanted: &Config, found: &Config) -> Result<(), OpenError> {
    compare(&Config { max_age: found.max_age, ..wanted.clone() }, found)
}

/// Gives a stream the settings of this layout. What this layout says nothing of stays: a description, a placement, compression.
async fn migrate(link: &NatsLink, wanted: &Config, found: &Config) -> Result<Info, OpenError> {
    let failed = |why: String| OpenError::Migration { stream: wanted.name.clone(), why };
    let mut config = Config {
        subjects: wanted.subjects.clone(),
        num_replicas: wanted.num_replicas,
        retention: wanted.retention,
        storage: wanted.storage,
        max_age: wanted.max_age,
        max_messages: wanted.max_messages,
        max_bytes: wanted.max_bytes,
        max_messages_per_subject: wanted.max_messages_per_subject,
        // A server does not take back that deletes are denied.
        deny_delete: wanted.deny_delete || found.deny_delete,
        deny_purge: wanted.deny_purge,
        allow_direct: wanted.allow_direct,
        allow_rollup: wanted.allow_rollup,
        allow_message_ttl: wanted.allow_message_ttl,
        discard: wanted.discard,
        max_message_size: wanted.max_message_size,
        max_consumers: wanted.max_consumers,
        ..found.clone()
    };
    // The server chooses a window where none is asked for, and takes none that is longer than what it keeps.
    config.duplicate_window = match wanted.duplicate_window {
        Duration::ZERO if wanted.max_age > Duration::ZERO => found.duplicate_window.min(wanted.max_age),
        Duration::ZERO => found.duplicate_window,
        window => window,
    };
    config.metadata.extend(wanted.metadata.clone());
    config.metadata.insert(LAYOUT_KEY.into(), LAYOUT.to_string());
    let updated = patiently(link, || link.ask::<Info>(format!("STREAM.UPDATE.{}", config.name), &config));
    let updated = updated.await.map_err(|fault| failed(fault.to_string()))?;
    match differences(wanted, &updated.config) {
        what if what.is_empty() => {}
        what => return Err(failed(what.join("; "))),
    }
    tracing::info!(stream = wanted.name, from = layout_of(found), to = LAYOUT, "nats: stream migrated");
    Ok(updated)
}

/// Where a stream is not as it would be made, of what matters.
fn differences(wanted: &Config, found: &Config) -> Vec<String> {
    let mut told = Vec::new();
    let mut compare = |name: &str, wanted: String, found: String| {
        if wanted != found {
            told.push(format!("`{name}` is {found} and must be {wanted}"));
        }
    };
    let unlimited = |limit: i64| limit.max(0).to_string();
    compare("subjects", wanted.subjects.join(" "), found.subjects.join(" "));
    compare("num_replicas", wanted.num_replicas.to_string(), found.num_replicas.to_string());
    compare("retention", format!("{:?}", wanted.retention), format!("{:?}", found.retention));
    compare("storage", format!("{:?}", wanted.storage), format!("{:?}", found.storage));
    compare("max_age", format!("{:?}", wanted.max_age), format!("{:?}", found.max_age));
    compare("max_msgs", unlimited(wanted.max_messages), unlimited(found.max_messages));
    compare("max_bytes", unlimited(wanted.max_bytes), unlimited(found.max_bytes));
    let per_subject = |config: &Config| unlimited(config.max_messages_per_subject);
    compare("max_msgs_per_subject", per_subject(wanted), per_subject(found));
    if wanted.deny_delete {
        compare("deny_delete", true.to_string(), found.deny_delete.to_string());
    }
    compare("deny_purge", wanted.deny_purge.to_string(), found.deny_purge.to_string());
    compare("allow_direct", wanted.allow_direct.to_string(), found.allow_direct.to_string());
    compare("allow_rollup_hdrs", wanted.allow_rollup.to_string(), found.allow_rollup.to_string());
    compare("allow_msg_ttl", wanted.allow_message_ttl.to_string(), found.allow_message_ttl.to_string());
    compare("discard", format!("{:?}", wanted.discard), format!("{:?}", found.discard));
    compare("sealed", wanted.sealed.to_string(), found.sealed.to_string());
    compare("no_ack", wanted.no_ack.to_string(), found.no_ack.to_string());
    let longest = |config: &Config| unlimited(config.max_message_size.into());
    compare("max_msg_size", longest(wanted), longest(found));
    let consumers = |config: &Config| unlimited(config.max_consumers.into());
    compare("max_consumers", consumers(wanted), consumers(found));
    let is_copy = |config: &Config| config.mirror.is_some() || config.sources.iter().any(|all| !all.is_empty());
    compare("mirror or sources", is_copy(wanted).to_string(), is_copy(found).to_string());
    let changes = |config: &Config| config.subject_transform.is_some().to_string();
    compare("subject_transform", changes(wanted), changes(found));
    let is_late = |config: &Config| matches!(config.persist_mode, Some(PersistenceMode::Async)).to_string();
    compare("persist_mode async", is_late(wanted), is_late(found));
    if wanted.duplicate_window > Duration::ZERO {
        let window = |config: &Config| format!("{:?}", config.duplicate_window);
        compare("duplicate_window", window(wanted), window(found));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every setting of layout 2 that is not the server's own choice, but for subjects and replicas.
    const SETTINGS: &str = "\
        KV_salon-meta max_msgs_per_subject=1 deny_delete=true allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true discard=New
        salon-context max_msgs_per_subject=100 deny_delete=true allow_direct=true
        KV_salon-folds max_msgs_per_subject=1 deny_delete=true allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true discard=New
        KV_salon-seats max_msgs_per_subject=1 deny_delete=true allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true discard=New
        KV_salon-nodes max_age=10s max_msgs_per_subject=1 deny_delete=true allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true discard=New
        salon-shard-0 allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true duplicate_window=120s
        KV_salon-space max_age=30s max_msgs_per_subject=1 deny_delete=true allow_direct=true allow_rollup_hdrs=true allow_msg_ttl=true discard=New";

    /// The settings of a stream that are not the server's own choice.
    fn settings(config: &Config) -> String {
        let plain =
            Config { subjects: config.subjects.clone(), num_replicas: config.num_replicas, ..Config::default() };
        let mut told = config.name.clone();
        for difference in differences(config, &plain) {
            let (name, values) = difference.split_once(" is ").expect("a name");
            let (_, value) = values.split_once(" and must be ").expect("a value");
            told = format!("{told} {}={value}", name.trim_matches('`'));
        }
        told
    }

    #[test]
    fn other_settings_are_another_layout() {
        let names = StreamNames::new("salon").expect("a name");
        let space = Keyspace { name: "space", time_to_live: Duration::from_secs(30) };
        let mut all = vec![Bucket::new(&names, "meta").config(1, Duration::ZERO)];
        all.extend(streams(&names, &Timings::NORMAL, 1, 1).into_iter().chain(keyspaces(&names, 1, &[space])));
        let found: Vec<_> = all.iter().map(settings).collect();
        let expected: Vec<_> = SETTINGS.lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!((LAYOUT, found), (2, expected), "a setting was changed: raise LAYOUT");
    }

    #[test]
    fn a_stream_is_of_the_layout_that_it_names() {
        let with = |layout: Option<&str>| {
            let metadata = layout.map(|layout| (LAYOUT_KEY.to_owned(), layout.to_owned())).into_iter().collect();
            Config { metadata, ..Config::default() }
        };
        let layouts = [None, Some("0"), Some("1"), Some("7"), Some("one")].map(|layout| layout_of(&with(layout)));
        assert_eq!(layouts, [0, 0, 1, 7, u32::MAX]);
        let wanted = Config { max_messages: 5, ..with(Some("2")) };
        assert!(compare(&wanted, &with(None)).is_ok(), "it is migrated");
        let told = |found: &Config| compare(&wanted, found).expect_err("refused").to_string();
        assert_eq!(told(&with(Some("2"))), "the stream `` was changed: `max_msgs` is 0 and must be 5");
        assert_eq!(told(&with(Some("3"))), "the stream `` has the layout 3, and this program knows layouts up to 2");
    }
}

//! Migrating a log in which every topic has a stream of its own, as Salon 0.1 made it.

use std::time::Duration;

use libtest_mimic::Trial;
use salon_log::nats::{MigrateError, MigrationTotals, Nats, NatsOptions};
use salon_log::transfer::{TransferError, TransferTotals};
use salon_log::{Span, TopicLog};
use salon_protocol::{Envelope, Timestamp};
use salon_testkit::nats::{NatsServers, OldLog, topic_token};
use salon_testkit::nats_trials;
use serde_json::json;

use crate::props::{envelope, ids, line, options, presence, topic};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        a_log_of_an_earlier_layout_is_migrated,
        a_migration_that_was_interrupted_goes_on,
        a_log_in_use_is_not_migrated,
        what_a_late_gateway_writes_is_refused_or_copied,
        what_was_left_is_copied_before_it_is_deleted,
    ]
}

/// The lease of the old log: that of the options here.
const LEASE: Duration = Duration::from_secs(2);

/// An answer to a call that nobody made: the log counts it for nothing.
fn stray_answer(id: &str) -> Envelope {
    let rest = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let text = envelope(id, "bob", "mcp", rest).text().replace(r#""kind""#, r#""correlation_id":"r9","kind""#);
    Envelope::restore(text).expect("an envelope")
}

async fn refusal(options: NatsOptions) -> String {
    match Nats::open(options).await {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string(),
    }
}

async fn a_log_of_an_earlier_layout_is_migrated() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let old = OldLog::create(&servers, "", LEASE).await;
    let lines: Vec<_> = (0..600).map(|n| line(&format!("e{n}"))).collect();
    let stream = old.topic("room:a", &[&[presence("join")], &lines[..]].concat()).await;
    old.topic("room:b", &[line("b1"), stray_answer("b2"), line("b3")]).await;
    old.topic("room:empty", &[]).await;
    // One was redacted: it is erased, and two records stand for it.
    let told = old.ask(&format!("STREAM.MSG.GET.{stream}"), &json!({ "seq": 1003 })).await;
    let subject = told["message"]["subject"].as_str().expect("a subject").to_owned();
    let tombstone = line("e2").text().replace("\"e2\"}", "\"gone\"}");
    let record = "Salon-Redacted: 1003 1700000000000\r\n";
    for subject in [subject.clone(), subject.replace(subject.rsplit('.').next().expect("a token"), "hole-1003")] {
        old.publish(&subject, record, &tombstone).await;
    }
    old.ask(&format!("STREAM.MSG.DELETE.{stream}"), &json!({ "seq": 1003 })).await;

    let told = refusal(options(&servers)).await;
    assert!(
        told.contains("has a stream for each topic, as Salon 0.1 made it") && told.contains("`salon log migrate`"),
        "{told}"
    );
    let looked = Nats::look(&options(&servers)).await.expect_err("it is old").to_string();
    assert_eq!(looked, told, "a look says what a start would");

    let migrated = Nats::migrate(options(&servers), |_, _| true).await.expect("migrated");
    let topics = TransferTotals { topics: 2, entries: 602, copied: 602 };
    assert_eq!(migrated, MigrationTotals { topics, deleted: 3, is_leftover: false });
    let left = old.streams().await;
    assert!(!left.iter().any(|name| name.contains("room") || name.contains("standing")), "{left:?}");
    let log = Nats::open(options(&servers)).await.expect("it has the new layout");
    let topics = log.topics().await.expect("a list");
    let listed: Vec<_> = topics.iter().map(|topic| (topic.name.as_str(), topic.entries)).collect();
    assert_eq!(listed, [("room:a", 600), ("room:b", 2)]);
    let found = log.read(&topic("room:a"), Span::Newest, 1000).await.expect("a read");
    assert_eq!(ids(&found), (0..600).map(|n| format!("e{n}")).collect::<Vec<_>>());
    assert_eq!((found[2].envelope.text(), found[2].arrived), (&*tombstone, Timestamp(1_700_000_000_000)));
    assert_eq!(ids(&log.read(&topic("room:b"), Span::Newest, 10).await.expect("a read")), ["b1", "b3"]);
    let again = log.append(&topic("room:a"), line("e7")).await.expect("the same again");
    assert!(again.repeated);
    log.close().await;
    let again = Nats::migrate(options(&servers), |_, _| true).await;
    assert!(matches!(again, Err(MigrateError::NotNeeded(_))), "{again:?}");
}

async fn a_migration_that_was_interrupted_goes_on() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let old = OldLog::create(&servers, "", LEASE).await;
    let lines: Vec<_> = (0..600).map(|n| line(&format!("e{n}"))).collect();
    old.topic("room:a", &lines).await;
    let cancelled = Nats::migrate(options(&servers), |done, _| done < 300).await;
    assert!(matches!(cancelled, Err(MigrateError::Transfer(TransferError::Cancelled))), "{cancelled:?}");
    // No gateway opens what is only half copied, and nothing of it is lost.
    let told = refusal(options(&servers)).await;
    assert!(told.contains("`salon log migrate`"), "{told}");
    let TransferTotals { topics, entries, copied } =
        Nats::migrate(options(&servers), |_, _| true).await.expect("migrated").topics;
    assert_eq!((topics, entries), (1, 600));
    assert!((1..600).contains(&copied), "{copied} entries were copied by the second");
    let log = Nats::open(options(&servers)).await.expect("it has the new layout");
    let found = log.read(&topic("room:a"), Span::Newest, 1000).await.expect("a read");
    assert_eq!(ids(&found), (0..600).map(|n| format!("e{n}")).collect::<Vec<_>>());
    log.close().await;
}

async fn a_log_in_use_is_not_migrated() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let old = OldLog::create(&servers, "", LEASE).await;
    old.topic("room:a", &[line("e1")]).await;
    old.publish("$KV.salon-nodes.somebody", "", "").await;
    let refused = Nats::migrate(options(&servers), |_, _| true).await.expect_err("a gateway is there").to_string();
    assert_eq!(refused, "the log `salon` is in use by a gateway, or was until a moment ago");
    assert!(old.streams().await.iter().any(|name| name.starts_with("salon-room-")), "its topics are gone");
}

/// Does something while the caller waits, without the runtime of the caller.
fn meanwhile(work: impl Future<Output = ()> + Send) {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work);
    std::thread::scope(|scope| scope.spawn(run).join().expect("done"));
}

async fn what_a_late_gateway_writes_is_refused_or_copied() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let old = OldLog::create(&servers, "", LEASE).await;
    let a = old.topic("room:a", &[line("a1")]).await;
    let b = old.topic("room:b", &[line("b1")]).await;
    let mut is_first = true;
    let migrated = Nats::migrate(options(&servers), |_, _| {
        if std::mem::take(&mut is_first) {
            meanwhile(async {
                let before = old.newest(&a).await;
                old.store("room:a", &line("a2")).await;
                assert_eq!(old.newest(&a).await, before, "it is stored in a stream that is being copied");
                // A gateway that makes its streams anew, and a topic that was not there.
                old.change(&b, &format!("salon.room.{}.*", topic_token("room:b")), None).await;
                old.store("room:b", &line("b2")).await;
                old.topic("room:late", &[line("c1")]).await;
            });
        }
        true
    });
    let migrated = migrated.await.expect("migrated");
    assert_eq!((migrated.topics.topics, migrated.topics.entries, migrated.deleted), (3, 4, 3));
    let log = Nats::open(options(&servers)).await.expect("it has the new layout");
    for (name, expected) in [("room:a", &["a1"][..]), ("room:b", &["b1", "b2"]), ("room:late", &["c1"])] {
        assert_eq!(ids(&log.read(&topic(name), Span::Newest, 10).await.expect("a read")), expected, "{name}");
    }
    log.close().await;
}

async fn what_was_left_is_copied_before_it_is_deleted() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let old = OldLog::create(&servers, "", LEASE).await;
    old.topic("room:a", &[line("a1")]).await;
    Nats::migrate(options(&servers), |_, _| true).await.expect("migrated");
    // One that nobody has compared, one that has grown since, and one that only was not deleted.
    old.topic("room:b", &[line("b1"), line("b2")]).await;
    for (name, lines, copied) in [("room:c", ["c1", "c2"], 1000), ("room:d", ["d1", "d2"], 1001)] {
        let stream = old.topic(name, &lines.map(line)).await;
        old.change(&stream, &format!("salon.closed.{}", topic_token(name)), Some(copied)).await;
    }
    let migrated = Nats::migrate(options(&servers), |_, _| true).await.expect("migrated");
    let topics = TransferTotals { topics: 2, entries: 4, copied: 4 };
    assert_eq!(migrated, MigrationTotals { topics, deleted: 3, is_leftover: true });
    let left = old.streams().await;
    assert!(!left.iter().any(|name| name.contains("room")), "{left:?}");
    let log = Nats::open(options(&servers)).await.expect("it has the new layout");
    for (name, expected) in [("room:a", &["a1"][..]), ("room:b", &["b1", "b2"]), ("room:c", &["c1", "c2"])] {
        assert_eq!(ids(&log.read(&topic(name), Span::Newest, 10).await.expect("a read")), expected, "{name}");
    }
    log.close().await;
    let again = Nats::migrate(options(&servers), |_, _| true).await;
    assert!(matches!(again, Err(MigrateError::NotNeeded(_))), "{again:?}");
}

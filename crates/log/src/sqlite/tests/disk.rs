//! A disk that is full, or nearly.

use bytes::Bytes;
use salon_protocol::Timestamp;

use super::*;
use crate::FileStore;
use crate::files::{FileError, FileId, NewFile};

#[tokio::test]
async fn a_full_disk_stops_contexts_and_entries_alike() {
    let directory = directory();
    let long = "x".repeat(60_000);
    let mut acknowledged = 0;
    {
        let options = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
        let log = Sqlite::open(&directory.0, options).expect("a new log");
        let writes: Vec<_> = (1..=90)
            .map(|n| {
                let (mode, write) = writing("mode", &format!("{long}{n}"), &n.to_string());
                log.write(mode, write)
            })
            .collect();
        let mut refused = 0;
        for write in writes {
            match write.await {
                Ok(written) => {
                    assert_eq!(refused, 0, "something was acknowledged after something was refused");
                    acknowledged = written.version;
                }
                Err(error) => {
                    assert_eq!(error, WriteError::Stopped("the disk is full".into()));
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "the disk was not full");
        let late = log.append(&topic("room"), line("late", "alice", "hello")).await.map(|appended| appended.entry);
        assert_eq!(late, Err(AppendError::Stopped("the disk is full".into())));
    }
    let log = Sqlite::open(&directory.0, quick()).expect("a log on a disk with room");
    let (mode, _) = writing("mode", "", "");
    let newest = log.get(&mode, None).await.expect("a read").map_or(0, |version| version.number);
    assert_eq!(newest, acknowledged, "exactly what was acknowledged is there");
}

#[tokio::test]
async fn a_full_disk_stops_the_log_and_keeps_what_was_acknowledged() {
    let directory = directory();
    let room = topic("room");
    let mut acknowledged = Vec::new();
    {
        let options = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
        let log = Sqlite::open(&directory.0, options).expect("a new log");
        let mut health = log.health();
        let long = "x".repeat(1000);
        let appends: Vec<_> = (0..2000).map(|n| log.append(&room, line(&format!("e{n}"), "alice", &long))).collect();
        let mut refused = 0;
        for append in appends {
            match append.await {
                Ok(appended) => {
                    assert_eq!(refused, 0, "something was acknowledged after something was refused");
                    acknowledged.push(appended.entry);
                }
                Err(error) => {
                    assert_eq!(error, AppendError::Stopped("the disk is full".into()));
                    refused += 1;
                }
            }
            if acknowledged.len() == 300 {
                log.trim_now().await;
            }
        }
        assert!(refused > 0, "the disk was not full");
        let stopped = LogHealth::Stopped("the disk is full".into());
        assert_eq!(*health.wait_for(|health| *health != LogHealth::Writable).await.expect("the log is open"), stopped);
        let late = log.append(&room, line("late", "alice", "hello")).await.map(|appended| appended.entry);
        assert_eq!(late, Err(AppendError::Stopped("the disk is full".into())));
        let read = TopicLog::read(&log, &room, Span::Newest, 5000).await.expect("what is there can still be read");
        assert_eq!(ids(&read), ids(&acknowledged));
        log.trim_now().await;
        log.close().await;
    }
    let log = Sqlite::open(&directory.0, quick()).expect("a log on a disk with room");
    let read = TopicLog::read(&log, &room, Span::Newest, 5000).await.expect("a read");
    assert_eq!(ids(&read), ids(&acknowledged), "exactly what was acknowledged is there");
    append(&log, &room, line("late", "alice", "hello")).await;
}

/// Below the reserve nothing is stored, everything can be read, and it goes on by itself once there is room.
#[tokio::test]
async fn a_disk_that_is_nearly_full_makes_the_log_read_only() {
    let free = Arc::new(AtomicU64::new(1 << 30));
    let options = SqliteOptions { disk_reserve: 1 << 20, free_space: Some(free.clone()), ..quick() };
    let log = Sqlite::temporary(options).expect("a log");
    let mut health = log.health();
    let topic = topic("room:a");
    log.append(&topic, line("e1", "alice", "hello")).await.expect("there is room");
    let (key, first) = writing("mode", "first", "w1");
    log.write(key.clone(), first).await.expect("there is room");
    let file = |number: u8| NewFile {
        id: FileId::from_bytes([number; 16]),
        topic: topic.clone(),
        name: "a.txt".parse().expect("a name"),
        mime_type: "text/plain".into(),
        author: ParticipantId::new("alice").expect("an id"),
        created: Timestamp(1_000),
    };
    let mut upload = log.begin(file(1)).await.expect("there is room");
    upload.write(Bytes::from_static(b"whole")).await.expect("there is room");
    upload.finish("00ff".repeat(16)).await.expect("there is room");

    free.store(1 << 19, Ordering::SeqCst);
    let refused = log.append(&topic, line("e2", "alice", "hello")).await.expect_err("too little is left");
    assert!(matches!(&refused, AppendError::ReadOnly(reason) if reason.contains("524288 bytes left")), "{refused:?}");
    drop(health.wait_for(|health| matches!(health, LogHealth::ReadOnly(_))).await.expect("the log is open"));
    let kept = TopicLog::read(&log, &topic, Span::Newest, 10).await.expect("it can be read");
    assert_eq!(ids(&kept), ["e1"], "what was refused was not stored");

    // Contexts and files are refused alike, and what is there of them can be read.
    let (_, second) = writing("mode", "second", "w2");
    let refused = log.write(key.clone(), second).await.map(drop).expect_err("too little is left");
    assert!(matches!(&refused, WriteError::ReadOnly(reason) if reason.contains("524288 bytes left")), "{refused:?}");
    let kept = log.get(&key, None).await.expect("it can be read").expect("a version");
    assert_eq!(kept.value.as_deref(), Some("first"));
    let refused = log.begin(file(2)).await.map(drop).expect_err("too little is left");
    assert!(matches!(&refused, FileError::Unavailable(reason) if reason.contains("524288 bytes left")), "{refused:?}");
    let bytes = FileStore::read(&log, &topic, &file(1).id, 0).await.expect("it can be read");
    assert_eq!(&*bytes, b"whole");

    free.store((1 << 20) + 1, Ordering::SeqCst);
    assert!(
        log.append(&topic, line("early", "alice", "hello")).await.is_err(),
        "a little more than the reserve is wanted"
    );
    free.store(1 << 21, Ordering::SeqCst);
    drop(health.wait_for(|health| *health == LogHealth::Writable).await.expect("the log is open"));
    log.append(&topic, line("late", "alice", "hello")).await.expect("there is room again");
    drop(log.begin(file(3)).await.expect("there is room again"));
}

/// A gateway that starts on a full disk says so at once.
#[tokio::test]
async fn a_log_that_is_opened_on_a_full_disk_is_read_only() {
    let options = SqliteOptions { disk_reserve: 1 << 20, free_space: Some(Arc::new(AtomicU64::new(0))), ..quick() };
    let log = Sqlite::temporary(options).expect("a log");
    assert!(matches!(&*log.health().borrow(), LogHealth::ReadOnly(_)));
}

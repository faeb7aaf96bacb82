//! Tails, and the lines that feed them.

use super::*;

#[tokio::test]
async fn a_tail_that_fell_out_of_its_line_reads_and_rejoins() {
    let log = Sqlite::temporary(quick()).expect("a temporary log");
    let room = topic("room");
    let mut tail = log.tail(&room, start(&log, &room).await);
    let long = "x".repeat(1 << 20);
    // The tail is live when these come, and is asked for none of them: their bytes do not fit its line.
    append_lines(&log, &room, 0..1).await;
    follow(&mut tail, 1).await;
    caught_up(&mut tail);
    for n in 1..9 {
        append(&log, &room, line(&format!("e{n}"), "alice", &long)).await;
    }
    log.trim_now().await;
    let Some(Ok(Tailed::Entries(page))) = tail.next().await else { panic!("a tail goes on") };
    assert!(page.len() < 8, "a page is bounded by its bytes");
    let rest = follow(&mut tail, 8 - page.len()).await;
    assert_eq!(ids(page.iter().chain(&rest)), (1..9).map(|n| format!("e{n}")).collect::<Vec<_>>());
    append_lines(&log, &room, 9..12).await;
    assert_eq!(ids(&follow(&mut tail, 3).await), ["e9", "e10", "e11"]);
}

#[tokio::test]
async fn dropping_a_tail_frees_its_line() {
    let log = Sqlite::temporary(quick()).expect("a temporary log");
    let room = topic("room");
    let begin = start(&log, &room).await;
    let tails: Vec<_> = (0..3).map(|_| log.tail(&room, begin)).collect();
    assert_eq!(log.source.hub.count(&room), 3);
    drop(tails);
    assert_eq!(log.source.hub.count(&room), 0);
}

use std::path::Path;

use salon_log::TopicLog;
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_protocol::{Envelope, TopicName};
use salon_testkit::crash::{CrashPlan, grace};
use salon_testkit::run;

use crate::killed_approval::{HeldCall, TOPIC};
use crate::salon::{BINARY, Home, Signal};

#[test]
fn whatever_anybody_saw_survives_twenty_kills() {
    run(CrashPlan::random().run(Path::new(BINARY))).expect("nothing is lost, doubled or out of order");
}

#[test]
fn participants_have_time_to_come_back_after_a_crash() {
    run(grace(Path::new(BINARY))).expect("nobody leaves who comes back, and the others do");
}

#[test]
fn a_gateway_killed_between_an_approval_and_its_call_stores_the_call_once() {
    run(async {
        let home = Home::new();
        let running = home.serve("").await;
        let held = HeldCall::begin(&home, &running).await;
        running.signal(Signal::KILL);
        running.end().await;
        // What a gateway leaves that is killed right after it has stored the decision.
        let log = Sqlite::open(&home.path().join(".local/share/salon"), SqliteOptions::default()).expect("a log");
        let decision = Envelope::restore(held.decision()).expect("an envelope");
        log.append(&TopicName::new(TOPIC).expect("a name"), decision).await.expect("stored");
        log.close().await;
        drop(log);
        held.end(async || home.serve("").await).await;
    });
}

//! `salon audit verify` on the trail of a gateway that ran.

use salon_testkit::run;
use serde_json::Value;

use crate::salon::{Home, Signal};

const TRAIL: &str = ".local/share/salon/audit.log";

/// Runs a gateway whose files of the trail hold a record each, and asks it something for which a token is wanted.
async fn serve(home: &Home) {
    let running = home.serve("--audit-max-size 1").await;
    for _ in 0..3 {
        let call = salon_testkit::http::HttpCall::new("GET", "/v0/topics").bearer("no-token");
        assert_eq!(call.send(running.address).await.expect("an answer").status, 401);
    }
    running.signal(Signal::TERM);
    assert_eq!(running.end().await.code, Some(0));
}

#[test]
fn a_trail_is_checked_from_its_oldest_file_on() {
    let home = Home::new();
    run(async {
        serve(&home).await;
        serve(&home).await;
        let told = home.told("audit verify").await;
        let (told, head) = told.split_once("Newest record: ").expect("a hash");
        assert_eq!(told, "The audit trail is whole: 7 records in 7 files.\n");
        let json = home.salon("audit verify --json").await;
        let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
        assert_eq!((&report["ok"], &report["records"]), (&Value::from(true), &Value::from(7)));
        assert!(head.starts_with(report["head"].as_str().expect("a hash")), "{head}");

        let oldest = format!("{TRAIL}.1");
        let text = std::fs::read_to_string(home.path().join(&oldest)).expect("the file");
        home.write(&oldest, &text.replace("chain_start", "chain-start"));
        insta::assert_snapshot!(home.told("audit verify").await, @"
        error: the audit trail is not what the gateway wrote
        `HOME/.local/share/salon/audit.log.2` line 1: it does not follow the record before it: one of the two was changed, or records between them were removed

        hint: compare the file with a copy from a backup
        exit: 1
        ");
        let told = home.told("audit verify --json").await;
        assert!(told.contains(r#""file":"HOME/.local/share/salon/audit.log.2","line":1"#), "{told}");
        assert!(told.ends_with("exit: 1"), "{told}");
    });
}

#[test]
fn a_trail_that_is_not_there_is_an_error() {
    let home = Home::new();
    insta::assert_snapshot!(run(home.told("audit verify")), @"
    error: `HOME/.local/share/salon/audit.log` cannot be read: No such file or directory (os error 2)

    hint: name the file, or the gateway's data directory with `--data`
    exit: 1
    ");
}

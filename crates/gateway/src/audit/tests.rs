use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::scratch::Scratch;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn alice() -> ParticipantId {
    ParticipantId::new("alice").expect("an id")
}

fn bob() -> ParticipantId {
    ParticipantId::new("bob").expect("an id")
}

fn join() -> AuditEvent {
    AuditEvent::new(AuditKind::Join, NOW)
}

/// The records without what is said of the chain.
fn without_hashes(text: &str) -> String {
    let shown = text.lines().map(|line| line.split_once(",\"prev\":\"").expect("a hash").0);
    shown.map(|line| format!("{line}}}\n")).collect()
}

#[test]
fn every_line_says_who_where_and_why() {
    let scratch = Scratch::new();
    let path = scratch.path().join("audit.log");
    let topic = TopicName::new("room:alpha").expect("a name");
    let grant = Grant { token_id: Some("t-1".into()), ..Grant::new(alice(), Vec::new(), NOW) };

    let audit = Audit::open(&path, AuditRotation::default(), NOW).expect("a trail");
    let address = "127.0.0.1".parse().expect("an address");
    audit.record(
        AuditEvent::new(AuditKind::AuthFailed, NOW).address(address).code(Code::Unauthorized).reason("expired"),
    );
    audit.record(AuditEvent::new(AuditKind::AuthOk, NOW).grant(&grant).address(address));
    audit.record(join().participant(&alice()).topic(&topic));
    audit.record(AuditEvent::new(AuditKind::Refusal, NOW).participant(&alice()).topic(&topic).code(Code::TooLarge));
    audit.record(AuditEvent::new(AuditKind::Takeover, NOW).participant(&alice()).topic(&topic));
    audit.record(AuditEvent::new(AuditKind::Leave, NOW).participant(&alice()).topic(&topic).reason("é".repeat(300)));
    audit.close();
    audit.record(join());
    audit.close();

    let text = fs::read_to_string(&path).expect("the file").replace(&"é".repeat(256), "[256 é]");
    let text = without_hashes(&text);
    insta::assert_snapshot!(text, @r#"
    {"ts":"2027-01-15T08:00:00.000Z","event":"chain_start"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"auth_failed","address":"127.0.0.1","code":"unauthorized","reason":"expired"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"auth_ok","participant":"alice","address":"127.0.0.1","token_id":"t-1"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","participant":"alice","topic":"room:alpha"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"refusal","participant":"alice","topic":"room:alpha","code":"too_large"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"takeover","participant":"alice","topic":"room:alpha"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"leave","participant":"alice","topic":"room:alpha","reason":"[256 é]"}
    "#);
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
}

/// A trail in a directory of its own.
struct TrailFixture {
    scratch: Scratch,
    rotation: AuditRotation,
}

impl TrailFixture {
    fn new(rotation: AuditRotation) -> Self {
        Self { scratch: Scratch::new(), rotation }
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("audit.log")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.scratch.path().join(name)).expect("a file of the trail")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.scratch.path().join(name), text).expect("written");
    }

    /// Runs a gateway's trail: these joins, with the seconds after the first.
    fn record(&self, joins: &[(&'static str, u64)]) {
        let audit = Audit::open(&self.path(), self.rotation, NOW).expect("a trail");
        for (reason, seconds) in joins {
            audit.record(AuditEvent::new(AuditKind::Join, Timestamp(NOW.0 + seconds * 1000)).reason(*reason));
        }
        audit.close();
    }

    /// The files there are, and what the check says of them.
    fn told(&self) -> String {
        let names = fs::read_dir(self.scratch.path()).expect("the folder");
        let mut names: Vec<_> =
            names.map(|entry| entry.expect("a name").file_name().into_string().expect("text")).collect();
        names.sort();
        let told = match verify(&self.path()) {
            Ok(AuditReport { records, without_chain, cut_off, begins_midway, is_unfinished, .. }) => format!(
                "records {records}, without chain {without_chain}, cut off {cut_off}, midway {begins_midway}, unfinished {is_unfinished}"
            ),
            Err(fault) => fault.to_string().replace(&self.scratch.path().display().to_string(), "HERE"),
        };
        format!("{}: {told}", names.join(" "))
    }
}

/// Three records a file.
const SMALL: AuditRotation = AuditRotation { size: 450, age: Duration::ZERO, count: 0 };

const FIVE: [(&str, u64); 5] = [("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 0)];

#[test]
fn a_trail_is_only_ever_added_to() {
    let trail = TrailFixture::new(AuditRotation::default());
    trail.write("audit.log", "{\"an\":\"old line\"}\n{\"cut o");
    trail.record(&[("a", 0)]);
    trail.record(&[("b", 0)]);
    let text = trail.text("audit.log");
    assert!(text.starts_with("{\"an\":\"old line\"}\n{\"cut o\n{"), "{text}");
    assert_eq!(text.matches("chain_start").count(), 1, "{text}");
    assert_eq!(trail.told(), "audit.log: records 3, without chain 2, cut off 0, midway false, unfinished false");
    // What was there before the chain is covered by it too.
    trail.write("audit.log", text.replace("old line", "new line"));
    assert_eq!(
        trail.told(),
        "audit.log: `HERE/audit.log` line 3: the lines before it are not those that were there when the chain started"
    );
}

#[test]
fn a_record_names_the_one_before_it_from_file_to_file() {
    let trail = TrailFixture::new(SMALL);
    trail.record(&FIVE);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.1: records 6, without chain 0, cut off 0, midway false, unfinished false"
    );
    trail.record(&FIVE);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.1 audit.log.2 audit.log.3: records 11, without chain 0, cut off 0, midway false, unfinished false"
    );
    // A gateway that ended between two files goes on.
    fs::rename(trail.path(), trail.scratch.path().join("audit.log.4")).expect("renamed");
    trail.record(&[("f", 0)]);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.1 audit.log.2 audit.log.3 audit.log.4: records 12, without chain 0, cut off 0, midway false, unfinished false"
    );
    assert_eq!(fs::metadata(trail.path()).expect("the file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn files_are_full_by_age_and_only_so_many_are_kept() {
    let trail = TrailFixture::new(AuditRotation { size: 0, age: Duration::from_secs(60), count: 2 });
    trail.record(&[("a", 0), ("b", 59), ("c", 60), ("d", 119), ("e", 120), ("f", 180)]);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.2 audit.log.3: records 4, without chain 0, cut off 0, midway true, unfinished false"
    );
    // The age of a file outlasts the gateway that began it.
    trail.record(&[("g", 241)]);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.3 audit.log.4: records 3, without chain 0, cut off 0, midway true, unfinished false"
    );
}

#[test]
fn what_was_changed_is_named_by_file_and_line() {
    let check = |change: &dyn Fn(&TrailFixture)| {
        let trail = TrailFixture::new(SMALL);
        trail.record(&FIVE);
        trail.record(&FIVE);
        change(&trail);
        trail.told().split_once(": ").expect("files, then what").1.to_owned()
    };
    let edit = |name: &'static str, from: &'static str, to: &'static str| {
        move |trail: &TrailFixture| trail.write(name, trail.text(name).replacen(from, to, 1))
    };
    let without_line = |name: &'static str, line: usize| {
        move |trail: &TrailFixture| {
            let text = trail.text(name);
            let kept = text.lines().enumerate().filter(|(at, _)| at + 1 != line);
            trail.write(name, kept.map(|(_, line)| format!("{line}\n")).collect::<String>());
        }
    };
    insta::assert_snapshot!(
        [
            check(&edit("audit.log.1", "\"b\"", "\"x\"")),
            check(&edit("audit.log.1", "\"a\"", "\"x\"")),
            check(&without_line("audit.log.1", 2)),
            check(&without_line("audit.log.2", 1)),
            check(&|trail: &TrailFixture| fs::remove_file(trail.scratch.path().join("audit.log.2")).expect("removed")),
            check(&edit("audit.log.2", "\"prev\"", "\"perv\"")),
            check(&edit("audit.log.2", "\"join\"", "\"chain_start\"")),
            check(&edit("audit.log.2", "\"join\"", "\"cut_off\"")),
            // Removing the newest records leaves a chain that is whole: only the hash of the newest one shows that.
            check(&|trail: &TrailFixture| trail.write("audit.log", "")),
        ]
        .join("\n"),
        @"
        `HERE/audit.log.2` line 1: it does not follow the record before it: one of the two was changed, or records between them were removed
        `HERE/audit.log.1` line 3: it does not follow the record before it: one of the two was changed, or records between them were removed
        `HERE/audit.log.1` line 2: it does not follow the record before it: one of the two was changed, or records between them were removed
        `HERE/audit.log.2` line 1: it does not follow the record before it: one of the two was changed, or records between them were removed
        `HERE/audit.log.3` line 1: it does not follow the record before it: one of the two was changed, or records between them were removed
        `HERE/audit.log.2` line 1: it does not carry the hash of the record before it
        `HERE/audit.log.2` line 1: a chain starts here, in the middle of another
        `HERE/audit.log.2` line 1: it says that a line was cut off, and the line is not the one before it
        records 9, without chain 0, cut off 0, midway false, unfinished false
        "
    );
}

#[test]
fn a_line_that_was_cut_off_is_accounted_for() {
    let trail = TrailFixture::new(AuditRotation::default());
    trail.record(&[("a", 0)]);
    let whole = trail.text("audit.log");
    trail.write("audit.log", format!("{whole}{{\"ts\":\"20"));
    assert_eq!(trail.told(), "audit.log: records 2, without chain 0, cut off 0, midway false, unfinished true");
    trail.record(&[("b", 0)]);
    assert_eq!(trail.told(), "audit.log: records 4, without chain 0, cut off 1, midway false, unfinished false");
    trail.write("audit.log", trail.text("audit.log").replacen("{\"ts\":\"20\n", "{\"ts\":\"21\n", 1));
    assert_eq!(
        trail.told(),
        "audit.log: `HERE/audit.log` line 4: it says that a line was cut off, and the line is not the one before it"
    );
    // A line that lacks nothing but its end is whole.
    trail.write("audit.log", whole.trim_end());
    trail.record(&[("b", 0)]);
    assert_eq!(trail.told(), "audit.log: records 3, without chain 0, cut off 0, midway false, unfinished false");
}

#[test]
fn a_trail_without_a_chain_is_no_proof() {
    let trail = TrailFixture::new(AuditRotation::default());
    trail.write("audit.log", "{\"an\":\"old line\"}\n");
    assert_eq!(
        trail.told(),
        "audit.log: `HERE/audit.log` has no chain: no record in it carries the hash of the one before"
    );
}

#[test]
fn no_symbolic_link_is_followed() {
    let trail = TrailFixture::new(AuditRotation::default());
    let elsewhere = trail.scratch.path().join("elsewhere");
    for exists in [false, true] {
        if exists {
            fs::write(&elsewhere, "somebody's\n").expect("written");
        }
        let _ = fs::remove_file(trail.path());
        std::os::unix::fs::symlink(&elsewhere, trail.path()).expect("linked");
        let refused = Audit::open(&trail.path(), trail.rotation, NOW).map(drop).expect_err("refused");
        assert_eq!(refused.to_string(), "it is a symbolic link, and none is followed here");
    }
    assert_eq!(fs::read_to_string(&elsewhere).expect("the file"), "somebody's\n");
}

#[test]
fn a_link_to_a_device_is_followed() {
    let trail = TrailFixture::new(SMALL);
    std::os::unix::fs::symlink("/dev/null", trail.path()).expect("linked");
    trail.record(&FIVE);
    let names: Vec<_> = fs::read_dir(trail.scratch.path()).expect("the folder").collect();
    assert_eq!(names.len(), 1, "a device is not rotated");
    assert!(fs::symlink_metadata(trail.path()).expect("the link").is_symlink());
}

#[test]
fn files_that_another_program_rotated_are_left_alone() {
    let trail = TrailFixture::new(AuditRotation { count: 2, ..SMALL });
    trail.write("audit.log.1", "{\"an\":\"old line\"}\n{\"another\":\"old line\"}\n");
    trail.write("audit.log.2", "{\"an\":\"older line\"}\n");
    trail.record(&FIVE);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.1 audit.log.2 audit.log.3: records 6, without chain 0, cut off 0, midway false, unfinished false"
    );
    trail.record(&FIVE);
    trail.record(&FIVE);
    assert_eq!(
        trail.told(),
        "audit.log audit.log.1 audit.log.2 audit.log.6 audit.log.7: records 7, without chain 0, cut off 0, midway true, unfinished false"
    );
    let foreign = verify(&trail.path()).expect("a whole trail").foreign;
    assert_eq!(foreign, ["audit.log.1", "audit.log.2"].map(|name| trail.scratch.path().join(name)));
}

/// How often an event is in a trail.
fn count_of(text: &str, event: &str) -> usize {
    text.matches(&format!("\"event\":\"{event}\"")).count()
}

#[test]
fn strangers_cannot_fill_the_trail() {
    let trail = TrailFixture::new(AuditRotation::default());
    let audit = Audit::open(&trail.path(), trail.rotation, NOW).expect("a trail");
    let failed = |seconds: u64| AuditEvent::new(AuditKind::AuthFailed, Timestamp(NOW.0 + seconds * 1000));
    let refused = |seconds: u64| AuditEvent::new(AuditKind::Refusal, Timestamp(NOW.0 + seconds * 1000));
    for number in 0..300 {
        audit.record(failed(0));
        audit.record(refused(0));
        if number < 100 {
            audit.record(refused(0).participant(&[alice(), bob()][number % 2]));
        }
    }
    audit.record(join());
    audit.record(failed(10));
    for _ in 0..100 {
        audit.record(failed(11));
    }
    audit.close();
    let text = without_hashes(&trail.text("audit.log"));
    // Ten seconds later there are twenty again, and one more for each of the two moments.
    assert_eq!((count_of(&text, "auth_failed"), count_of(&text, "join")), (10 + 20 + 1, 1));
    assert_eq!(count_of(&text, "refusal"), 10 + 100, "those of participants are all there");
    let suppressed = text.lines().filter_map(|line| line.split_once("\"suppressed\",\"count\":")?.1.split_once(','));
    let suppressed: Vec<u64> = suppressed.map(|(count, _)| count.parse().expect("a number")).collect();
    assert_eq!(suppressed.iter().sum::<u64>(), 580 + 80, "the others are counted");
    assert!(suppressed.len() <= 2, "and take few records: {suppressed:?}");
    assert_eq!(
        trail.told().split_once(": ").expect("files").1,
        format!("records {}, without chain 0, cut off 0, midway false, unfinished false", text.lines().count())
    );
}

#[test]
fn no_participant_can_fill_the_trail() {
    let trail = TrailFixture::new(AuditRotation::default());
    let audit = Audit::open(&trail.path(), trail.rotation, NOW).expect("a trail");
    let by_alice = |kind| AuditEvent::new(kind, NOW).participant(&alice());
    let unlimited = [
        AuditKind::Join,
        AuditKind::Leave,
        AuditKind::Takeover,
        AuditKind::Revocation,
        AuditKind::Invitation,
        AuditKind::TopicSettings,
        AuditKind::TopicDeleted,
        AuditKind::ApprovalRequested,
        AuditKind::ApprovalDecided,
        AuditKind::MessageRedacted,
        AuditKind::FileRemoved,
    ];
    for _ in 0..5000 {
        audit.record(by_alice(AuditKind::Refusal).code(Code::RateLimited));
        audit.record(by_alice(AuditKind::AuthOk));
    }
    // Nobody hides another refusal, or another place, among many.
    audit.record(by_alice(AuditKind::Refusal).code(Code::Forbidden));
    audit.record(by_alice(AuditKind::AuthOk).address([192, 0, 2, 1].into()));
    // She has spent her shares, and not those of others. What was decided has none.
    audit.record(AuditEvent::new(AuditKind::Refusal, NOW).participant(&bob()));
    for kind in unlimited {
        for _ in 0..20 {
            audit.record(by_alice(kind));
        }
    }
    audit.record(
        AuditEvent::new(AuditKind::Refusal, Timestamp(NOW.0 + 1000)).participant(&alice()).code(Code::RateLimited),
    );
    audit.close();
    let text = without_hashes(&trail.text("audit.log"));
    assert_eq!((count_of(&text, "refusal"), count_of(&text, "auth_ok")), (60 + 3, 60 + 1));
    for kind in unlimited {
        let name = serde_json::to_string(&kind).expect("a word");
        assert_eq!(count_of(&text, name.trim_matches('"')), 20, "{name}");
    }
    let suppressed: Vec<&str> = text.lines().filter(|line| line.contains("suppressed")).collect();
    insta::assert_snapshot!(suppressed.join("\n"), @r#"
    {"ts":"2027-01-15T08:00:00.000Z","event":"suppressed","participant":"alice","of":"auth_ok","count":4940,"since":"2027-01-15T08:00:00.000Z"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"suppressed","participant":"alice","of":"refusal","code":"rate_limited","count":4940,"since":"2027-01-15T08:00:00.000Z"}
    "#);
}

#[test]
fn strangers_are_summed_up_after_a_while() {
    let mut strangers = SenderShares::default();
    let at = |seconds: u64| Timestamp(NOW.0 + seconds * 1000);
    assert_eq!((0..30).filter(|_| strangers.takes(None, at(0))).count(), 20);
    assert_eq!(strangers.due(at(9)), []);
    let due = serde_json::to_string(&strangers.due(at(10))[0]).expect("JSON");
    insta::assert_snapshot!(due, @r#"{"ts":"2027-01-15T08:00:00.000Z","event":"suppressed","count":10,"since":"2027-01-15T08:00:00.000Z"}"#);
    assert_eq!((strangers.due(at(60)), strangers.take()), (Vec::new(), Vec::new()));
}

#[test]
fn off_is_off() {
    let audit = Audit::off();
    // More than a queue that nobody reads would hold.
    for _ in 0..=MAX_WAITING_EVENTS {
        audit.record(join());
    }
    audit.close();
    assert!(audit.0.is_none(), "there is no queue, no thread and no file to write to");
}

/// A disk that takes its time: says when a write has begun, and goes on when told.
struct Slow {
    begun: Sender<()>,
    go: Receiver<()>,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Output for Slow {}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.begun.send(());
        // Nobody left to tell it: it may go on for good.
        let _ = self.go.recv();
        self.written.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_slow_disk_loses_is_counted() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (begun, has_begun) = channel();
    let (go, told) = channel();
    let audit =
        Audit::start(Slow { begun, go: told, written: written.clone() }, chain::hash(b""), 4).expect("a thread");
    audit.record(join().reason("first"));
    has_begun.recv().expect("the thread writes");
    for _ in 0..10 {
        audit.record(join().reason("more"));
    }
    drop(go);
    audit.close();
    let text = without_hashes(&String::from_utf8(written.lock().clone()).expect("text"));
    insta::assert_snapshot!(text, @r#"
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","reason":"first"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","reason":"more"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","reason":"more"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","reason":"more"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"join","reason":"more"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"lost","count":6}
    "#);
}

/// A full disk, until it is not.
struct Full {
    refusals: usize,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Output for Full {}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_full_disk_loses_is_counted() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let lost = AtomicU64::new(0);
    let out = Full { refusals: 3, written: written.clone() };
    let (sender, receiver) = sync_channel(8);
    for _ in 0..4 {
        sender.send(AuditMessage::Event(join())).expect("room");
    }
    drop(sender);
    AuditWriter::new(out, chain::hash(b""), &lost, &Mutex::default()).run(&receiver);
    let text = without_hashes(&String::from_utf8(written.lock().clone()).expect("text"));
    insta::assert_snapshot!(text, @r#"
    {"ts":"2027-01-15T08:00:00.000Z","event":"join"}
    {"ts":"2027-01-15T08:00:00.000Z","event":"lost","count":3}
    "#);
}

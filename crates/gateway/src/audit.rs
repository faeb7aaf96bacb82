//! The audit trail: who came, who went, who was turned away, as lines of JSON in a file that is only ever added to.
//!
//! One thread writes; whoever records hands over and goes on, whatever the disk does. When the thread cannot keep up, lines are
//! lost, and a line says how many. Deliberately absent: tokens, payloads, secrets. An [`AuditEvent`] has no place for them.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::{Code, ParticipantId, RateLimit, Timestamp, TokenBucket, TopicName};
use serde::Serialize;

use crate::auth::Grant;

/// How many events may wait for the disk.
const WAITING: usize = 8192;

/// How many attempts to come in and refusals are kept of one second.
const MAX_EVENTS_PER_SECOND: u32 = 500;

/// The longest reason that is kept, in characters.
const MAX_REASON_CHARS: usize = 256;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// A token or ticket was accepted.
    AuthOk,
    /// A token or ticket was not.
    AuthFailed,
    /// A participant took a place in a topic.
    Join,
    /// It gave it up, or lost it.
    Leave,
    /// The room said no.
    Refusal,
    /// A newer connection of the same participant took the place of an older.
    Takeover,
    /// Tokens were revoked; `reason` says which.
    Revocation,
}

/// One line of the trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEvent {
    ts: Timestamp,
    event: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant: Option<ParticipantId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<TopicName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'static, str>>,
}

impl AuditEvent {
    /// Something happened at a moment.
    pub fn new(event: AuditKind, ts: Timestamp) -> Self {
        Self { ts, event, participant: None, topic: None, address: None, token_id: None, code: None, reason: None }
    }

    /// By or to whom.
    #[must_use]
    pub fn participant(mut self, participant: &ParticipantId) -> Self {
        self.participant = Some(participant.clone());
        self
    }

    /// By or to whom, with the id of the token that says so.
    #[must_use]
    pub fn grant(mut self, grant: &Grant) -> Self {
        self.token_id.clone_from(&grant.token_id);
        self.participant(&grant.participant)
    }

    /// In which topic.
    #[must_use]
    pub fn topic(mut self, topic: &TopicName) -> Self {
        self.topic = Some(topic.clone());
        self
    }

    /// From where.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// With which refusal code.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Why. A word or a refusal's sentence; whoever says it keeps payloads and secrets out of it.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        let mut reason = reason.into();
        if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
            reason.to_mut().truncate(end);
        }
        self.reason = Some(reason);
        self
    }
}

/// The trail. Cloning shares it.
#[derive(Clone)]
pub struct Audit(Option<Arc<Trail>>);

struct Trail {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
    /// For events that anybody can cause.
    bucket: Mutex<TokenBucket>,
    /// `None` once closed.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The file once more, to make it last at the end.
    file: Option<File>,
}

impl Trail {
    /// What anybody can cause as often as they like must not fill the disk: beyond a number a second it is only counted. Who came
    /// and went is always kept.
    fn takes(&self, event: &AuditEvent) -> bool {
        if matches!(event.event, AuditKind::Join | AuditKind::Leave | AuditKind::Takeover) {
            return true;
        }
        let limit = RateLimit::per_second(MAX_EVENTS_PER_SECOND, MAX_EVENTS_PER_SECOND);
        let mut bucket = self.bucket.lock();
        limit.take(&mut bucket, 1, Duration::from_millis(event.ts.0)).is_ok()
    }
}

enum Message {
    Event(AuditEvent),
    /// Everything before it is written; nothing after it is.
    Close,
}

impl Audit {
    /// Adds to the trail in a file, which is made where there is none, readable by its owner alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        end_last_line(&mut file)?;
        let again = file.try_clone()?;
        Self::start(file, Some(again), WAITING)
    }

    /// No trail: what is recorded is forgotten.
    pub fn off() -> Self {
        Self(None)
    }

    fn start(out: impl Write + Send + 'static, file: Option<File>, waiting: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(waiting);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = std::thread::Builder::new().name("audit".into()).spawn({
            let lost = lost.clone();
            move || Writer { out: BufWriter::new(out), lost: &lost, failing: false }.run(&receiver)
        })?;
        Ok(Self(Some(Arc::new(Trail {
            sender,
            lost,
            bucket: Mutex::default(),
            writer: Mutex::new(Some(writer)),
            file,
        }))))
    }

    /// Hands an event over. Never waits.
    pub fn record(&self, event: AuditEvent) {
        let Some(trail) = &self.0 else { return };
        if !trail.takes(&event) || trail.sender.try_send(Message::Event(event)).is_err() {
            trail.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything recorded so far is in the file. What is recorded afterwards is forgotten. Blocks; call it when nothing
    /// else is left to do, or where blocking is allowed.
    pub fn close(&self) {
        let Some(trail) = &self.0 else { return };
        let mut writer = trail.writer.lock();
        let Some(thread) = writer.take() else { return };
        // It arrives, or the thread has ended already.
        let _ = trail.sender.send(Message::Close);
        if thread.join().is_err() {
            tracing::error!("audit: writer thread panicked, entries may be missing");
        }
        if let Some(Err(error)) = trail.file.as_ref().map(File::sync_data) {
            tracing::error!(%error, "audit: fsync failed, entries may be lost on power failure");
        }
    }
}

/// A file that was cut off in the middle of a line gets the end of that line, so that the next one stands alone.
fn end_last_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(())
}

struct Writer<'a, W: Write> {
    out: BufWriter<W>,
    lost: &'a AtomicU64,
    /// Whether the last write failed; told once, not for every line.
    failing: bool,
}

#[derive(Serialize)]
struct Lost {
    ts: Timestamp,
    event: &'static str,
    count: u64,
}

impl<W: Write> Writer<'_, W> {
    fn run(mut self, receiver: &Receiver<Message>) {
        let mut ts = Timestamp(0);
        loop {
            let message = match receiver.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.settle(ts);
                    match receiver.recv() {
                        Ok(message) => message,
                        Err(_) => break,
                    }
                }
            };
            match message {
                Message::Event(event) => {
                    ts = event.ts;
                    if !self.line(&event) {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Message::Close => break,
            }
        }
        self.settle(ts);
    }

    /// Says what was lost, and lets the file have everything.
    fn settle(&mut self, ts: Timestamp) {
        let count = self.lost.swap(0, Ordering::Relaxed);
        if count > 0 && !self.line(&Lost { ts, event: "lost", count }) {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
        let flushed = self.out.flush();
        self.noted(flushed);
    }

    fn line(&mut self, line: &impl Serialize) -> bool {
        let mut bytes = serde_json::to_vec(line).expect("an audit line has nothing that cannot be JSON");
        bytes.push(b'\n');
        let written = self.out.write_all(&bytes);
        self.noted(written)
    }

    fn noted(&mut self, result: io::Result<()>) -> bool {
        if let Err(error) = &result
            && !self.failing
        {
            tracing::error!(%error, "audit: write failed, events are dropped until it succeeds");
        }
        self.failing = result.is_err();
        result.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::scratch::Scratch;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn alice() -> ParticipantId {
        ParticipantId::new("alice").expect("an id")
    }

    fn join() -> AuditEvent {
        AuditEvent::new(AuditKind::Join, NOW)
    }

    #[test]
    fn every_line_says_who_where_and_why() {
        let scratch = Scratch::new();
        let path = scratch.path().join("audit.log");
        let topic = TopicName::new("room:alpha").expect("a name");
        let grant = Grant { token_id: Some("t-1".into()), ..Grant::new(alice(), Vec::new(), NOW) };

        let audit = Audit::open(&path).expect("a trail");
        let address = "127.0.0.1".parse().expect("an address");
        audit.record(
            AuditEvent::new(AuditKind::AuthFailed, NOW).address(address).code(Code::Unauthorized).reason("expired"),
        );
        audit.record(AuditEvent::new(AuditKind::AuthOk, NOW).grant(&grant).address(address));
        audit.record(join().participant(&alice()).topic(&topic));
        audit.record(AuditEvent::new(AuditKind::Refusal, NOW).participant(&alice()).topic(&topic).code(Code::TooLarge));
        audit.record(AuditEvent::new(AuditKind::Takeover, NOW).participant(&alice()).topic(&topic));
        audit
            .record(AuditEvent::new(AuditKind::Leave, NOW).participant(&alice()).topic(&topic).reason("é".repeat(300)));
        audit.close();
        audit.record(join());
        audit.close();

        let text = fs::read_to_string(&path).expect("the file").replace(&"é".repeat(256), "[256 é]");
        insta::assert_snapshot!(text, @r#"
        {"ts":"2027-01-15T08:00:00.000Z","event":"auth_failed","address":"127.0.0.1","code":"unauthorized","reason":"expired"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"auth_ok","participant":"alice","address":"127.0.0.1","token_id":"t-1"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"join","participant":"alice","topic":"room:alpha"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"refusal","participant":"alice","topic":"room:alpha","code":"too_large"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"takeover","participant":"alice","topic":"room:alpha"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"leave","participant":"alice","topic":"room:alpha","reason":"[256 é]"}
        "#);
        assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_trail_is_only_ever_added_to() {
        let scratch = Scratch::new();
        let path = scratch.path().join("audit.log");
        fs::write(&path, "{\"an\":\"old line\"}\n{\"cut o").expect("written");
        for _ in 0..2 {
            let audit = Audit::open(&path).expect("a trail");
            audit.clone().record(join());
            audit.close();
        }
        insta::assert_snapshot!(fs::read_to_string(&path).expect("the file"), @r#"
        {"an":"old line"}
        {"cut o
        {"ts":"2027-01-15T08:00:00.000Z","event":"join"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"join"}
        "#);
    }

    #[test]
    fn off_is_off() {
        let audit = Audit::off();
        // More than a queue that nobody reads would hold.
        for _ in 0..=WAITING {
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
        let audit = Audit::start(Slow { begun, go: told, written: written.clone() }, None, 4).expect("a thread");
        audit.record(join().reason("first"));
        has_begun.recv().expect("the thread writes");
        for _ in 0..10 {
            audit.record(join().reason("more"));
        }
        drop(go);
        audit.close();
        let text = String::from_utf8(written.lock().clone()).expect("text");
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
        let out = BufWriter::with_capacity(0, Full { refusals: 3, written: written.clone() });
        let (sender, receiver) = sync_channel(8);
        for _ in 0..4 {
            sender.send(Message::Event(join())).expect("room");
        }
        drop(sender);
        Writer { out, lost: &lost, failing: false }.run(&receiver);
        let text = String::from_utf8(written.lock().clone()).expect("text");
        insta::assert_snapshot!(text, @r#"
        {"ts":"2027-01-15T08:00:00.000Z","event":"join"}
        {"ts":"2027-01-15T08:00:00.000Z","event":"lost","count":3}
        "#);
    }
}

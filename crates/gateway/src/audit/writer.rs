//! The thread that writes the trail.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::Timestamp;
use serde::Serialize;

use super::AuditEvent;
use super::chain;
use super::shares::{SUMMARY_INTERVAL, SenderShares, Suppressed};

/// How long the thread waits for further records after the first: one wake-up and one write for all of them. A kill loses what came in
/// this time.
const GATHER_DELAY: Duration = Duration::from_millis(5);

pub(super) enum AuditMessage {
    Event(AuditEvent),
    /// Everything before it is written; nothing after it is.
    Close,
}

/// Where the lines go. Each is written whole.
pub(super) trait Output: Write + Send {
    /// A record of so many bytes, made at a moment, is the next to be written.
    fn begin_record(&mut self, ts: Timestamp, len: usize) {
        let _ = (ts, len);
    }

    /// Makes what was written last.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

pub(super) struct AuditWriter<'a, W: Output> {
    out: W,
    /// The hash of the last record.
    head: String,
    lost: &'a AtomicU64,
    shares: &'a Mutex<SenderShares>,
    /// Whether the last write failed; told once, not for every line.
    failing: bool,
}

#[derive(Serialize)]
struct Lost {
    ts: Timestamp,
    event: &'static str,
    count: u64,
}

impl<'a, W: Output> AuditWriter<'a, W> {
    pub(super) fn new(out: W, head: String, lost: &'a AtomicU64, shares: &'a Mutex<SenderShares>) -> Self {
        Self { out, head, lost, shares, failing: false }
    }

    pub(super) fn run(mut self, receiver: &Receiver<AuditMessage>) {
        let mut ts = Timestamp(0);
        loop {
            let message = match receiver.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.settle(ts);
                    match receiver.recv_timeout(SUMMARY_INTERVAL) {
                        Ok(message) => {
                            if matches!(message, AuditMessage::Event(_)) {
                                thread::sleep(GATHER_DELAY);
                            }
                            message
                        }
                        Err(RecvTimeoutError::Timeout) => {
                            // Nobody has come for as long as they would be counted.
                            let suppressed = self.shares.lock().take();
                            self.summarize(suppressed);
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            };
            match message {
                AuditMessage::Event(event) => {
                    ts = event.ts;
                    let suppressed = self.shares.lock().due(ts);
                    self.summarize(suppressed);
                    if !self.record(&event, ts) {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
                AuditMessage::Close => break,
            }
        }
        let suppressed = self.shares.lock().take();
        self.summarize(suppressed);
        self.settle(ts);
        if let Err(error) = self.out.finish() {
            tracing::error!(%error, "audit: fsync failed, entries may be lost on power failure");
        }
    }

    /// Says how many records of senders were left out.
    fn summarize(&mut self, suppressed: Vec<Suppressed>) {
        for suppressed in suppressed {
            if !self.record(&suppressed, suppressed.ts) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Says what was lost, and lets the file have everything.
    fn settle(&mut self, ts: Timestamp) {
        let count = self.lost.swap(0, Ordering::Relaxed);
        if count > 0 && !self.record(&Lost { ts, event: "lost", count }, ts) {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
        let flushed = self.out.flush();
        self.noted(flushed);
    }

    fn record(&mut self, record: &impl Serialize, ts: Timestamp) -> bool {
        let mut line = chain::line(record, &self.head);
        let head = chain::hash(&line);
        line.push(b'\n');
        self.out.begin_record(ts, line.len());
        let written = self.out.write_all(&line);
        let is_written = self.noted(written);
        if is_written {
            self.head = head;
        }
        is_written
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

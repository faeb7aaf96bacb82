//! What the writer does while nobody waits: settling, sweeping and scrubbing, a slice at a time.

use std::time::Instant;

use tokio::sync::oneshot;

use super::SqliteFault;
use super::redact::Scrub;
use super::settle::{SettlePass, Slice};
use super::sweep::{SWEEP_INTERVAL, Sweep, long_ago};
use super::writer::Writer;

/// A sweep under way has one slice in so many, also while there is always something to settle.
pub(super) const SLICES_PER_SWEEP_TURN: u32 = 4;

/// How far settling, sweeping and scrubbing have come.
pub(super) struct Upkeep {
    /// What was appended since the last slice of settling or sweeping.
    pub(super) appended: Slice,
    /// The slices so far.
    slices: u32,
    settling: Option<SettlePass>,
    sweep: Option<Sweep>,
    pub(super) scrub: Option<Scrub>,
    /// Texts were redacted, or removed with their topics, that the files still have.
    pub(super) is_scrub_due: bool,
    /// A scrub is due once the journal's rows up to this one, and the entries of deleted topics, are removed.
    pub(super) scrub_after: Option<i64>,
    /// When the last sweep ended.
    pub(super) swept: Instant,
    /// Callers that wait for the next sweep to begin and end.
    pub(super) trims: Vec<oneshot::Sender<()>>,
}

impl Upkeep {
    /// The first sweep is due at once.
    pub(super) fn new(is_scrub_due: bool) -> Self {
        Self {
            appended: Slice { entries: 0, bytes: 0 },
            slices: 0,
            settling: None,
            sweep: None,
            scrub: None,
            is_scrub_due,
            scrub_after: None,
            swept: long_ago(),
            trims: Vec::new(),
        }
    }
}

impl Writer<'_> {
    /// Whether there is something to settle or to sweep.
    pub(super) fn is_behind(&self) -> bool {
        let is_scrubbing = self.upkeep.is_scrub_due || self.upkeep.scrub.as_ref().is_some_and(Scrub::is_ready);
        is_scrubbing
            || self.upkeep.settling.is_some()
            || self.upkeep.sweep.is_some()
            || !self.upkeep.trims.is_empty()
            || self.source.fresh().is_full()
    }

    /// Does a slice of what can wait: first settling, without which what is fresh grows, then retention. Nobody has to wait much for it.
    pub(super) fn tidy_a_little(&mut self) {
        if self.stopped.is_some() {
            (self.upkeep.settling, self.upkeep.sweep, self.upkeep.swept) = (None, None, Instant::now());
            (self.upkeep.scrub, self.upkeep.is_scrub_due) = (None, false);
            return self.upkeep.trims.clear();
        }
        let appended = std::mem::replace(&mut self.upkeep.appended, Slice { entries: 0, bytes: 0 });
        if let Err(fault) = self.tidy(appended) {
            self.stop(&fault);
        }
    }

    fn tidy(&mut self, appended: Slice) -> Result<(), SqliteFault> {
        self.upkeep.slices = self.upkeep.slices.wrapping_add(1);
        if self.upkeep.slices.is_multiple_of(SLICES_PER_SWEEP_TURN)
            && let Some(sweep) = self.upkeep.sweep.take()
        {
            return self.sweep(sweep, appended);
        }
        let is_sweep_due = self.upkeep.sweep.is_none()
            && (self.upkeep.swept.elapsed() >= SWEEP_INTERVAL || !self.upkeep.trims.is_empty());
        let pass = match self.upkeep.settling.take() {
            Some(pass) => Some(pass),
            None if self.source.fresh().is_full() => {
                let sweep_after = is_sweep_due.then(|| std::mem::take(&mut self.upkeep.trims));
                Some(self.begin_settling(sweep_after))
            }
            None => None,
        };
        if let Some(mut pass) = pass {
            let slice = Slice::after(appended, self.source.fresh().is_overfull());
            if !self.continue_settling(&mut pass, slice)? {
                self.upkeep.settling = Some(pass);
            } else if let Some(waiting) = pass.sweep_after {
                if let Some(checkpointer) = &mut self.checkpointer {
                    checkpointer.request();
                }
                self.upkeep.sweep = Some(Sweep::new(waiting));
            }
        } else if let Some(scrub) = self.take_scrub()? {
            self.upkeep.scrub = self.continue_scrub(scrub)?;
        } else if let Some(sweep) = self.upkeep.sweep.take() {
            self.sweep(sweep, appended)?;
        } else if is_sweep_due {
            // Retention looks at what is settled, so everything is, first.
            let waiting = std::mem::take(&mut self.upkeep.trims);
            self.upkeep.settling = Some(self.begin_settling(Some(waiting)));
        }
        Ok(())
    }

    fn sweep(&mut self, sweep: Sweep, appended: Slice) -> Result<(), SqliteFault> {
        self.upkeep.sweep = self.continue_sweep(sweep, Slice::of_sweep(appended))?;
        if self.upkeep.sweep.is_none() {
            self.upkeep.swept = Instant::now();
            self.scrub_erased()?;
        }
        Ok(())
    }

    /// Has a sweep begin as soon as there is time.
    pub(super) fn sweep_soon(&mut self) {
        self.upkeep.swept = long_ago();
    }
}

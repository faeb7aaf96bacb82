//! One run of the benchmark: the contenders that are there, what was measured so far, and where it is written.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::contender::{Contender, Installed, output};
use crate::options::BenchOptions;
use crate::procfs;
use crate::report::{BenchReport, RunRecord, RunSetting};
use crate::scenario::{BenchPlan, Effort, Figures, Regime, Scenario};

pub(crate) struct BenchRun {
    pub(crate) installed: Vec<Installed>,
    pub(crate) report: BenchReport,
    pub(crate) directory: PathBuf,
    pub(crate) effort: Effort,
    open_files: u64,
}

impl BenchRun {
    /// Finds the contenders. `name` is the end of the directory's name, where none is asked for.
    #[expect(clippy::print_stdout, reason = "tables are shown as they come")]
    pub(crate) fn open(options: &BenchOptions, contenders: &[Contender], name: &str) -> Result<Self> {
        let effort = Effort { duration: options.duration, quick: options.quick };
        let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, &options.windows)?;
        let mut installed = Vec::new();
        for contender in Contender::ALL {
            if !contenders.contains(&contender) {
                setting.skipped.push(format!("{} (not asked for)", contender.name()));
                continue;
            }
            match Installed::find(contender, &options.salon) {
                Ok(found) => {
                    setting.contenders.push(format!("{} ({})", contender.name(), found.version));
                    installed.push(found);
                }
                Err(error) => setting.skipped.push(format!("{} ({error:#})", contender.name())),
            }
        }
        println!("machine: {}\ncommit: {}\ndata on: {}", setting.machine, setting.commit, setting.file_system);
        for line in &setting.contenders {
            println!("contender: {line}");
        }
        let default = || format!("bench/runs/{}-{}{name}", setting.date, setting.slug()).into();
        let directory = options.out.clone().unwrap_or_else(default);
        let open_files = raise_open_file_limit()?;
        let report = BenchReport { setting, records: Vec::new() };
        Ok(Self { installed, report, directory, effort, open_files })
    }

    /// A contender that was found.
    pub(crate) fn contender(&self, wanted: Contender) -> Option<&Installed> {
        self.installed.iter().find(|installed| installed.contender == wanted)
    }

    /// Runs plans, saving after each what there is. Gateways are started with further flags.
    #[expect(clippy::print_stdout, reason = "tables are shown as they come")]
    pub(crate) fn run(&mut self, plans: &[BenchPlan], rounds: u32, flags: &[&str]) -> Result<()> {
        for plan in plans {
            if !self.has_room_for(plan) {
                continue;
            }
            for round in 1..=rounds {
                for at in 0..self.installed.len() {
                    self.keep(run_once(plan, &self.installed[at], round, self.effort, flags));
                }
            }
            println!("\n{}\n{}", plan.scenario.name(), self.report.table_of(plan)?);
            self.report.save(&self.directory)?;
        }
        Ok(())
    }

    /// Notes what one run of a gateway gave, and saves.
    pub(crate) fn note(
        &mut self,
        scenario: Scenario,
        case: &str,
        regime: Regime,
        round: u32,
        outcome: Result<Figures>,
    ) -> Result<()> {
        self.keep(RunRecord::new(scenario, case, (regime, None), Contender::Salon, round, outcome));
        self.report.save(&self.directory)
    }

    /// Keeps a record, and shows why it is void where it is.
    #[expect(clippy::print_stdout, reason = "what is void is shown as it comes")]
    pub(crate) fn keep(&mut self, record: RunRecord) {
        if let Some(reason) = &record.void {
            println!("void: {} {} {}: {reason}", record.scenario.name(), record.case, record.contender.name());
        }
        self.report.records.push(record);
    }

    /// Whether there may be as many open files as a plan needs; where not, it is noted as skipped.
    pub(crate) fn has_room_for(&mut self, plan: &BenchPlan) -> bool {
        let (name, case, limit) = (plan.scenario.name(), &plan.case, self.open_files);
        let has_room = plan.connections() as u64 + 100 <= limit;
        if !has_room {
            let skipped = format!("{name} {case} (open files are limited to {limit}, raise `ulimit -Hn`)");
            self.report.setting.skipped.push(skipped);
        }
        has_room
    }

    /// Shows the table of a scenario.
    #[expect(clippy::print_stdout, reason = "tables are shown as they come")]
    pub(crate) fn show(&self, scenario: Scenario) -> Result<()> {
        println!("\n{}\n{}", scenario.name(), self.report.table(|record| record.scenario == scenario)?);
        Ok(())
    }

    /// Says what was left out and where everything is.
    #[expect(clippy::print_stdout, reason = "a command-line program talks on its terminal")]
    pub(crate) fn finish(self) -> Result<BenchReport> {
        for line in &self.report.setting.skipped {
            println!("skipped: {line}");
        }
        if self.report.records.is_empty() {
            bail!("nothing was measured");
        }
        self.report.save(&self.directory)?;
        println!("written: {}", self.directory.display());
        Ok(self.report)
    }
}

/// Lets this process, and those that it starts, have as many open files as the system allows; says how many.
fn raise_open_file_limit() -> Result<u64> {
    let process = std::process::id().to_string();
    // Where there is no such command, plans that need more are skipped.
    let hard = procfs::open_file_limits()?.1;
    let _ = output(Command::new("prlimit").args(["--pid", &process, &format!("--nofile={hard}:{hard}")]));
    Ok(procfs::open_file_limits()?.0)
}

fn run_once(plan: &BenchPlan, installed: &Installed, round: u32, effort: Effort, flags: &[&str]) -> RunRecord {
    let contender = installed.contender;
    let flags = if contender.is_gateway() { flags } else { &[] };
    let outcome = installed.start_with(flags).and_then(|server| {
        plan.measure(&server, effort).map_err(|error| match server.last_words() {
            words if words.is_empty() => error,
            words => error.context(format!("the server's last words: {words}")),
        })
    });
    RunRecord::new(plan.scenario, &plan.case, (plan.regime, plan.window()), contender, round, outcome)
}

//! The benchmark: starts each contender afresh for every measurement, in turns, and reports medians with their spread.
//! Not measured: TLS, several machines, a disk slower or faster than the one it runs on.

mod attacks;
mod ceiling;
mod commands;
mod contender;
mod control;
mod guests;
mod lines;
mod load;
mod mcp;
mod nats;
mod options;
mod procfs;
mod report;
mod room;
mod scenario;
mod stats;
mod targets;
mod wire;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::contender::{Contender, Installed};
use crate::options::{BenchCommand, BenchOptions, USAGE};
use crate::report::{BenchReport, RunRecord, RunSetting};
use crate::scenario::{BenchPlan, Effort};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program talks on its terminal")]
fn main() -> ExitCode {
    let outcome = options::parse(std::env::args().skip(1)).and_then(|command| match command {
        BenchCommand::Help => {
            print!("{USAGE}");
            Ok(true)
        }
        BenchCommand::Ceiling(listen) => ceiling::run(listen).map(|()| true),
        BenchCommand::Commands(options) => commands::measure(&options).map(|()| true),
        BenchCommand::Guests(options) => guests::measure(&options).map(|()| true),
        BenchCommand::Mcp(options) => mcp::measure(&options).map(|()| true),
        BenchCommand::Attacker => attacks::attack_until_told().map(|()| true),
        BenchCommand::Attacks(options) => attacks::measure(&options),
        BenchCommand::Control(options) => control::measure(&options),
        BenchCommand::Nats(options) => nats::measure(&options),
        BenchCommand::Run(options) => measure(&options).map(|report| !report.records.iter().any(|r| r.void.is_some())),
        BenchCommand::Check(options) => {
            let report = match &options.from {
                Some(directory) => BenchReport::load(directory)?,
                None => measure(&options)?,
            };
            let (table, good) = targets::judge(&report)?;
            println!("{table}");
            Ok(good)
        }
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything asked for, saving after each plan what there is.
#[expect(clippy::print_stdout, reason = "tables are shown as they come")]
fn measure(options: &BenchOptions) -> Result<BenchReport> {
    let effort = Effort { duration: options.duration, window: options.window, quick: options.quick };
    let mut setting = RunSetting::new(options.duration.as_secs_f64(), options.rounds, options.window)?;
    let mut installed = Vec::new();
    for contender in Contender::ALL {
        if !options.contenders.contains(&contender) {
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
    let directory =
        options.out.clone().unwrap_or_else(|| format!("bench/runs/{}-{}", setting.date, setting.slug()).into());
    let limit = procfs::open_file_limit()?;
    let mut report = BenchReport { setting, records: Vec::new() };
    for plan in scenario::plans(&options.scenarios, effort) {
        if plan.connections() as u64 + 100 > limit {
            let (name, case) = (plan.scenario.name(), &plan.case);
            report
                .setting
                .skipped
                .push(format!("{name} {case} (open files are limited to {limit}, raise `ulimit -n`)"));
            continue;
        }
        for round in 1..=options.rounds {
            for contender in &installed {
                let record = run_once(&plan, contender, round, effort);
                if let Some(reason) = &record.void {
                    println!("void: {} {} {}: {reason}", plan.scenario.name(), plan.case, contender.contender.name());
                }
                report.records.push(record);
            }
        }
        println!("\n{}\n{}", plan.scenario.name(), report.table_of(&plan)?);
        report.save(&directory)?;
    }
    for line in &report.setting.skipped {
        println!("skipped: {line}");
    }
    if report.records.is_empty() {
        bail!("nothing was measured");
    }
    println!("written: {}", directory.display());
    Ok(report)
}

fn run_once(plan: &BenchPlan, installed: &Installed, round: u32, effort: Effort) -> RunRecord {
    let (scenario, case, regime) = (plan.scenario, plan.case.clone(), plan.regime);
    let contender = installed.contender;
    let outcome = installed.start().and_then(|server| {
        plan.measure(&server, effort).map_err(|error| match server.last_words() {
            words if words.is_empty() => error,
            words => error.context(format!("the server's last words: {words}")),
        })
    });
    let (figures, void) = match outcome {
        Ok(figures) => (figures, None),
        Err(error) => (Default::default(), Some(format!("{error:#}"))),
    };
    RunRecord { scenario, case, regime, contender, round, figures, void }
}

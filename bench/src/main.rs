//! The benchmark: starts each contender afresh for every measurement, in turns, and reports medians with their spread.
//! Not measured: several machines, a disk slower or faster than the one it runs on.

mod attacks;
mod ceiling;
mod commands;
mod contender;
mod control;
mod growth;
mod guests;
mod history;
mod lines;
mod load;
mod mcp;
mod nats;
mod options;
mod plot;
mod procfs;
mod recovery;
mod report;
mod room;
mod scenario;
mod session;
mod soak;
mod stage;
mod stats;
mod tails;
mod targets;
mod tls;
mod wire;

use std::process::ExitCode;

use anyhow::Result;

use crate::options::{BenchCommand, BenchOptions, USAGE};
use crate::report::BenchReport;
use crate::session::BenchRun;

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
        BenchCommand::Mcp(options) => mcp::measure(&options),
        BenchCommand::Attacker => attacks::attack_until_told().map(|()| true),
        BenchCommand::Attacks(options) => attacks::measure(&options),
        BenchCommand::Control(options) => control::measure(&options),
        BenchCommand::Nats(options) => nats::measure(&options),
        BenchCommand::Growth(options) => growth::measure(&options),
        BenchCommand::Recovery(options) => recovery::measure(&options),
        BenchCommand::Soak(options) => soak::measure(&options),
        BenchCommand::Tails(options) => tails::measure(&options),
        BenchCommand::Run(options) => measure(&options).map(|report| !report.has_void()),
        BenchCommand::Check(options) => {
            let report = match &options.from {
                Some(directory) => BenchReport::load(directory)?,
                None => measure(&options)?,
            };
            targets::show(&targets::run_targets(&report))
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

/// Runs the scenarios of `run` that are asked for.
fn measure(options: &BenchOptions) -> Result<BenchReport> {
    let mut session = BenchRun::open(options, &options.contenders, "")?;
    let plans = scenario::plans(&options.scenarios, &options.windows, session.effort);
    session.run(&plans, options.rounds, &[])?;
    session.finish()
}

//! `cargo xtask tidy` and `cargo xtask fuzz`: the checks of this project that no general tool makes.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod fuzz;
mod metadata;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy [--verbose]     check the crate graph, file sizes, docs/conformance.md, links and smells
                       (--verbose also lists files above 400 lines)
  fuzz [--seconds N]   run every fuzz target for N seconds each (default 20), on the stable toolchain";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => tidy::run(false),
        ["tidy", "--verbose"] => tidy::run(true),
        ["fuzz"] => fuzz::run(20),
        ["fuzz", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds) if seconds > 0 => fuzz::run(seconds),
            _ => Err(format!("`--seconds` takes a whole number above 0, not `{seconds}`")),
        },
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

//! The checks and tasks of this project that no general tool does: `cargo xtask <command>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for people at a terminal")]

mod changed;
mod dist;
mod features;
mod fuzz;
mod metadata;
mod site;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy [--verbose]     check the crate graph, unused dependencies, minimum Rust versions, file sizes,
                       docs/protocols/conformance.md, docs/security.md, links, pages and smells (--verbose also lists files above 400 lines)
  site [--mdbook PROGRAM]
                       build the documentation as a site with mdBook, and check its links
  features             compile each package with no features and with each feature alone
  changed              print the packages with changed files, as arguments of cargo
  fuzz [--seconds N] [TARGET…]
                       run every fuzz target, or those named, for N seconds each (default 20), on the stable toolchain";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => tidy::run(false),
        ["tidy", "--verbose"] => tidy::run(true),
        ["features"] => features::run(),
        ["changed"] => changed::run(),
        ["fuzz", campaign @ ..] => fuzz::Campaign::parse(campaign).and_then(|campaign| campaign.run()),
        ["site", options @ ..] => site::SiteBuild::parse(options).and_then(|site| site.build()),
        ["dist", options @ ..] => dist::run(options),
        _ => Err(format!("{USAGE}\n{}", dist::USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

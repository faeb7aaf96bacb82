//! The `salon` command: everything a person types, and nothing a room decides.
//!
//! Exit codes: 0 when all went well, 1 when something failed while running, 2 when the command or the configuration is wrong. Commands
//! that talk to a gateway have more: see [`commands`].

mod access;
mod args;
mod arguments;
mod audit;
mod backup;
#[cfg(feature = "bridges")]
mod bridges;
mod chat;
mod clock;
mod commands;
mod completions;
mod demo;
mod guests;
mod json;
mod key;
mod log_copy;
mod log_migrate;
mod mcp;
mod safe;
mod scratch;
mod serve;
mod signals;
mod token;
mod transcript;
mod trouble;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, CliCommand};
use crate::trouble::Trouble;

/// The allocator of the static binary. musl's own takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = guests::watching().or_else(completions::answered) {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&serve::variables::blame(error)),
    };
    if !matches!(cli.command, CliCommand::Serve(_) | CliCommand::Completions { .. } | CliCommand::Man { .. }) {
        // `serve` says it in its log.
        serve::variables::unknown().iter().for_each(|warning| note(format_args!("warning: {warning}")));
    }
    let done = match cli.command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Token(args) => token::run(args),
        CliCommand::Key(args) => key::run(args),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Join(args) => commands::run(guests::join::run(&args)),
        #[cfg(feature = "bridges")]
        CliCommand::Bridge(args) => bridges::run(*args),
        CliCommand::Import(args) => guests::import::run(&args),
        CliCommand::Mcp(args) => mcp::run(*args),
        CliCommand::Chat(args) => chat::run(*args),
        CliCommand::Say(args) => commands::say::run(args),
        CliCommand::Edit(args) => commands::revise::edit(args),
        CliCommand::Retract(args) => commands::revise::retract(args),
        CliCommand::Dm(args) => commands::dm::run(args),
        CliCommand::Call(args) => commands::call::run(*args),
        CliCommand::Read(args) => commands::read::run(args),
        CliCommand::Prompt(args) => commands::read::run_prompt(args),
        CliCommand::Guests(args) => commands::guests::run(&args),
        CliCommand::Tools(args) => commands::tools::run(args),
        CliCommand::Who(args) => commands::who::run(args),
        CliCommand::Topics(args) => commands::topics::run(args),
        CliCommand::Topic(args) => commands::topic::run(*args),
        CliCommand::Approvals(args) => commands::control::list(args),
        CliCommand::Approve(args) => commands::control::decide(args, "approve"),
        CliCommand::Deny(args) => commands::control::decide(args, "deny"),
        CliCommand::Redact(args) => commands::message::redact(args),
        CliCommand::Status(args) => commands::message::status(args),
        CliCommand::Revoke(args) => commands::revoke::run(args),
        CliCommand::History(args) => commands::history::run(args),
        CliCommand::File(args) => commands::file::run(args),
        CliCommand::Search(args) => commands::search::run(args),
        CliCommand::Tail(args) => commands::tail::run(args),
        CliCommand::Framed(args) => commands::framed::run(*args),
        CliCommand::Login(args) => commands::login::run(args),
        CliCommand::Logout(args) => commands::login::logout(&args),
        CliCommand::Backup(args) => backup::backup(args),
        CliCommand::Restore(args) => backup::restore(args),
        CliCommand::Log(args) => log_copy::run(*args),
        CliCommand::Audit(args) => audit::run(args),
        CliCommand::Doctor(args) => commands::doctor::run(args),
        CliCommand::Completions { shell } => completions::print_script(shell),
        CliCommand::Man { folder } => clap_mangen::generate_to(Cli::command(), &folder)
            .map_err(|error| Trouble::failed(anyhow!("`{}` cannot be written: {error}", folder.display()))),
        CliCommand::Openapi => hand_over(format_args!("{}", salon_gateway::openapi())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            if !trouble.is_reported() {
                // It may repeat what somebody else wrote.
                note(format_args!("{}", safe::block(&trouble.to_string())));
            }
            trouble.exit_code()
        }
    }
}

/// Help and version are not mistakes; a mistake is printed like every other error.
fn misused(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) || !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let told = text.trim_end().replace("For more information, try '--help'.", "hint: `--help` lists what there is");
    // A URL in the wrong place may have a password in it.
    note(format_args!("{}", safe::without_passwords(&told)));
    ExitCode::from(2)
}

/// Writes a line to stdout.
pub(crate) fn out(line: fmt::Arguments<'_>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Writes what a command was asked for to stdout. A closed stdout is not an error: its reader wants no more.
pub(crate) fn hand_over(text: fmt::Arguments<'_>) -> Result<(), Trouble> {
    match out(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Trouble::failed(anyhow!("stdout could not be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

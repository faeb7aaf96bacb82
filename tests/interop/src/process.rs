//! Programs as child processes, with nothing of the surroundings but `PATH`, and the processes below them.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use salon_testkit::{DEADLINE, Failure};
use tokio::process::Command;

pub(crate) use salon_testkit::process::{Process, ProcessEnd, Signal, signal};

/// Starts a program in a directory of its own.
pub(crate) fn start(
    name: &str,
    command: &[String],
    directory: &Path,
    variables: &[(&str, &str)],
) -> Result<Process, Failure> {
    Process::start(name, prepared(command, directory, variables))
}

fn prepared(command: &[String], directory: &Path, variables: &[(&str, &str)]) -> Command {
    let mut prepared = Command::new(&command[0]);
    prepared.args(&command[1..]).env_clear().current_dir(directory).stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        prepared.env("PATH", path);
    }
    prepared.envs(variables.iter().copied());
    prepared
}

/// Runs a program to its end.
pub(crate) async fn run(
    command: &[String],
    directory: &Path,
    variables: &[(&str, &str)],
) -> Result<ProcessEnd, Failure> {
    run_for(DEADLINE, command, directory, variables).await
}

/// Runs a program to its end, which must come within `limit`; otherwise the failure says how far it came.
pub(crate) async fn run_for(
    limit: Duration,
    command: &[String],
    directory: &Path,
    variables: &[(&str, &str)],
) -> Result<ProcessEnd, Failure> {
    let name = format!("`{}`", command.join(" "));
    salon_testkit::process::run(&name, prepared(command, directory, variables), limit).await
}

/// The processes below `root` whose command line contains `mark`.
pub(crate) fn below(root: u32, mark: &str) -> Result<Vec<u32>, Failure> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(|e| e.to_string())? {
        let name = entry.map_err(|e| e.to_string())?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that has ended meanwhile is below nobody.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        // The name in parentheses may hold anything; the parent is the second field after it.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent: u32| (id, parent)));
    }
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&elder) = family.get(at) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == elder).map(|(id, _)| *id));
        at += 1;
    }
    let server = |&id: &u32| {
        let line = command_line(id);
        // The starter of a server has the server's command line in its own.
        line.contains(mark) && !line.contains("salon ")
    };
    Ok(family.into_iter().skip(1).filter(server).collect())
}

fn command_line(id: u32) -> String {
    std::fs::read(format!("/proc/{id}/cmdline"))
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
}

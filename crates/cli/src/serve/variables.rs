//! Variables of the environment: those that look like ours and are not, and those that a refused value came from.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use salon_gateway::config::nearest;

use crate::args::Cli;
use crate::safe;

const PREFIX: &str = "SALON_";

/// Ours, but no flag's: read by the commands that talk to a gateway, and by the trials with other people's servers.
const WITHOUT_FLAG: &[&str] = &["SALON_TOKEN", "SALON_FRAMED_SESSION", "SALON_INTEROP", "SALON_NATS_SERVER"];

/// What Kubernetes sets in every container beside a service of the name `salon`. `SALON_PORT` is not here: a person may have set it.
const OF_SERVICES: &[&str] = &["SALON_SERVICE_", "SALON_PORT_"];

/// How many letters a misspelt name may have wrong.
const MAX_WRONG: usize = 4;

/// The variables that look like ours but that no command reads, a sentence for each.
pub(crate) fn unknown() -> Vec<String> {
    judge(env::vars_os().map(|(name, _)| name))
}

fn judge(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known = known();
    let ours = names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with(PREFIX));
    let wrong: BTreeSet<_> = ours
        .filter(|name| !known.contains(name) && !OF_SERVICES.iter().any(|service| name.starts_with(service)))
        .collect();
    let told = wrong.iter().map(|name| {
        let hint = match nearest(name, known.iter().map(String::as_str), MAX_WRONG) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`salon serve --help` tells those there are".into(),
        };
        format!("the variable `{}` is set, but nothing reads it; {hint}", safe::line(name))
    });
    told.collect()
}

/// Every variable that some command reads.
fn known() -> BTreeSet<String> {
    let commands = Cli::command();
    let all = commands.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    let flags = all.flat_map(clap::Command::get_arguments);
    let variables = flags.filter_map(|flag| Some(flag.get_env()?.to_string_lossy().into_owned()));
    variables.chain(WITHOUT_FLAG.iter().map(|name| (*name).to_owned())).collect()
}

/// Names the variable that a refused value came from; clap names its flag, which nobody may have typed.
pub(crate) fn blame(error: clap::Error) -> clap::Error {
    let typed: Vec<_> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    blame_for(hush(error), &typed, |name| env::var_os(name).is_some())
}

/// Keeps a value that may have a password in it from being repeated.
fn hush(mut error: clap::Error) -> clap::Error {
    let is_secret =
        matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(shown)) if shown.starts_with("--log "));
    if is_secret && error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, ContextValue::String("(not shown)".into()));
    }
    error
}

fn blame_for(mut error: clap::Error, typed: &[String], is_set: impl Fn(&str) -> bool) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return error;
    }
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return error };
    let Some(name) = shown.strip_prefix("--").and_then(|shown| shown.split([' ', '=', '[']).next()) else {
        return error;
    };
    let commands = Cli::command();
    let command = typed.first().and_then(|word| commands.find_subcommand(word));
    let flag = command.and_then(|command| command.get_arguments().find(|flag| flag.get_long() == Some(name)));
    let Some(flag) = flag else { return error };
    let names: Vec<_> = flag.get_all_aliases().unwrap_or_default().into_iter().chain([name]).collect();
    let is_typed = typed.iter().filter_map(|word| word.strip_prefix("--")).any(|word| {
        let word = word.split_once('=').map_or(word, |(word, _)| word);
        names.contains(&word)
    });
    if let Some(variable) = flag.get_env().and_then(|name| name.to_str()).filter(|name| !is_typed && is_set(name)) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable.to_owned()));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> String {
        judge(names.iter().map(OsString::from)).join("\n")
    }

    #[test]
    fn a_misspelt_variable_is_told_with_the_nearest() {
        insta::assert_snapshot!(told(&["SALON_MAX_MESAGE", "PATH", "SALON_LISTN", "salon_data", "SALON_COLOUR_OF_THE_DOOR"]), @"
        the variable `SALON_COLOUR_OF_THE_DOOR` is set, but nothing reads it; `salon serve --help` tells those there are
        the variable `SALON_LISTN` is set, but nothing reads it; did you mean `SALON_LISTEN`?
        the variable `SALON_MAX_MESAGE` is set, but nothing reads it; did you mean `SALON_MAX_MESSAGE`?
        ");
    }

    #[test]
    fn those_of_every_command_are_known() {
        let known = ["SALON_CONFIG", "SALON_DATA", "SALON_GATEWAY", "SALON_TOKEN", "SALON_CA", "SALON_INTEROP"];
        assert_eq!(told(&known), "");
        assert_eq!(told(&["SALON_SERVICE_HOST", "SALON_PORT_8787_TCP"]), "", "Kubernetes sets them");
    }
}

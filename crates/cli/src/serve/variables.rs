//! Variables of the environment: those that look like ours and are not, and those that a refused value came from.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use salon_gateway::config::{SETTINGS, nearest, renamed};

use crate::args::Cli;
use crate::safe;
use crate::trouble::Trouble;

const PREFIX: &str = "SALON_";

/// Ours, but no flag's: read by the commands that talk to a gateway, and by the trials with other people's servers.
const WITHOUT_FLAG: &[&str] =
    &["SALON_TOKEN", "SALON_FRAMED_SESSION", "SALON_FAKETIME", "SALON_INTEROP", "SALON_NATS_SERVER"];

/// What Kubernetes sets in every container beside a service of the name `salon`. `SALON_PORT` is not here: a person may have set it.
const OF_SERVICES: &[&str] = &["SALON_SERVICE_", "SALON_PORT_"];

/// How many letters a misspelt name may have wrong.
const MAX_WRONG: usize = 4;

/// The variables that look like ours but that no command reads, a sentence for each.
pub(crate) fn unknown() -> Vec<String> {
    judge(env::vars_os().map(|(name, _)| name))
}

fn judge(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known_names = known_names();
    let ours = names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with(PREFIX));
    let wrong: BTreeSet<_> = ours
        .filter(|name| !known_names.contains(name) && !OF_SERVICES.iter().any(|service| name.starts_with(service)))
        .collect();
    let told = wrong.iter().map(|name| {
        let hint = match nearest(name, known_names.iter().map(String::as_str), MAX_WRONG) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`salon serve --help` tells those there are".into(),
        };
        format!("the variable `{}` is set, but nothing reads it; {hint}", safe::line(name))
    });
    told.collect()
}

/// Refuses variables of an earlier version: what they say would be ignored.
pub(crate) fn refuse_renamed() -> Result<(), Trouble> {
    refuse(env::vars_os().map(|(name, _)| name))
}

fn refuse(names: impl Iterator<Item = OsString>) -> Result<(), Trouble> {
    let names: BTreeSet<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let old: Vec<_> = names.iter().filter_map(|name| Some((name, renamed::by_variable(name)?))).collect();
    if old.is_empty() {
        return Ok(());
    }
    let list = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let (is, verb) = if old.len() == 1 { ("the variable", "has") } else { ("the variables", "have") };
    let names = list(old.iter().map(|(name, _)| name.as_str()).collect());
    let now = list(old.iter().map(|(_, setting)| setting.variable.as_str()).collect());
    Err(Trouble::coded(2, format_args!("{is} {names} {verb} another name now"), format_args!("use {now}")))
}

/// Every variable that some command reads.
fn known_names() -> BTreeSet<String> {
    let commands = Cli::command();
    let all = commands.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    let flags = all.flat_map(clap::Command::get_arguments);
    let variables = flags.filter_map(|flag| Some(flag.get_env()?.to_string_lossy().into_owned()));
    variables.chain(WITHOUT_FLAG.iter().map(|name| (*name).to_owned())).collect()
}

/// Names the variable that a refused value came from; clap names its flag, which nobody may have typed.
pub(crate) fn blame(error: clap::Error) -> clap::Error {
    let typed: Vec<_> = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let error = explain_renamed(hush(error), &typed);
    blame_for(error, &typed, |name| env::var_os(name).is_some())
}

/// Names the flag that takes the place of one of an earlier version.
fn explain_renamed(error: clap::Error, typed: &[String]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument || typed.first().is_none_or(|command| command != "serve") {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    match renamed::by_flag(flag) {
        Some(setting) => {
            let told = format!("unexpected argument '{flag}' found\n\nhint: it is called `{}` now\n", setting.flag);
            clap::Error::raw(ErrorKind::UnknownArgument, told)
        }
        None => error,
    }
}

/// Keeps a value that may have a password in it from being repeated.
fn hush(mut error: clap::Error) -> clap::Error {
    let is_secret = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => {
            let flag = shown.split([' ', '=', '[']).next();
            SETTINGS.iter().any(|setting| setting.declaration.is_secret && flag == Some(&setting.flag))
        }
        _ => false,
    };
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
        insta::assert_snapshot!(told(&["SALON_LIMITS_MESAGE", "PATH", "SALON_LISTN", "salon_data", "SALON_COLOUR_OF_THE_DOOR"]), @"
        the variable `SALON_COLOUR_OF_THE_DOOR` is set, but nothing reads it; `salon serve --help` tells those there are
        the variable `SALON_LIMITS_MESAGE` is set, but nothing reads it; did you mean `SALON_LIMITS_MESSAGE`?
        the variable `SALON_LISTN` is set, but nothing reads it; did you mean `SALON_LISTEN`?
        ");
    }

    #[test]
    fn a_variable_of_an_earlier_version_is_refused_with_its_new_name() {
        let refused = |names: &[&str]| refuse(names.iter().map(OsString::from)).expect_err("refused").to_string();
        insta::assert_snapshot!(refused(&["SALON_RATE_LIMIT", "PATH"]), @"
        error: the variable `SALON_RATE_LIMIT` has another name now

        hint: use `SALON_LIMITS_RATE`
        ");
        insta::assert_snapshot!(refused(&["SALON_LOG", "SALON_MAX_MESSAGE"]), @"
        error: the variables `SALON_LOG`, `SALON_MAX_MESSAGE` have another name now

        hint: use `SALON_STORE`, `SALON_LIMITS_MESSAGE`
        ");
        let current = SETTINGS.iter().map(|setting| OsString::from(&setting.variable));
        assert!(refuse(current).is_ok(), "a current name is not refused");
    }

    #[test]
    fn those_of_every_command_are_known() {
        let known_names = ["SALON_CONFIG", "SALON_DATA", "SALON_GATEWAY", "SALON_TOKEN", "SALON_CA", "SALON_INTEROP"];
        assert_eq!(told(&known_names), "");
        assert_eq!(told(&["SALON_SERVICE_HOST", "SALON_PORT_8787_TCP"]), "", "Kubernetes sets them");
    }
}

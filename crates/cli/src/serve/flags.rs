//! The flags of the settings, made from their declarations in `salon_gateway::config`.
//!
//! Deliberately absent: defaults. What neither a flag nor a variable gives is left to the file, and after that to the gateway.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use salon_gateway::config::{InvalidValue, Overrides, SETTINGS, Setting, SettingForm};

/// The setting that other commands have a flag for as well: [`Places`](crate::args::Places) has it.
const DATA: &str = "data";

/// What flags and variables give of the settings, without `data`.
#[derive(Debug, Clone)]
pub(crate) struct SettingFlags(pub(crate) Overrides);

fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.key != DATA)
}

/// The help of a setting's flag.
pub(crate) fn help(key: &str) -> String {
    Setting::of_key(key).map(Setting::help).unwrap_or_default()
}

fn flag(setting: &'static Setting) -> Arg {
    let declaration = setting.declaration;
    let check =
        move |text: &str| -> Result<String, InvalidValue> { (declaration.check)(text).map(|()| text.to_owned()) };
    let flag = Arg::new(&*setting.key)
        .long(setting.flag.trim_start_matches('-'))
        .value_name(declaration.placeholder)
        .env(&*setting.variable)
        .hide_env(true)
        .hide_env_values(declaration.is_secret)
        .help(setting.help())
        .value_parser(check);
    let flag = if declaration.heading.is_empty() { flag } else { flag.help_heading(declaration.heading) };
    match declaration.form {
        SettingForm::Single => flag,
        SettingForm::List => flag.action(ArgAction::Append).value_delimiter(','),
        SettingForm::Switch => flag.num_args(0..=1).require_equals(true).default_missing_value("true"),
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(settings().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self(Overrides::default());
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        take(&mut self.0, settings(), matches)
    }
}

/// What flags and variables give of the settings of NATS, for commands that open a store there.
#[derive(Debug, Clone)]
pub(crate) struct NatsFlags(pub(crate) Overrides);

fn nats_settings() -> impl Iterator<Item = &'static Setting> {
    settings().filter(|setting| setting.key.starts_with("nats."))
}

impl Args for NatsFlags {
    fn augment_args(command: Command) -> Command {
        command.args(nats_settings().map(|setting| flag(setting).help_heading("NATS")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NatsFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self(Overrides::default());
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        take(&mut self.0, nats_settings(), matches)
    }
}

/// Takes what was given of some settings.
fn take(
    overrides: &mut Overrides,
    settings: impl Iterator<Item = &'static Setting>,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    for setting in settings {
        let Some(texts) = matches.get_many::<String>(&setting.key) else { continue };
        let texts: Vec<_> = texts.cloned().collect();
        let unfit = |error: InvalidValue| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error);
        overrides.set(&setting.key, &texts).map_err(unfit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use salon_gateway::config::Config;

    use super::*;
    use crate::args::Cli;
    use crate::serve::ServeArgs;

    fn serve() -> clap::Command {
        Cli::command().find_subcommand("serve").expect("a command of ours").clone()
    }

    #[test]
    fn every_setting_has_its_flag_and_its_variable() {
        let serve = serve();
        let mut flags: Vec<_> = serve
            .get_arguments()
            .filter_map(|flag| Some((format!("--{}", flag.get_long()?), flag.get_env()?.to_str()?.to_owned())))
            .filter(|(flag, _)| flag != "--config")
            .collect();
        let mut settings: Vec<_> = SETTINGS.iter().map(|s| (s.flag.to_owned(), s.variable.to_owned())).collect();
        flags.sort();
        settings.sort();
        assert_eq!(flags, settings);
    }

    #[test]
    fn the_defaults_in_the_help_are_the_defaults() {
        let serve = serve();
        let places = ["config", "data", "audit-file"];
        let mut line = vec!["serve".to_owned()];
        for flag in serve.get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let default = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
            if let (Some(name), Some((default, _))) = (flag.get_long(), default)
                && !places.contains(&name)
            {
                line.push(format!("--{name}={default}"));
            }
        }
        assert!(line.len() > 20, "defaults are found in the help: {line:?}");
        let matches = serve.try_get_matches_from(line).expect("defaults are good values");
        let args = ServeArgs::from_arg_matches(&matches).expect("they are the arguments of `serve`");
        let config = Config::load(None, args.overrides()).expect("a good configuration");
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    }
}

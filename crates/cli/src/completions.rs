//! Shell completions: what clap knows of commands and flags, and the names of rooms, participants and tools, which the gateway knows.
//!
//! The scripts hand the line up to the cursor to `salon complete-names`, which prints a name a line. It prints nothing where nothing is known, fails
//! silently, and takes at most [`NAMES_TIMEOUT`], because a person waits for it. It is no command of [`Cli`]: clap would complete it as well.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use clap_complete::Shell;
use salon_client::Client;
use salon_protocol::{ParticipantId, TopicName};

use crate::access::{Access, Reach};
use crate::args::Cli;
use crate::chat::words;
use crate::trouble::Trouble;
use crate::{commands, hand_over};

const NAMES_TIMEOUT: Duration = Duration::from_secs(1);

/// The most names that are offered.
const MAX_NAMES: usize = 500;

// Bash ends words at the colons of topics, so the word before the cursor is taken from the line, and what stands before its last colon is left out of replies.
const BASH: &str = r#"
_salon_names() {
    local line=${COMP_LINE:0:COMP_POINT} word prefix name names=()
    word=${line##*[[:space:]]}
    prefix=${word%"${word##*:}"}
    [[ $COMP_WORDBREAKS == *:* ]] || prefix=
    while IFS= read -r name; do
        [[ $name == "$word"* ]] && names+=("${name#"$prefix"}")
    done < <("${COMP_WORDS[0]}" complete-names "$line" 2>/dev/null)
    if [[ ${#names[@]} -gt 0 ]]; then
        COMPREPLY=("${names[@]}")
    else
        _salon "$@"
    fi
}
complete -F _salon_names -o nosort -o bashdefault -o default salon
"#;

// The last lines of clap's script, in whose place `ZSH` stands. A script that is autoloaded as `_salon` runs at the first Tab, and completes at once.
const ZSH_END: &str = r#"
if [ "$funcstack[1]" = "_salon" ]; then
    _salon "$@"
else
    compdef _salon salon
fi
"#;

const ZSH: &str = r#"
_salon_names() {
    local -a names
    names=(${(f)"$(salon complete-names "$LBUFFER" 2>/dev/null)"})
    (( $#names )) && compadd -a names || _salon "$@"
}
compdef _salon_names salon
if [ "$funcstack[1]" = "_salon" ]; then
    _salon_names "$@"
fi
"#;

const FISH: &str = r"
complete -c salon -a '(salon complete-names (commandline -cp) 2>/dev/null)'
";

/// Commands whose arguments are names and never files, so that fish offers no files for them.
fn commands_without_files(cli: &Command) -> String {
    let has_topic = |command: &&Command| command.get_positionals().any(|argument| argument.get_id() == "topic");
    let takes_files = |command: &&Command| matches!(command.get_name(), "join");
    let found = cli.get_subcommands().filter(has_topic).filter(|command| !takes_files(command));
    found.map(Command::get_name).collect::<Vec<_>>().join(" ")
}

/// Prints the script for a shell.
pub(crate) fn print_script(shell: Shell) -> Result<(), Trouble> {
    let (mut cli, mut script) = (Cli::command(), Vec::new());
    clap_complete::generate(shell, &mut cli, "salon", &mut script);
    let names = match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => {
            format!("{FISH}complete -c salon -n '__fish_seen_subcommand_from {}' -f\n", commands_without_files(&cli))
        }
        _ => String::new(),
    };
    let script = String::from_utf8_lossy(&script).replace(ZSH_END, "");
    let script = format!("{}\n{names}", script.trim_end());
    hand_over(format_args!("{}", script.trim_end()))
}

/// Answers a script; `None` where something else was asked for.
pub(crate) fn answered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != "complete-names" {
        return None;
    }
    let line = arguments.next().and_then(|line| line.into_string().ok()).unwrap_or_default();
    // A script has no use for an error.
    let _ = print_names(&line);
    Some(ExitCode::SUCCESS)
}

/// Prints the names that could stand at the end of a line.
fn print_names(line: &str) -> Result<(), Trouble> {
    let Some((wanted, access)) = NameQuery::read(line) else { return Ok(()) };
    commands::run(async move {
        let asked = async {
            let Reach { client, .. } = access.reach().ok()?;
            wanted.ask(&client).await
        };
        let mut names = tokio::time::timeout(NAMES_TIMEOUT, asked).await.ok().flatten().unwrap_or_default();
        // A name of somebody else's becomes part of a command line.
        names.retain(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/@~".contains(c)));
        names.sort();
        names.truncate(MAX_NAMES);
        if names.is_empty() { Ok(()) } else { hand_over(format_args!("{}", names.join("\n"))) }
    })
}

/// Whose names are wanted.
#[derive(Debug, PartialEq, Eq)]
enum NameQuery {
    Topics,
    Participants(TopicName),
    Tools(TopicName, ParticipantId),
}

impl NameQuery {
    /// What the argument at the end of a line names, and how the gateway is reached.
    fn read(line: &str) -> Option<(Self, Access)> {
        let end = line.rfind(char::is_whitespace)?;
        let given = words(&line[..end]).ok()?;
        if line[end..].trim_start().starts_with('-') {
            return None;
        }
        let whole = Cli::command().ignore_errors(true);
        let matches = whole.clone().try_get_matches_from(&given).ok()?;
        let (mut command, mut matches) = (&whole, &matches);
        while let Some((name, inner)) = matches.subcommand() {
            (command, matches) = (command.find_subcommand(name)?, inner);
        }
        if given.last().is_some_and(|word| takes_value(command, word)) {
            return None;
        }
        let value = |id: &str| matches.try_get_raw(id).ok().flatten()?.next()?.to_str();
        let next = next_positional(command, matches)?;
        let query = match next {
            "topic" | "topics" => Self::Topics,
            "participant" => Self::Participants(value("topic")?.parse().ok()?),
            "tool" => Self::Tools(value("topic")?.parse().ok()?, value("participant")?.parse().ok()?),
            _ => return None,
        };
        Some((query, Access::from_arg_matches(matches).unwrap_or_default()))
    }

    async fn ask(&self, client: &Client) -> Option<Vec<String>> {
        match self {
            Self::Topics => Some(client.topics().await.ok()?.iter().map(ToString::to_string).collect()),
            Self::Participants(topic) => {
                let present = client.participants(topic).await.ok()?;
                Some(present.iter().map(|one| one.id.to_string()).collect())
            }
            Self::Tools(topic, participant) => {
                let offers = client.tools(topic, Some(participant)).await.ok()?;
                let tools = offers.into_iter().filter_map(|offer| offer.items).flatten();
                Some(tools.map(|tool| tool.name).collect())
            }
        }
    }
}

/// Whether a word is a flag whose value comes next.
fn takes_value(command: &Command, word: &str) -> bool {
    let Some(name) = word.strip_prefix('-').filter(|_| !word.contains('=')) else { return false };
    command.get_arguments().filter(|argument| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)).any(
        |argument| match name.strip_prefix('-') {
            Some(long) => argument.get_long() == Some(long),
            None => argument.get_short().is_some_and(|short| name.ends_with(short)),
        },
    )
}

/// The first argument without a flag that has no value yet.
fn next_positional<'a>(command: &'a Command, matches: &ArgMatches) -> Option<&'a str> {
    let is_open = |id: &str| matches.try_get_raw(id).ok().flatten().is_none_or(|mut values| values.next().is_none());
    command.get_positionals().map(|argument| argument.get_id().as_str()).find(|id| is_open(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_cursor_says_what_is_named() {
        let topic = || "room:alpha".parse().expect("a topic");
        for (line, expected) in [
            ("salon chat ", Some(NameQuery::Topics)),
            ("salon chat room:al", Some(NameQuery::Topics)),
            ("salon history --limit 3 ", Some(NameQuery::Topics)),
            ("salon file put ", Some(NameQuery::Topics)),
            ("salon call room:alpha ro", Some(NameQuery::Participants(topic()))),
            ("salon call --as alice room:alpha ", Some(NameQuery::Participants(topic()))),
            ("salon call 'room:alpha' robot ", Some(NameQuery::Tools(topic(), "robot".parse().expect("an id")))),
            ("salon call room:alpha robot move ", None),
            ("salon call --as ", None),
            ("salon call --as=alice ", Some(NameQuery::Topics)),
            ("salon call room:alpha --", None),
            ("salon say room:alpha he", None),
            ("salon cha", None),
            ("salon", None),
            ("salon call 'room:alpha ", None),
            ("", None),
        ] {
            assert_eq!(NameQuery::read(line).map(|(query, _)| query), expected, "{line}");
        }
        let (_, access) = NameQuery::read("salon who --gateway http://127.0.0.1:9 ").expect("a query");
        assert_eq!(access.gateway.as_deref(), Some("http://127.0.0.1:9"));
    }
}

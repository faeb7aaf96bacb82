//! What a line means: something to say, or a command with its arguments. Pure; knows no room.

use std::time::Duration;

use salon_gateway::config::Deadline;
use salon_protocol::ParticipantId;

/// A command, as `/help` and completion show it.
pub(crate) struct ChatCommand {
    pub(crate) name: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) about: &'static str,
}

pub(crate) const COMMANDS: &[ChatCommand] = &[
    command("call", "PARTICIPANT TOOL key=value…", "call a tool; Tab completes all of it"),
    command("tools", "[PARTICIPANT]", "what somebody offers, or everybody"),
    command("read", "PARTICIPANT [URI]", "read a resource, or list them"),
    command("who", "", "who is here"),
    command("status", "[WORD] [for TIME] [TEXT]", "what you are doing: `away for 30m lunch`; without a word, nothing"),
    command("reply", "[@PARTICIPANT] TEXT", "reply to what was said last, by them or by anybody"),
    command("edit", "TEXT", "edit what you said last"),
    command("retract", "", "take back what you said last"),
    command("answer", "[#N] TEXT or key=value…", "answer the question put to you"),
    command("decline", "[#N]", "do not answer it"),
    command("cancel", "[PARTICIPANT]", "cancel your running call"),
    command("approve", "[ID]", "let a call through that waits for approval"),
    command("deny", "[ID]", "refuse it"),
    command("pause", "PARTICIPANT [REASON]", "let somebody read and nothing else"),
    command("stop", "[REASON]", "pause everyone who is not a person"),
    command("resume", "[PARTICIPANT]", "end a pause, or the stop"),
    command("history", "", "go to the oldest that is loaded, and load more"),
    command("all", "", "show or fold handshakes, lists and long answers (F2)"),
    command("help", "", "this list (F1)"),
    command("quit", "", "leave (Ctrl-D)"),
];

const fn command(name: &'static str, usage: &'static str, about: &'static str) -> ChatCommand {
    ChatCommand { name, usage, about }
}

/// What the person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChatRequest {
    Say(String),
    Call {
        to: String,
        tool: String,
        pairs: Vec<String>,
    },
    Tools(Option<String>),
    Read {
        of: String,
        uri: Option<String>,
    },
    Who,
    /// Say what one is doing; no word removes it.
    Status {
        word: Option<String>,
        lasts: Option<Duration>,
        text: Option<String>,
    },
    Reply {
        by: Option<String>,
        text: String,
    },
    Edit(String),
    Retract,
    Answer {
        number: Option<usize>,
        text: String,
    },
    Decline {
        number: Option<usize>,
    },
    Cancel(Option<String>),
    /// Decide about a held call, by the beginning of its id.
    Decide {
        id: String,
        approves: bool,
    },
    History,
    All,
    Help,
    Quit,
}

/// Reads a line. A line that begins with two slashes says what follows the first.
pub(crate) fn parse(line: &str) -> Result<ChatRequest, String> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/').filter(|rest| !rest.starts_with('/')) else {
        return Ok(ChatRequest::Say(line.strip_prefix('/').unwrap_or(line).to_owned()));
    };
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let one = || (!rest.is_empty()).then(|| rest.to_owned());
    match name {
        "call" => {
            let mut words = words(rest)?.into_iter();
            match (words.next(), words.next()) {
                (Some(to), Some(tool)) => Ok(ChatRequest::Call { to, tool, pairs: words.collect() }),
                _ => Err(usage("call")),
            }
        }
        "tools" => Ok(ChatRequest::Tools(one())),
        "read" => {
            let (of, uri) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let uri = Some(uri.trim()).filter(|uri| !uri.is_empty()).map(str::to_owned);
            if of.is_empty() { Err(usage("read")) } else { Ok(ChatRequest::Read { of: of.to_owned(), uri }) }
        }
        "who" => Ok(ChatRequest::Who),
        "status" => status(rest),
        "reply" => {
            let (by, text) = match rest.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace)) {
                Some((by, text)) => (Some(by.to_owned()), text.trim()),
                None => (None, rest),
            };
            if text.is_empty() { Err(usage("reply")) } else { Ok(ChatRequest::Reply { by, text: text.to_owned() }) }
        }
        "edit" => one().map(ChatRequest::Edit).ok_or_else(|| usage("edit")),
        "retract" => Ok(ChatRequest::Retract),
        "answer" => {
            let (number, text) = numbered(rest)?;
            if text.is_empty() {
                Err(usage("answer"))
            } else {
                Ok(ChatRequest::Answer { number, text: text.to_owned() })
            }
        }
        "decline" => Ok(ChatRequest::Decline { number: numbered(rest)?.0 }),
        "cancel" => Ok(ChatRequest::Cancel(one())),
        "approve" | "deny" => Ok(ChatRequest::Decide { id: rest.to_owned(), approves: name == "approve" }),
        "pause" if rest.is_empty() => Err(usage("pause")),
        "pause" => {
            let (who, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Ok(host_tool(
                "participant.pause",
                &[("participant", who.trim_start_matches('@')), ("reason", reason.trim())],
            ))
        }
        "stop" => Ok(host_tool("room.stop", &[("reason", rest)])),
        "resume" if rest.is_empty() => Ok(host_tool("room.resume", &[])),
        "resume" => Ok(host_tool("participant.resume", &[("participant", rest.trim_start_matches('@'))])),
        "history" => Ok(ChatRequest::History),
        "all" => Ok(ChatRequest::All),
        "help" => Ok(ChatRequest::Help),
        "quit" => Ok(ChatRequest::Quit),
        _ => {
            let alike = COMMANDS.iter().find(|command| !name.is_empty() && alike(command.name, name));
            let hint = alike.map_or("`/help` lists them".to_owned(), |command| format!("is it `/{}`?", command.name));
            Err(format!("there is no command `/{name}`: {hint}"))
        }
    }
}

/// Reads `WORD [for TIME] [TEXT]`. Which words there are, the tool says.
fn status(line: &str) -> Result<ChatRequest, String> {
    let first = |line: &str| {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (word.to_owned(), rest.trim().to_owned())
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let (word, mut text) = first(line);
    let mut lasts = None;
    if let Some((time, rest)) = text.strip_prefix("for ").map(|rest| first(rest.trim_start())) {
        // A text may begin with this word as well.
        if time.starts_with(|c: char| c.is_ascii_digit()) {
            lasts = Some(time.parse::<Deadline>().map_err(|error| error.to_string())?.0);
            text = rest;
        }
    }
    Ok(ChatRequest::Status { word: some(word), lasts, text: some(text) })
}

/// The call of one of the gateway's own tools, with the arguments that are there.
fn host_tool(tool: &str, arguments: &[(&str, &str)]) -> ChatRequest {
    let given = arguments.iter().filter(|(_, value)| !value.is_empty());
    let pairs = given.map(|(name, value)| format!("{name}={value}")).collect();
    ChatRequest::Call { to: ParticipantId::host().as_str().to_owned(), tool: tool.to_owned(), pairs }
}

fn usage(name: &str) -> String {
    let usage = COMMANDS.iter().find(|command| command.name == name).map_or("", |command| command.usage);
    format!("it is `/{name} {usage}`")
}

fn numbered(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(rest) = text.strip_prefix('#') else { return Ok((None, text)) };
    let (number, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match number.parse() {
        Ok(number) => Ok((Some(number), rest.trim())),
        Err(_) => Err(format!("`#{number}` is no question's number")),
    }
}

/// Whether one is the beginning of the other, or they differ in one letter or two that changed places.
fn alike(name: &str, typed: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<_> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let differing = name.chars().zip(typed.chars()).filter(|(a, b)| a != b).count();
    name.starts_with(typed)
        || typed.starts_with(name)
        || sorted(name) == sorted(typed)
        || (name.len() == typed.len() && differing == 1)
}

/// Splits at blanks, as a shell would: quotes hold a word together, a backslash takes the next character as it is. JSON stays whole:
/// an object or array that begins a word or follows its `=` goes to its closing bracket.
pub(crate) fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut word = String::new();
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            match c {
                c if c.is_whitespace() => break,
                '{' | '[' if word.is_empty() || word.ends_with('=') => {
                    let end = closing(rest).ok_or_else(|| format!("`{c}` is not closed"))?;
                    word.push_str(&rest[..end]);
                    rest = &rest[end..];
                }
                '"' | '\'' => {
                    let end = quoted(after, c, &mut word).ok_or_else(|| format!("`{c}` is not closed"))?;
                    rest = &after[end..];
                }
                '\\' => {
                    let taken = after.chars().next().unwrap_or('\\');
                    word.push(taken);
                    rest = after.get(taken.len_utf8()..).unwrap_or_default();
                }
                c => {
                    word.push(c);
                    rest = after;
                }
            }
        }
        words.push(word);
        rest = rest.trim_start();
    }
    Ok(words)
}

/// Where a quoted part ends, after its quote.
fn quoted(text: &str, quote: char, word: &mut String) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some(at + 1),
            '\\' if quote == '"' => word.push(chars.next()?.1),
            c => word.push(c),
        }
    }
    None
}

/// Where the bracket that begins a text is closed.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            '{' | '[' if !in_text => depth += 1,
            '}' | ']' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_and_what_they_mean() {
        let say = |text: &str| Ok(ChatRequest::Say(text.into()));
        let some = |text: &str| Some(text.to_owned());
        for (line, meant) in [
            (" hello ", say("hello")),
            ("//call is a command", say("/call is a command")),
            ("/who", Ok(ChatRequest::Who)),
            (
                "/call rover move x=1 label=\"a b\" where={\"a\": [1, \"]\"]} it\\ s",
                Ok(ChatRequest::Call {
                    to: "rover".into(),
                    tool: "move".into(),
                    pairs: vec!["x=1".into(), "label=a b".into(), "where={\"a\": [1, \"]\"]}".into(), "it s".into()],
                }),
            ),
            ("/call rover", Err("it is `/call PARTICIPANT TOOL key=value…`".into())),
            ("/call rover say text='a", Err("`'` is not closed".into())),
            ("/call rover say where={\"}", Err("`{` is not closed".into())),
            ("/read files", Ok(ChatRequest::Read { of: "files".into(), uri: None })),
            (
                "/read files  file:///srv/a b.txt",
                Ok(ChatRequest::Read { of: "files".into(), uri: some("file:///srv/a b.txt") }),
            ),
            ("/read", Err("it is `/read PARTICIPANT [URI]`".into())),
            ("/status", Ok(ChatRequest::Status { word: None, lasts: None, text: None })),
            ("/status away", Ok(ChatRequest::Status { word: some("away"), lasts: None, text: None })),
            (
                "/status away for 30m out  to lunch",
                Ok(ChatRequest::Status {
                    word: some("away"),
                    lasts: Some(Duration::from_mins(30)),
                    text: some("out  to lunch"),
                }),
            ),
            (
                "/status blocked for want of time",
                Ok(ChatRequest::Status { word: some("blocked"), lasts: None, text: some("for want of time") }),
            ),
            ("/status away for 3x", Err("`3x` is not a length of time more than 0 such as `30s` or `5m`".into())),
            ("/reply @bob yes", Ok(ChatRequest::Reply { by: some("bob"), text: "yes".into() })),
            ("/reply bob is right", Ok(ChatRequest::Reply { by: None, text: "bob is right".into() })),
            ("/reply", Err("it is `/reply [@PARTICIPANT] TEXT`".into())),
            ("/answer #2 blue", Ok(ChatRequest::Answer { number: Some(2), text: "blue".into() })),
            ("/answer #x blue", Err("`#x` is no question's number".into())),
            ("/decline", Ok(ChatRequest::Decline { number: None })),
            ("/cancel rover", Ok(ChatRequest::Cancel(some("rover")))),
            ("/approve 0198", Ok(ChatRequest::Decide { id: "0198".into(), approves: true })),
            ("/deny", Ok(ChatRequest::Decide { id: String::new(), approves: false })),
            (
                "/pause @bot too loud",
                Ok(host_tool("participant.pause", &[("participant", "bot"), ("reason", "too loud")])),
            ),
            ("/pause", Err("it is `/pause PARTICIPANT [REASON]`".into())),
            ("/stop", Ok(host_tool("room.stop", &[]))),
            ("/resume bot", Ok(host_tool("participant.resume", &[("participant", "bot")]))),
            ("/resume", Ok(host_tool("room.resume", &[]))),
            ("/claL", Err("there is no command `/claL`: `/help` lists them".into())),
            ("/clal x", Err("there is no command `/clal`: is it `/call`?".into())),
            ("/", Err("there is no command `/`: `/help` lists them".into())),
        ] {
            assert_eq!(parse(line), meant, "{line}");
        }
    }

    #[test]
    fn every_command_is_understood() {
        for command in COMMANDS {
            let line = format!("/{} @a b c", command.name);
            assert!(parse(&line).is_ok(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in "[/a-z \"'\\\\{}\\[\\]=#@日]{0,30}") {
            let _ = parse(&line);
        }
    }
}

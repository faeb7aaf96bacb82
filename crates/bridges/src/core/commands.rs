//! Commands that people type on the platform: `!help`, `!who`, `!tools`, `!call`, `!approve`, `!deny`.

use salon_protocol::ParticipantId;
use serde_json::{Map, Value};

/// What `!help` answers.
pub(crate) const HELP: &str = "\
!who – who is in the room
!tools [PARTICIPANT] – what can be called
!call PARTICIPANT TOOL key=value … – call a tool
!approve ID, !deny ID – decide about a call that waits
!help – this list";

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BridgeCommand {
    Help,
    Who,
    Tools { participant: Option<ParticipantId> },
    Call { callee: ParticipantId, tool: String, arguments: Map<String, Value> },
    Decide { id: String, approve: bool },
}

/// Reads a text; `None` where it is no command, an error where it is one that cannot be understood.
pub(crate) fn parse_command(text: &str) -> Option<Result<BridgeCommand, String>> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let participant =
        |name: &str| ParticipantId::new(name.trim_start_matches('@')).map_err(|error| format!("`{name}`: {error}"));
    Some(match word {
        "!help" => Ok(BridgeCommand::Help),
        "!who" => Ok(BridgeCommand::Who),
        "!tools" if rest.is_empty() => Ok(BridgeCommand::Tools { participant: None }),
        "!tools" => participant(rest).map(|participant| BridgeCommand::Tools { participant: Some(participant) }),
        "!approve" | "!deny" if rest.is_empty() => Err(format!("which call? `{word} ID`")),
        "!approve" | "!deny" => Ok(BridgeCommand::Decide { id: rest.to_owned(), approve: word == "!approve" }),
        "!call" => parse_call(rest, participant),
        _ => return None,
    })
}

fn parse_call(
    rest: &str,
    participant: impl Fn(&str) -> Result<ParticipantId, String>,
) -> Result<BridgeCommand, String> {
    const USAGE: &str = "write `!call PARTICIPANT TOOL key=value …`";
    let (callee, rest) = rest.split_once(char::is_whitespace).ok_or(USAGE)?;
    let rest = rest.trim_start();
    let (tool, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if tool.is_empty() {
        return Err(USAGE.into());
    }
    let rest = rest.trim();
    let arguments = if rest.starts_with('{') {
        serde_json::from_str(rest).map_err(|error| format!("the arguments are not a JSON object: {error}"))?
    } else {
        let words = words(rest)?;
        let pairs = words.iter().map(|word| {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not `key=value`"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            Ok((key.to_owned(), value))
        });
        pairs.collect::<Result<Map<_, _>, String>>()?
    };
    Ok(BridgeCommand::Call { callee: participant(callee)?, tool: tool.to_owned(), arguments })
}

/// Words separated by white space; what is between double quotes is one.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut in_quotes, mut is_word) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        match c {
            '"' => (in_quotes, is_word) = (!in_quotes, true),
            c if c.is_whitespace() && !in_quotes => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if in_quotes {
        return Err("a quotation mark is missing".into());
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_as_they_are_typed() {
        let shown = |text: &str| match parse_command(text) {
            None => "chat".to_owned(),
            Some(Err(error)) => format!("error: {error}"),
            Some(Ok(BridgeCommand::Call { callee, tool, arguments })) => {
                format!("call {callee} {tool} {}", Value::Object(arguments))
            }
            Some(Ok(command)) => format!("{command:?}"),
        };
        insta::assert_snapshot!(shown("!call robot move x=1 y=-2.5 note=\"a b\" on=true"), @r#"call robot move {"note":"a b","on":true,"x":1,"y":-2.5}"#);
        insta::assert_snapshot!(shown("!call robot move {\"x\": [1]}"), @r#"call robot move {"x":[1]}"#);
        insta::assert_snapshot!(shown("!call @robot stop"), @"call robot stop {}");
        insta::assert_snapshot!(shown("!call robot"), @"error: write `!call PARTICIPANT TOOL key=value …`");
        insta::assert_snapshot!(shown("!call robot move fast"), @"error: `fast` is not `key=value`");
        insta::assert_snapshot!(shown("!call robot move note=\"a"), @"error: a quotation mark is missing");
        insta::assert_snapshot!(shown("!call ro*bot move"), @r#"error: `ro*bot`: '*' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~"#);
        insta::assert_snapshot!(shown("!approve 3f9a"), @r#"Decide { id: "3f9a", approve: true }"#);
        insta::assert_snapshot!(shown("!deny"), @"error: which call? `!deny ID`");
        insta::assert_snapshot!(shown("!important news"), @"chat");
        insta::assert_snapshot!(shown("no !help"), @"chat");
    }
}

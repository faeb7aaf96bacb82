//! Lines of IRC: RFC 1459 §2.3.1, with the tags of IRCv3.

/// A line, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct IrcLine {
    pub(super) tags: Vec<(String, String)>,
    /// The nick of `:nick!user@host`, or the server.
    pub(super) source: Option<String>,
    pub(super) command: String,
    pub(super) params: Vec<String>,
}

impl IrcLine {
    /// Reads a line without its line break; `None` where it has no command.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut rest = line.trim_start_matches(' ');
        let mut parsed = Self::default();
        if let Some(tagged) = rest.strip_prefix('@') {
            let (tags, after) = tagged.split_once(' ')?;
            parsed.tags = tags.split(';').filter(|tag| !tag.is_empty()).map(read_tag).collect();
            rest = after.trim_start_matches(' ');
        }
        if let Some(sourced) = rest.strip_prefix(':') {
            let (source, after) = sourced.split_once(' ')?;
            parsed.source = Some(source.split(['!', '@']).next().unwrap_or_default().to_owned());
            rest = after.trim_start_matches(' ');
        }
        let (command, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if command.is_empty() {
            return None;
        }
        parsed.command = command.to_ascii_uppercase();
        loop {
            rest = rest.trim_start_matches(' ');
            if let Some(last) = rest.strip_prefix(':') {
                parsed.params.push(last.to_owned());
                return Some(parsed);
            }
            if rest.is_empty() {
                return Some(parsed);
            }
            let (param, after) = rest.split_once(' ').unwrap_or((rest, ""));
            parsed.params.push(param.to_owned());
            rest = after;
        }
    }

    pub(super) fn param(&self, index: usize) -> &str {
        self.params.get(index).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

/// IRCv3 "Message Tags", escaping of values.
fn read_tag(tag: &str) -> (String, String) {
    let (key, escaped) = tag.split_once('=').unwrap_or((tag, ""));
    let mut value = String::new();
    let mut characters = escaped.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(':') => value.push(';'),
                Some('s') => value.push(' '),
                Some('r') => value.push('\r'),
                Some('n') => value.push('\n'),
                Some(other) => value.push(other),
                None => {}
            },
            c => value.push(c),
        }
    }
    (key.to_owned(), value)
}

/// A text that cannot end its line and begin another.
pub(super) fn one_line(text: &str) -> String {
    text.replace(['\r', '\n', '\0'], " ")
}

/// A nick or a channel as servers compare them.
pub(super) fn folded(name: &str) -> String {
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_as_servers_write_them() {
        let line = IrcLine::parse("@account=ann;time=x\\:y :ann!a@h PRIVMSG #lab :hello : there").expect("a line");
        assert_eq!(line.source.as_deref(), Some("ann"));
        assert_eq!((line.command.as_str(), line.param(0), line.param(1)), ("PRIVMSG", "#lab", "hello : there"));
        assert_eq!((line.tag("account"), line.tag("time"), line.tag("none")), (Some("ann"), Some("x;y"), None));
        let line = IrcLine::parse("ping  a b :").expect("a line");
        assert_eq!((line.command.as_str(), line.params), ("PING", vec!["a".to_owned(), "b".into(), String::new()]));
        assert_eq!(IrcLine::parse(""), None);
        assert_eq!(IrcLine::parse(":server"), None);
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "[@: ;=\\\\a-c!\u{1}é]{0,40}") {
            let _ = IrcLine::parse(&line);
        }
    }
}

//! The command blocks of a page.

/// What a comment says of the block after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    Run,
    Prints(String),
    Eventually(String),
    Background(String),
    /// The gateway that runs is stopped first.
    Restart(String),
    /// Another person runs it, on another machine, with these files in the directory.
    Colleague {
        files: Vec<String>,
        prints: String,
    },
    Not,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Where its first command is.
    pub(super) line: usize,
    pub(super) code: String,
    pub(super) mark: Mark,
}

/// The blocks, or what is wrong with a comment, after its line.
pub(super) fn command_blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut mark = Mark::Run;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- run: ") {
            mark = read(comment)
                .ok_or_else(|| format!("{}: `{line}` is not a comment that this test knows", index + 1))?;
        }
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let code: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```")).collect();
        let mark = std::mem::replace(&mut mark, Mark::Run);
        if language.is_empty() {
            blocks.push(Block { line: index + 2, code: code.join("\n"), mark });
        }
    }
    Ok(blocks)
}

fn read(comment: &str) -> Option<Mark> {
    let comment = comment.strip_suffix(" -->")?;
    let quoted = |text: &str| text.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
    if let Some(reason) = comment.strip_prefix("not, ") {
        return (!reason.is_empty()).then_some(Mark::Not);
    }
    if let Some(text) = comment.strip_prefix("background until ") {
        return quoted(text).map(Mark::Background);
    }
    if let Some(text) = comment.strip_prefix("restart until ") {
        return quoted(text).map(Mark::Restart);
    }
    if let Some(rest) = comment.strip_prefix("colleague with ") {
        let (files, text) = rest.split_once(", prints ")?;
        let files = files.split(", ").map(quoted).collect::<Option<_>>()?;
        return Some(Mark::Colleague { files, prints: quoted(text)? });
    }
    let text = comment.strip_prefix("prints ")?;
    match text.strip_suffix(" eventually") {
        Some(text) => quoted(text).map(Mark::Eventually),
        None => quoted(text).map(Mark::Prints),
    }
}

/// What the reading of a page is held to; the test binary has a main function of its own, which calls this.
pub(crate) fn check() -> Result<(), String> {
    let page = "```\na\n```\n<!-- run: prints \"4 2\" -->\n```\nb\nc\n```\n```toml\nd = 1\n```\n<!-- run: background until \"e\" -->\n\n```\nf\n```\n<!-- run: colleague with \"g\", \"G\", prints \"h\" -->\n```\ni\n```\n<!-- run: restart until \"j\" -->\n```\nk\n```\n";
    let block = |line, code: &str, mark| Block { line, code: code.into(), mark };
    let expected = [
        block(2, "a", Mark::Run),
        block(6, "b\nc", Mark::Prints("4 2".into())),
        block(15, "f", Mark::Background("e".into())),
        block(19, "i", Mark::Colleague { files: vec!["g".into(), "G".into()], prints: "h".into() }),
        block(23, "k", Mark::Restart("j".into())),
    ];
    let found = command_blocks(page)?;
    if found != expected {
        return Err(format!("{found:?}"));
    }
    match command_blocks("<!-- run: never -->\n") {
        Err(_) => Ok(()),
        Ok(_) => Err("an unknown comment is not found".into()),
    }
}

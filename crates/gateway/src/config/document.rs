//! docs/reference/settings.md: the table of the settings and the example at its end follow from the declarations.

use std::fmt::Write;

use super::*;

pub(super) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
const TABLE: &str = "<!-- The table is made from crates/gateway/src/config/settings.rs: UPDATE_DOCS=1 cargo test -p salon-gateway the_document -->\n";
const TABLE_END: &str = "<!-- End of the table. -->\n";
const EXAMPLE: &str = "<!-- The example is made in the same way. -->\n";

/// One row for each setting.
fn table() -> String {
    let mut table = "| key | variable | flag | default | meaning |\n|---|---|---|---|---|\n".to_owned();
    for Setting { key, flag, variable, declaration } in SETTINGS.iter() {
        let default = match (declaration.shown_default, declaration.default) {
            (Some(shown), _) => shown.to_owned(),
            (None, Some(default)) => format!("`{default}`"),
            (None, None) => "none".to_owned(),
        };
        let mut paragraphs = declaration.paragraphs();
        let meaning = format!("{}. {}", paragraphs.next().expect("the help"), paragraphs.collect::<Vec<_>>().join(" "));
        let _ = writeln!(table, "| `{key}` | `{variable}` | `{flag}` | {default} | {} |", meaning.trim_end());
    }
    table
}

/// A file with every setting at its default; what has none is commented out.
fn example() -> String {
    let mut section = "";
    let mut example = "```toml\n".to_owned();
    for Setting { declaration, .. } in SETTINGS.iter() {
        if declaration.section != section {
            section = declaration.section;
            let _ = write!(example, "\n[{section}]\n");
        }
        let name = declaration.name;
        let _ = match (declaration.default, declaration.example) {
            (Some(default), _) => writeln!(example, "{name} = {}", value(default)),
            (None, Some(instead)) => writeln!(example, "# {name} = {}", value(instead)),
            (None, None) => writeln!(example, "{name} = []"),
        };
    }
    example + "```\n"
}

/// A value as TOML has it: numbers and switches are bare, everything else is text.
fn value(text: &str) -> String {
    let is_bare = text.parse::<u64>().is_ok() || text.parse::<bool>().is_ok();
    if is_bare { text.to_owned() } else { format!("{text:?}") }
}

/// The document with what is between two marks replaced; the second may be its end.
fn replaced(document: &str, from: &str, to: &str, text: &str) -> String {
    let (before, rest) = document.split_once(from).expect("the mark");
    let (_, after) = if to.is_empty() { ("", "") } else { rest.split_once(to).expect("the second mark") };
    format!("{before}{from}\n{text}{}{to}{after}", if to.is_empty() { "" } else { "\n" })
}

#[test]
fn the_document_is_what_the_declarations_say() {
    let document = std::fs::read_to_string(PATH).expect("a document");
    let wanted = replaced(&document, TABLE, TABLE_END, &table());
    let wanted = replaced(&wanted, EXAMPLE, "", &example());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(PATH, wanted).expect("written");
    }
    assert!(
        document == wanted,
        "docs/reference/settings.md is not what crates/gateway/src/config/settings.rs declares\n\n\
         hint: run `UPDATE_DOCS=1 cargo test -p salon-gateway the_document`"
    );
}

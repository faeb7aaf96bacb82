//! THIRD-PARTY-NOTICES: the licence texts that have to go with a binary, collected from the sources it was built from.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::crates::LinkedCrate;

/// Something beside crates that is linked into the binary, with the file of its licence.
#[derive(Debug, Clone)]
pub(crate) struct LinkedRuntime {
    pub(crate) name: &'static str,
    pub(crate) license: &'static str,
    pub(crate) text: PathBuf,
}

/// For crates that name their licence and do not have its text.
pub(crate) struct StandardTexts {
    pub(crate) apache: String,
    /// With `<year> <copyright holders>` to be filled in.
    pub(crate) mit: String,
}

impl StandardTexts {
    fn of(&self, linked: &LinkedCrate) -> Option<String> {
        let license = linked.license.as_deref()?;
        if license.contains("Apache-2.0") {
            return Some(tidied(&self.apache));
        }
        let holders = format!("the authors of {}", linked.name);
        license.contains("MIT").then(|| tidied(&self.mit.replace("<year> <copyright holders>", &holders)))
    }
}

/// The whole file. An error names the crates for which no licence text is to be had.
pub(crate) fn write<'a>(
    crates: impl Iterator<Item = &'a LinkedCrate>,
    runtime: &[LinkedRuntime],
    standard: &StandardTexts,
) -> Result<String, String> {
    let mut table = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    // Those of this workspace come with the project's own LICENSE.
    for linked in crates.filter(|linked| linked.sha256.is_some()) {
        let license = linked.license.as_deref().unwrap_or("see below");
        let _ = writeln!(table, "{} {}: {license}", linked.name, linked.version);
        let mut found = license_files(&linked.folder)?;
        if found.is_empty() {
            found.extend(standard.of(linked));
        }
        if found.is_empty() {
            missing.push(linked.key());
        }
        for text in found {
            texts.entry(text).or_default().push(linked.key());
        }
    }
    for part in runtime {
        let text = fs::read_to_string(&part.text).map_err(|error| format!("{}: {error}", part.text.display()))?;
        let _ = writeln!(table, "{}: {}", part.name, part.license);
        let is_html = part.text.extension().is_some_and(|extension| extension == "html");
        let text = if is_html { without_markup(&text) } else { text };
        texts.entry(tidied(&text)).or_default().push(part.name.into());
    }
    if !missing.is_empty() {
        return Err(format!("no licence text was found for {}", missing.join(", ")));
    }
    Ok(layout(&table, &texts))
}

fn layout(table: &str, texts: &BTreeMap<String, Vec<String>>) -> String {
    let mut notices = format!(
        "Third-party notices\n===================\n\nSalon is licensed under the Apache License 2.0 (LICENSE). The program contains the following\n\
         libraries, each under its own licence. Their texts follow.\n\n{table}"
    );
    // What most crates share comes first.
    let mut ordered: Vec<_> = texts.iter().collect();
    ordered.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (text, names) in ordered {
        let line = "-".repeat(80);
        let _ = write!(notices, "\n{line}\n{}\n{line}\n\n{text}\n", names.join(", "));
    }
    notices
}

/// The texts at the top of a crate whose names say that they are about its licence.
fn license_files(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.is_file() && path.file_name().is_some_and(|name| is_license(&name.to_string_lossy())));
    paths.sort();
    let read = |path: &PathBuf| {
        fs::read(path)
            .map(|bytes| tidied(&String::from_utf8_lossy(&bytes)))
            .map_err(|error| format!("{}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}

fn is_license(name: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "copyright", "notice"];
    let name = name.to_lowercase();
    !name.ends_with(".rs") && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Without what makes equal texts differ: line ends and the blanks around them.
fn tidied(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// The words of an HTML page: Rust describes its standard library in one. Runs of empty lines become one.
fn without_markup(page: &str) -> String {
    let mut words = String::new();
    for (at, part) in page.split('<').enumerate() {
        words.push_str(if at == 0 { part } else { part.split_once('>').map_or("", |(_, after)| after) });
    }
    for (entity, character) in
        [("&lt;", "<"), ("&#60;", "<"), ("&gt;", ">"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")]
    {
        words = words.replace(entity, character);
    }
    let mut lines: Vec<&str> = words.lines().map(str::trim).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::crates::sample;
    use super::*;

    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("salon-notices-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        for (file, text) in files {
            fs::write(folder.join(file), text).expect("a file");
        }
        folder
    }

    #[test]
    fn equal_texts_stand_once_with_all_their_crates() {
        let a = folder("a", &[("LICENSE-MIT", "Permission\r\nis granted \r\n"), ("license.rs", "code")]);
        let b = folder("b", &[("COPYING", "Permission\nis granted")]);
        let none = folder("none", &[]);
        let crates = [sample("a", "MIT", &a, &[]), sample("b", "MIT", &b, &[]), sample("c", "Apache-2.0", &none, &[])];
        let standard = StandardTexts { apache: "the Apache text".into(), mit: "(c) <year> <copyright holders>".into() };
        let notices = write(crates.iter(), &[], &standard).expect("notices");
        assert!(notices.contains("a 1.2.3: MIT\nb 1.2.3: MIT\nc 1.2.3: Apache-2.0\n"), "{notices}");
        assert_eq!(notices.matches("Permission\nis granted").count(), 1);
        assert!(notices.contains("\na@1.2.3, b@1.2.3\n") && notices.contains("the Apache text"), "{notices}");
        assert!(!notices.contains("code"));

        let notices = write([sample("d", "MIT", &none, &[])].iter(), &[], &standard).expect("notices");
        assert!(notices.contains("(c) the authors of d\n"), "{notices}");
        let error = write([sample("d", "ISC", &none, &[])].iter(), &[], &standard).expect_err("no text");
        assert_eq!(error, "no licence text was found for d@1.2.3");
        for folder in [a, b, none] {
            fs::remove_dir_all(folder).expect("removed");
        }
    }

    #[test]
    fn markup_is_removed_and_entities_are_read() {
        let page = "<h1>Notices</h1>\n\n \n<p>Copyright <b>A</b> &lt;a@example.org&gt;\n&amp; others</p>";
        assert_eq!(without_markup(page), "Notices\n\nCopyright A <a@example.org>\n& others");
    }
}

//! The links of the finished site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::links::resolve;

/// Pages that mdBook makes beside the chapters: their links are relative to the root, wherever they are shown.
const BESIDE: &[&str] = &["404.html", "print.html", "toc.html"];

/// Every link in the folder's pages that leads to no file, or to no element of one.
pub(super) fn broken_links(folder: &Path) -> Result<Vec<String>, String> {
    let mut texts = BTreeMap::new();
    let mut files = BTreeSet::new();
    read(folder, "", &mut files, &mut texts)?;
    texts.retain(|name: &String, _| !BESIDE.contains(&name.as_str()));
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        texts.iter().map(|(name, text)| (name.as_str(), attributes(text, "id").collect())).collect();
    let mut broken = Vec::new();
    for (name, text) in &texts {
        for target in attributes(text, "href").chain(attributes(text, "src")) {
            let (file, id) = target.split_once('#').unwrap_or((target, ""));
            if file.contains(':') || target.is_empty() {
                continue;
            }
            let path = if file.is_empty() { Some(name.clone()) } else { resolve(name, file) };
            let is_there = path.as_ref().is_some_and(|path| files.contains(path));
            let has_id =
                id.is_empty() || path.and_then(|path| ids.get(path.as_str())).is_some_and(|ids| ids.contains(id));
            if !is_there || !has_id {
                broken.push(format!("{name}: the link leads nowhere: {target}"));
            }
        }
    }
    broken.dedup();
    Ok(broken)
}

fn read(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeSet<String>,
    texts: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{name}/"), files, texts)?;
            continue;
        }
        if name.ends_with(".html") {
            texts.insert(name.clone(), fs::read_to_string(entry.path()).map_err(failed)?);
        }
        files.insert(name);
    }
    Ok(())
}

/// The values of an attribute of any element. What mdBook writes is in double quotes.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let marks = [format!(" {name}=\""), format!("\n{name}=\"")];
    let mut rest = text;
    std::iter::from_fn(move || {
        let (at, mark) = marks.iter().filter_map(|mark| Some((rest.find(mark.as_str())?, mark))).min()?;
        let value = &rest[at + mark.len()..];
        let end = value.find('"')?;
        rest = &value[end..];
        Some(&value[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found() {
        let text = "<a class=\"x\" href=\"b.html#c\">d</a><h1 id=\"e\"><img\nsrc=\"f.png\"></h1>";
        assert_eq!(attributes(text, "href").collect::<Vec<_>>(), ["b.html#c"]);
        assert_eq!(attributes(text, "id").collect::<Vec<_>>(), ["e"]);
        assert_eq!(attributes(text, "src").collect::<Vec<_>>(), ["f.png"]);
    }
}

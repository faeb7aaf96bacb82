//! docs/reference: the pages that follow from the code. `UPDATE_DOCS=1 cargo test -p salon-gateway the_document` writes them.

use std::fmt::Write;

use axum::http::StatusCode;
use salon_protocol::{Code, Refusal};
use serde_json::Value;

use crate::http::{Problem, openapi};
use crate::meters::Meters;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/");
const MARK: &str = "<!-- Made from the code: UPDATE_DOCS=1 cargo test -p salon-gateway the_document -->\n";

/// Holds what a page has after the mark to what the code says.
fn hold(page: &str, wanted: &str) {
    let path = format!("{FOLDER}{page}");
    let document = std::fs::read_to_string(&path).expect("a page");
    let (introduction, _) = document.split_once(MARK).expect("the mark");
    let wanted = format!("{introduction}{MARK}\n{wanted}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, wanted).expect("written");
    }
    let hint = "run `UPDATE_DOCS=1 cargo test -p salon-gateway the_document`";
    assert!(document == wanted, "docs/reference/{page} is not what the code says\n\nhint: {hint}");
}

#[test]
fn the_document_has_every_error_code() {
    let mut table = "| code | HTTP | meaning |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        assert!(!code.meaning().is_empty(), "{code} has no comment in crates/protocol/src/refusal.rs");
        let status: StatusCode = Problem::from(Refusal::new(code, "")).status();
        let _ = writeln!(table, "| `{code}` | {} | {} |", status.as_u16(), code.meaning());
    }
    hold("errors.md", &table);
}

#[test]
fn the_document_has_every_metric() {
    let meters = Meters::new().expect("meters");
    // A histogram is shown only when something was measured.
    for histogram in [&meters.append_seconds, &meters.delivery_seconds, &meters.lag] {
        histogram.record(0.0);
    }
    let rendered = meters.render();
    let of = |start: &'static str| rendered.lines().filter_map(move |line| line.strip_prefix(start)?.split_once(' '));
    let mut rows: Vec<String> = of("# TYPE ")
        .map(|(name, kind)| {
            let help = of("# HELP ").find(|(described, _)| *described == name).map(|(_, help)| help);
            format!("| `{name}` | {kind} | {} |\n", help.unwrap_or_else(|| panic!("{name} is not described")))
        })
        .collect();
    rows.sort();
    hold("metrics.md", &format!("| metric | type | meaning |\n|---|---|---|\n{}", rows.concat()));
}

#[test]
fn the_document_has_every_endpoint() {
    let description: Value = serde_json::from_str(&openapi()).expect("JSON");
    let mut document = String::new();
    let operations: Vec<(&str, &str, &Value)> = object(&description["paths"])
        .flat_map(|(path, methods)| object(methods).map(move |(method, operation)| (path, method, operation)))
        .collect();
    let tags = description["tags"].as_array().expect("tags").iter().filter_map(|tag| tag["name"].as_str());
    for tag in tags {
        let _ = writeln!(document, "## {}\n\n| request | what it does | answers |\n|---|---|---|", capitalised(tag));
        for (path, method, operation) in operations.iter().filter(|(_, _, operation)| operation["tags"][0] == tag) {
            let statuses: Vec<&str> = object(&operation["responses"]).map(|(status, _)| status).collect();
            let summary = operation["summary"].as_str().expect("a summary").replace('|', "\\|").replace('\n', " ");
            let request = format!("{} {path}", method.to_uppercase());
            let _ = writeln!(document, "| `{request}` | {summary} | {} |", statuses.join(", "));
        }
        document.push('\n');
    }
    let listed = document.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(listed, operations.len(), "every endpoint has a tag that is declared");
    hold("rest.md", &format!("{}\n", document.trim_end()));
}

fn object(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

//! `salon mcp --print-config`: what is pasted into a client, and that docs/how-to/clients.md has the same.

use std::os::unix::fs::symlink;

use salon_testkit::run;

use crate::salon::{BINARY, Home, Ran, finish};

const DOCUMENT: &str = include_str!("../../../../docs/how-to/clients.md");

const CLIENTS: [&str; 11] = [
    "claude-code",
    "claude-desktop",
    "cursor",
    "vscode",
    "windsurf",
    "gemini",
    "zed",
    "codex",
    "inspector",
    "typescript",
    "python",
];

/// A home in which `salon` is found by its name.
fn home() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.path().join("bin")).expect("made");
    symlink(BINARY, home.path().join("bin/salon")).expect("made");
    home
}

fn print(home: &Home, arguments: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = home.command(BINARY);
    command.arg("mcp").args(arguments.split_whitespace()).env("PATH", home.path().join("bin"));
    command.envs(variables.iter().copied());
    run(finish(command))
}

/// What is printed, and what is said beside it.
fn told(home: &Home, arguments: &str, variables: &[(&str, &str)]) -> String {
    let Ran { code, stdout, stderr } = print(home, arguments, variables);
    let told = format!("{stdout}--\n{stderr}exit: {}", code.expect("no signal"));
    told.replace(&home.path().display().to_string(), "HOME").replace(BINARY, "BINARY")
}

#[test]
fn the_document_has_what_is_printed() {
    let home = home();
    for client in CLIENTS {
        for form in ["", "--http"] {
            let ran = print(&home, &format!("--print-config {client} room:alpha {form}"), &[]);
            if matches!((client, form), ("claude-desktop" | "zed", "--http")) {
                assert_eq!(ran.code, Some(2));
                continue;
            }
            let called = format!(
                "`salon mcp --print-config {client} room:alpha{}`",
                if form.is_empty() { "" } else { " --http" }
            );
            assert!(DOCUMENT.contains(&called), "docs/how-to/clients.md does not name {called}");
            let fenced = format!("\n{}```\n", ran.stdout);
            assert!(
                DOCUMENT.contains(&fenced),
                "docs/how-to/clients.md does not have what {called} prints:\n{}",
                ran.stdout
            );
            for command in ran.stderr.lines().filter_map(|line| line.strip_prefix("  ")) {
                assert!(
                    DOCUMENT.contains(&format!("\n{command}\n")),
                    "docs/how-to/clients.md does not have `{command}`"
                );
            }
        }
    }
}

#[test]
fn every_client_has_its_own_form() {
    let home = home();
    for client in CLIENTS {
        for form in ["", " --http"] {
            let name = format!("config_of_{client}{}", form.trim_start().replace("--", "_by_"));
            insta::assert_snapshot!(name, told(&home, &format!("--print-config {client} room:alpha{form}"), &[]));
        }
    }
}

#[test]
fn what_it_takes_to_get_there_is_part_of_it() {
    let home = home();
    let elsewhere =
        "--print-config cursor room:alpha --as me --only robot-1 --gateway chat.example --ca ca.pem --token-file token";
    insta::assert_snapshot!(told(&home, elsewhere, &[]), @r#"
    {
      "mcpServers": {
        "salon": {
          "command": "salon",
          "args": ["mcp", "room:alpha", "--as", "me", "--only", "robot-1", "--gateway", "https://chat.example", "--ca", "HOME/ca.pem", "--token-file", "HOME/token"]
        }
      }
    }
    --
    paste it into `~/.cursor/mcp.json`, or `.cursor/mcp.json` of a project
    exit: 0
    "#);
    insta::assert_snapshot!(told(&home, &format!("{elsewhere} --http"), &[]), @r#"
    {
      "mcpServers": {
        "salon": {
          "url": "https://chat.example/mcp/room:alpha/robot-1",
          "headers": {
            "Authorization": "Bearer ${env:SALON_TOKEN}"
          }
        }
      }
    }
    --
    paste it into `~/.cursor/mcp.json`, or `.cursor/mcp.json` of a project
    the token is that of `me`: `salon token room:alpha --as me --ttl 30d` makes one, where the gateway runs
    exit: 0
    "#);
    // A gateway here whose data is not in the usual place.
    run(home.salon("token --data data --topic room:alpha --id x"));
    insta::assert_snapshot!(told(&home, "--print-config claude-desktop --data data", &[]), @r#"
    {
      "mcpServers": {
        "salon": {
          "command": "salon",
          "args": ["mcp", "room:lobby", "--as", "claude-desktop", "--data", "HOME/data"]
        }
      }
    }
    --
    no room was named, so this is for room:lobby; a room may follow the client's name
    paste it into `claude_desktop_config.json` (Settings, Developer, Edit Config), and start Claude again
    exit: 0
    "#);
    // No other program of that name.
    std::fs::remove_file(home.path().join("bin/salon")).expect("removed");
    std::fs::write(home.path().join("bin/salon"), "").expect("written");
    insta::assert_snapshot!(told(&home, "--print-config claude-desktop", &[]), @r#"
    {
      "mcpServers": {
        "salon": {
          "command": "BINARY",
          "args": ["mcp", "room:lobby", "--as", "claude-desktop"]
        }
      }
    }
    --
    no room was named, so this is for room:lobby; a room may follow the client's name
    paste it into `claude_desktop_config.json` (Settings, Developer, Edit Config), and start Claude again
    exit: 0
    "#);
}

#[test]
fn a_token_is_named_and_never_printed() {
    let home = home();
    let token = run(home.token("room:alpha", "helper"));
    for client in CLIENTS {
        for form in ["", " --http"] {
            for (arguments, variables) in
                [(format!("--token {token}"), vec![]), (String::new(), vec![("SALON_TOKEN", token.as_str())])]
            {
                let told = told(&home, &format!("--print-config {client} room:alpha{form} {arguments}"), &variables);
                assert!(!told.contains(&token), "{client}{form}");
                let named = told.contains("SALON_TOKEN") || told.contains("${input:salon-token}");
                assert!(named || matches!(client, "claude-desktop" | "zed"), "{client}{form}: {told}");
            }
            if form.is_empty() {
                let name = format!("config_of_{client}_with_a_token");
                insta::assert_snapshot!(
                    name,
                    told(&home, &format!("--print-config {client} room:alpha"), &[("SALON_TOKEN", &token)])
                );
            }
        }
    }
}

#[test]
fn mistakes_are_told() {
    let home = home();
    insta::assert_snapshot!(told(&home, "--print-config emacs", &[]), @"
    --
    error: invalid value 'emacs' for '--print-config <CLIENT>'
      [possible values: claude-code, claude-desktop, cursor, vscode, windsurf, gemini, zed, codex, inspector, typescript, python]

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told(&home, "room:alpha --http", &[]), @"
    --
    error: the following required arguments were not provided:
      --print-config <CLIENT>

    Usage: salon mcp --print-config <CLIENT> --http <TOPIC>

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told(&home, "--as x", &[]), @"
    --
    error: the following required arguments were not provided:
      <TOPIC>

    Usage: salon mcp --as <ID> <TOPIC>

    hint: `--help` lists what there is
    exit: 2
    ");
}

use std::os::unix::fs::PermissionsExt;

use salon_testkit::run;

use crate::salon::Home;

const CURSOR: &str = r#"{
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "server-files", "${workspaceFolder}"], "env": { "API_KEY": "${env:API_KEY}" } },
    "remote server": { "url": "http://127.0.0.1:19/mcp?x=1", "headers": { "Authorization": "Bearer open-secret" }, "trust": true },
    "broken": {}
  }
}"#;

const VS_CODE: &str = r#"{
  // comments are fine
  "inputs": [{ "type": "promptString", "id": "api-key", "password": true }],
  "servers": {
    "files": { "command": "uvx", "args": ["files"], "env": { "KEY": "${input:api-key}" }, "envFile": ".env" },
    "off": { "type": "sse", "url": "http://localhost:1/sse", "disabled": true },
  },
}"#;

/// A home with files of other programs in their usual places.
fn home() -> Home {
    let home = Home::new();
    for (folder, name, text) in [(".cursor", "mcp.json", CURSOR), (".vscode", "mcp.json", VS_CODE)] {
        std::fs::create_dir(home.path().join(folder)).expect("a folder");
        home.write(&format!("{folder}/{name}"), text);
    }
    home.write(".claude.json", r#"{ "numStartups": 1 }"#);
    home.write(".mcp.json", "{ \"mcpServers\": { \"a\" } }");
    home
}

#[test]
fn what_would_be_done_is_shown_and_not_done() {
    let home = home();
    insta::assert_snapshot!(run(home.told("import --dry-run --topic room:lab")), @"
    ~/.cursor/mcp.json (Cursor)
      files          npx -y server-files HOME
      remote-server  http://127.0.0.1:19/mcp
                     - `remote server` there
                     - looks like a secret and is copied as it stands: `headers.Authorization`
      left out: 5:15: the server `broken`: it has neither a command nor a URL
      note: 4:125: `trust` of the server `remote server` is not understood and left out

    ~/.mcp.json (Claude Code)
      left out: HOME/.mcp.json:1:23: `:` is expected here

    ~/.vscode/mcp.json (VS Code)
      files-2  uvx files
               - `files` there
               - asks for `api-key` there; here it is the variable `API_KEY`
      off      http://localhost:1/sse
               - switched off there, and so here

    4 guests of room:lab would be written to salon.toml
    exit: 0
    ");
    assert!(!home.path().join("salon.toml").exists());
    insta::assert_snapshot!(run(home.told("import .vscode/mcp.json")), @"
    .vscode/mcp.json (VS Code)
      files  uvx files
             - asks for `api-key` there; here it is the variable `API_KEY`
      off    http://localhost:1/sse
             - switched off there, and so here
    error: there is nobody to ask whether this is to be written

    hint: say so with `--yes`
    exit: 2
    ");
    assert!(!home.path().join("salon.toml").exists());
}

#[test]
fn what_is_there_stays_and_nothing_is_written_twice() {
    let home = home();
    let before = "# mine\n[topics.\"room:lab\".guests.files]\ncommand = \"mine\" # keep";
    home.write("salon.toml", before);
    run(async {
        insta::assert_snapshot!(home.told("import .cursor/mcp.json .vscode/mcp.json --topic room:lab --yes").await, @"
        .cursor/mcp.json (Cursor)
          files-2        npx -y server-files HOME
                         - `files` there
          remote-server  http://127.0.0.1:19/mcp
                         - `remote server` there
                         - looks like a secret and is copied as it stands: `headers.Authorization`
          left out: 5:15: the server `broken`: it has neither a command nor a URL
          note: 4:125: `trust` of the server `remote server` is not understood and left out

        .vscode/mcp.json (VS Code)
          files-3  uvx files
                   - `files` there
                   - asks for `api-key` there; here it is the variable `API_KEY`
          off      http://localhost:1/sse
                   - switched off there, and so here

        warning: `headers.Authorization` of `remote-server` is copied as it stands, and others can read salon.toml
        warning: `url` of `remote-server` is copied as it stands, and others can read salon.toml
        hint: `chmod 600 salon.toml`, or write `${VAR}` in their place
        4 guests written to salon.toml; `salon serve` brings them in, SIGHUP if it runs already
        exit: 0
        ");
        let after = std::fs::read_to_string(home.path().join("salon.toml")).expect("it is there");
        assert!(after.starts_with(before));
        insta::assert_snapshot!(after.replace(&home.path().display().to_string(), "HOME"), @r#"
        # mine
        [topics."room:lab".guests.files]
        command = "mine" # keep

        # From .cursor/mcp.json
        [topics."room:lab".guests.files-2]
        command = "npx"
        args = ["-y", "server-files", "HOME"]
        env = { "API_KEY" = "${env:API_KEY}" }
        cwd = "HOME"
        name = "files"

        [topics."room:lab".guests.remote-server]
        url = "http://127.0.0.1:19/mcp?x=1"
        headers = { "Authorization" = "Bearer open-secret" }
        name = "remote server"

        # From .vscode/mcp.json
        [topics."room:lab".guests.files-3]
        command = "uvx"
        args = ["files"]
        env = { "KEY" = "${API_KEY}" }
        cwd = "HOME"
        env_file = "HOME/.env"
        name = "files"

        [topics."room:lab".guests.off]
        url = "http://localhost:1/sse"
        transport = "sse"
        disabled = true
        "#);
        insta::assert_snapshot!(home.told("serve --check").await, @"
        The configuration is good. This would be served:

          settings    salon.toml
          address     127.0.0.1:8787
          transport   plain, reachable from this machine alone
          data        HOME/.local/share/salon
          durability  full
          kept        for 30 days
          keys        the gateway's own, to be made at the first start
          limits      message 1048576 bytes, messages a second 100 (at once 1000), participants a topic 10000
          audit       HOME/.local/share/salon/audit.log
          log lines   info, human
          guest       files in room:lab would not come: cannot start `mine`: there is no such program
          guest       files-2 in room:lab would be left out: `env.API_KEY` of `files-2` cannot be used: the variable `API_KEY` is not set
          guest       files-3 in room:lab would be left out: `env_file` of `files-3` cannot be used: `HOME/.env` could not be read: No such file or directory (os error 2)
          guest       remote-server in room:lab would not come: cannot reach the server: Connection refused (os error 111)
        exit: 0
        ");
        insta::assert_snapshot!(home.told("import .cursor/mcp.json --topic room:lab --yes").await, @"
        .cursor/mcp.json (Cursor)
          left out: 5:15: the server `broken`: it has neither a command nor a URL
          note: 4:125: `trust` of the server `remote server` is not understood and left out
          left out: `files` is there already
          left out: `remote server` is there already

        There is nothing to add to salon.toml
        exit: 0
        ");
    });
}

#[test]
fn mistakes_are_told() {
    let empty = Home::new();
    insta::assert_snapshot!(run(empty.told("import")), @"
    error: no file with MCP servers was found; looked for
      ~/.config/Claude/claude_desktop_config.json
      ~/.claude.json
      ~/.cursor/mcp.json
      ~/.codeium/windsurf/mcp_config.json
      ~/.gemini/settings.json
      ~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json
      ~/.config/Code/User/mcp.json
      ~/.config/zed/settings.json
      ~/.codex/config.toml
      ~/.mcp.json
      ~/.vscode/mcp.json
      ~/.zed/settings.json

    hint: name a file: `salon import FILE`
    exit: 2
    ");
    insta::assert_snapshot!(run(empty.told("import gone.json")), @"
    error: `gone.json` could not be read: No such file or directory (os error 2)
    exit: 2
    ");
    empty.write("list.json", "{\n  \"mcpServers\": []\n}");
    insta::assert_snapshot!(run(empty.told("import list.json")), @"
    error: list.json:2:17: `mcpServers` must be an object, not a list
    exit: 2
    ");
    empty.write("fine.json", r#"{"mcpServers": {"a": {"command": "b"}}}"#);
    empty.write("salon.toml", "topics = { \"room:lobby\" = { history = true } }\n");
    insta::assert_snapshot!(run(empty.told("import fine.json --yes")), @"
    error: tables at the end of `salon.toml` would not fit it: cannot extend value of type inline table with a dotted key

    hint: guests that stand there as `guests = { … }` must become tables of their own first
    exit: 2
    ");
}

#[test]
fn what_is_written_is_for_its_owner_alone() {
    let home = Home::new();
    home.write(
        "mine.json",
        r#"{"mcpServers": {"a": {"command": "b", "args": ["--api-key", "sk-1"], "env": {"X": "1"}}}}"#,
    );
    let file = home.path().join("salon.toml");
    let mode = || std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
    insta::assert_snapshot!(run(home.told("import mine.json --yes")), @"
    mine.json (a file)
      a  b --api-key sk-1
         - looks like a secret and is copied as it stands: `--api-key` in `args`
    1 guest written to salon.toml; `salon serve` brings them in, SIGHUP if it runs already
    exit: 0
    ");
    assert_eq!(mode(), 0o600);

    // One that was there keeps its mode, and a warning says who else can read it.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    insta::assert_snapshot!(run(home.told("import mine.json --yes --topic room:other")), @"
    mine.json (a file)
      a  b --api-key sk-1
         - looks like a secret and is copied as it stands: `--api-key` in `args`

    warning: `env.X` of `a` is copied as it stands, and others can read salon.toml
    warning: `--api-key` in `args` of `a` is copied as it stands, and others can read salon.toml
    hint: `chmod 600 salon.toml`, or write `${VAR}` in their place
    1 guest written to salon.toml; `salon serve` brings them in, SIGHUP if it runs already
    exit: 0
    ");
    assert_eq!(mode(), 0o644);
}

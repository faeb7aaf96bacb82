use salon_testkit::run;

use crate::salon::Home;

fn told(arguments: &str) -> String {
    told_at(&Home::new(), arguments)
}

fn told_at(home: &Home, arguments: &str) -> String {
    run(home.told(arguments))
}

#[test]
fn help_of_salon() {
    insta::assert_snapshot!(told("--help"));
}

#[test]
fn help_of_serve() {
    insta::assert_snapshot!(told("serve --help"));
}

#[test]
fn help_of_token() {
    insta::assert_snapshot!(told("token --help"));
}

#[test]
fn help_of_demo() {
    insta::assert_snapshot!(told("demo --help"));
}

#[test]
fn help_of_the_everyday_commands() {
    for command in ["say", "call", "tools", "who", "topics", "history", "tail", "login", "logout", "doctor", "revoke"] {
        insta::assert_snapshot!(format!("help_of_{command}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_framed() {
    for command in ["framed", "framed connect", "framed send", "framed receive", "framed disconnect"] {
        let name = command.replace(' ', "_");
        insta::assert_snapshot!(format!("help_of_{name}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_key() {
    for command in ["key", "key list", "key rotate", "key remove"] {
        let name = command.replace(' ', "_");
        insta::assert_snapshot!(format!("help_of_{name}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_join() {
    insta::assert_snapshot!(told("join --help"));
}

#[test]
fn help_of_backup_and_restore() {
    for command in ["backup", "restore"] {
        insta::assert_snapshot!(format!("help_of_{command}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_log() {
    for command in ["log", "log copy", "log migrate"] {
        let name = command.replace(' ', "_");
        insta::assert_snapshot!(format!("help_of_{name}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_audit() {
    for command in ["audit", "audit verify"] {
        let name = command.replace(' ', "_");
        insta::assert_snapshot!(format!("help_of_{name}"), told(&format!("{command} --help")));
    }
}

#[test]
fn help_of_mcp() {
    insta::assert_snapshot!(told("mcp --help"));
}

#[test]
fn help_of_import() {
    insta::assert_snapshot!(told("import --help"));
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/help.md");
const MARK: &str = "<!-- Made from the program: UPDATE_DOCS=1 cargo test -p salon-cli the_document -->\n";

/// The help of a command and of those below it, each under a heading.
fn help_of(home: &Home, command: &str, document: &mut String) {
    let ran = run(home.salon(&format!("{command} --help")));
    assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
    let name = if command.is_empty() { "salon".to_owned() } else { format!("salon {command}") };
    let help = ran.stdout.replace(&home.path().display().to_string(), "~");
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *document += &format!("## `{name}`\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end());
    // The commands of `salon` stand under several headings, up to its options.
    let commands: Vec<_> = match command {
        "" => lines.iter().take_while(|line| **line != "Options:").collect(),
        _ => {
            lines.iter().skip_while(|line| **line != "Commands:").skip(1).take_while(|line| !line.is_empty()).collect()
        }
    };
    let names = commands.into_iter().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for below in names.filter(|name| !name.is_empty() && *name != "help") {
        help_of(home, format!("{command} {below}").trim_start(), document);
    }
}

#[test]
fn the_document_has_the_help_of_every_command() {
    let mut help = String::new();
    help_of(&Home::new(), "", &mut help);
    assert!(help.contains("## `salon serve`") && help.contains("## `salon key rotate`"), "{help}");
    let document = std::fs::read_to_string(DOCUMENT).expect("a page");
    let (introduction, _) = document.split_once(MARK).expect("the mark");
    let wanted = format!("{introduction}{MARK}\n{}\n", help.trim_end());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(DOCUMENT, wanted).expect("written");
    }
    let hint = "run `UPDATE_DOCS=1 cargo test -p salon-cli the_document`";
    assert!(document == wanted, "docs/reference/help.md is not what the program says\n\nhint: {hint}");
}

#[test]
fn help_shows_no_secret() {
    let home = Home::new();
    let mut command = home.command(crate::salon::BINARY);
    command.args(["call", "--help"]).env("SALON_TOKEN", "secret").env("SALON_GATEWAY", "https://secret.example");
    let ran = run(crate::salon::finish(command));
    assert!(ran.stdout.contains("SALON_TOKEN") && ran.stdout.contains("SALON_GATEWAY"));
    assert!(!ran.stdout.contains("secret"), "{}", ran.stdout);
}

#[test]
fn a_mistake_gets_a_hint() {
    insta::assert_snapshot!(told("srve"), @"
    error: unrecognized subcommand 'srve'

      tip: a similar subcommand exists: 'serve'

    Usage: salon <COMMAND>

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("serve --listn x"), @"
    error: unexpected argument '--listn' found

      tip: a similar argument exists: '--listen'

    Usage: salon serve --listen <ADDR>

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("serve --listen localhost"), @"
    error: invalid value 'localhost' for '--listen <ADDR>': `localhost` is not an address and port such as `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("serve --limits-message huge"), @"
    error: invalid value 'huge' for '--limits-message <SIZE>': `huge` is not a number of bytes such as `65536`, `64KiB` or `1MiB`

    hint: `--help` lists what there is
    exit: 2
    ");
}

#[test]
fn no_command_shows_the_help_and_is_a_mistake() {
    let home = Home::new();
    let (without, with) = run(async { (home.salon("").await, home.salon("--help").await) });
    assert_eq!((without.code, with.code), (Some(2), Some(0)));
    assert_eq!(without.stderr, with.stdout);
}

#[test]
fn completions_know_the_commands() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef salon"), ("fish", "complete -c salon")] {
        let told = told(&format!("completions {shell}"));
        assert!(told.contains(sign) && told.contains("limits-message") && told.ends_with("exit: 0"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let home = Home::new();
    assert_eq!(told_at(&home, "man ."), "exit: 0");
    let page = |name: &str| std::fs::read_to_string(home.path().join(name)).expect("a page");
    assert!(page("salon.1").contains("salon\\-serve(1)"), "{}", page("salon.1"));
    assert!(page("salon-serve.1").contains("\\-\\-limits\\-message"));
    assert!(page("salon-framed-send.1").starts_with(".ie"));
    assert!(told_at(&home, "man missing").contains("error: `missing` cannot be written"));
}

#[test]
fn openapi_is_json() {
    let ran = run(Home::new().salon("openapi"));
    let description: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert!(description["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
    assert!(description["paths"]["/v0/topics/{topic}/messages"]["post"].is_object());
}

//! Names of rooms, participants and tools, completed by a real bash, and the scripts of other shells.

use std::sync::Arc;

use salon_testkit::{eventually, run};

use crate::salon::{BINARY, Home, finish};
use crate::stage::Stage;

/// Hands a line to the script as bash does: its words are split at colons too.
const COMPLETE: &str = r#"
source <("$SALON" completions bash)
complete -p salon | grep -q _salon_names || exit 3
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_WORDS=("$SALON") COMPREPLY=()
read -ra words <<< "${LINE//:/ : }"
COMP_WORDS+=("${words[@]:1}")
[[ $LINE == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_salon_names "$SALON" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

async fn completed(stage: &Stage, line: &str, gateway: &str) -> String {
    let mut bash = stage.home.command("bash");
    bash.args(["--norc", "-c", COMPLETE]).env("SALON", BINARY).env("LINE", line);
    bash.env("SALON_GATEWAY", gateway).env("SALON_TOKEN", stage.token("alice", ""));
    let ran = finish(bash).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{line}");
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn bash_completes_rooms_participants_and_tools() {
    run(async {
        let stage = Arc::new(Stage::new().await);
        let (_robot, _told) = stage.robot().await;
        for (line, expected) in [
            // What stands before the last colon is on the line already.
            ("salon chat room:al", "alpha"),
            ("salon who ", "room:alpha"),
            ("salon call room:alpha ro", "robot"),
            ("salon call room:alpha robot m", "move"),
            ("salon call room:alpha robot s", "shout stuck"),
            ("salon call room:beta ro", ""),
            ("salon complete", ""),
            ("salon retr", "retract"),
            ("salon who --js", "--json"),
        ] {
            // A machine that does much else may not answer within the second that Tab waits.
            let what = format!("`{line}` to be completed with `{expected}`");
            let is_it = async || (completed(&stage, line, &stage.url()).await == expected).then_some(());
            eventually(&what, is_it).await.expect("in time");
        }
        assert_eq!(
            completed(&stage, "salon call room:alpha ro", "http://127.0.0.1:1").await,
            "",
            "a missing gateway is no error"
        );
    });
}

#[test]
fn the_scripts_of_zsh_and_fish_ask_for_names() {
    let home = Home::new();
    let zsh = run(home.salon("completions zsh")).stdout;
    let end = zsh.split_once("\n_salon_names() {").expect("a function for names").1;
    // Loaded as `_salon` at the first Tab, the script completes names at once, and clap's own ending is gone.
    assert!(end.ends_with("if [ \"$funcstack[1]\" = \"_salon\" ]; then\n    _salon_names \"$@\"\nfi\n"), "{end}");
    assert_eq!(zsh.matches("\ncompdef ").count() + zsh.matches("    compdef ").count(), 1);
    let fish = run(home.salon("completions fish")).stdout;
    let last = fish.trim_end().lines().next_back().expect("a line");
    let commands = last.strip_prefix("complete -c salon -n '__fish_seen_subcommand_from ").expect("no files");
    let commands: Vec<&str> = commands.trim_end_matches("' -f").split(' ').collect();
    assert!(commands.contains(&"who") && commands.contains(&"call"), "{commands:?}");
    assert!(!commands.contains(&"join") && !commands.contains(&"import"), "these take files: {commands:?}");
    assert!(fish.contains("(salon complete-names (commandline -cp) 2>/dev/null)"));
}

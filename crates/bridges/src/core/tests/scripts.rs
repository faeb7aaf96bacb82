use insta::assert_snapshot;

use super::script::Script;
use super::*;
use crate::config::CallDisplay;

fn able_script(options: BridgeOptions) -> Script {
    Script::new(able(ResendRule::ByKey), options)
}

#[test]
fn chat_replies_edits_and_retractions_both_ways() {
    assert_snapshot!(able_script(BridgeOptions::default()).run(
        "bob: hello
         @ann: hi
         @ann ↩p1: hello bob
         x:ann: hi
         bob ↩b-c7e1: who?
         bob/md: look at **this**, @x:ann, and @ANN: mail@example.org
         ! edit bob e1 hello all
         ! retract bob e1
         ! @edit ann p2 hi there
         ! @edit eve p2 not mine
         ! @retract eve p2
         ! @retract ann p2
         ! @retract %eve p3
         ! @left ann"
    ));
}

#[test]
fn nothing_comes_back_to_where_it_was_written() {
    assert_snapshot!(able_script(BridgeOptions::default()).run(
        "x:ann: a ghost's own words
         bridge:x: a notice of the bridge
         @ann!: a puppet's words
         @ann*: a bot's words
         y:eve: another bridge's ghost"
    ));
}

#[test]
fn a_platform_of_lines_gets_prefixes_pace_and_cuts() {
    assert_snapshot!(Script::new(lines(), BridgeOptions::default()).run(
        "@ann: hi
         bob: one\\ntwo\\nthree\\nfour\\nfive\\nsix
         bob: next
         ! wait 1299
         ! wait 1
         ! wait 1300
         ! wait 1300
         ! edit bob e2 changed
         ! wait 2600
         ! retract bob e2
         ! wait 1300"
    ));
}

#[test]
fn a_call_is_one_line_that_is_edited() {
    let script = "! call alice robot move {\"x\":1,\"y\":\"two\"}
         ! answer e1 ok moved to 1,2
         ! call alice robot fly
         ! restart
         ! answer e3 error no wings";
    assert_snapshot!("summary", able_script(BridgeOptions::default()).run(script));
    let none = BridgeOptions { calls: CallDisplay::None, ..BridgeOptions::default() };
    assert_snapshot!("none", able_script(none).run(script));
    let full = BridgeOptions { calls: CallDisplay::Full, ..BridgeOptions::default() };
    assert_snapshot!("full", able_script(full).run(script));
    assert_snapshot!("lines", Script::new(lines(), BridgeOptions::default()).run(script));
}

#[test]
fn commands_are_answered_as_replies() {
    let options = BridgeOptions { ghosts_call: true, ..BridgeOptions::default() };
    assert_snapshot!(able_script(options).run(
        "@ann: !who
         @ann: !tools
         @ann: !call robot move x=1
         @ann: !call robot
         @ann: !help"
    ));
    assert_snapshot!(able_script(BridgeOptions::default()).run("@ann: !call robot move x=1"), @"
    @ann: !call robot move x=1
        platform: (bridge) ↩p1: calls from here are not allowed; the bridge's operator can allow them with `ghosts_call`
    ");
}

#[test]
fn only_verified_approvers_decide() {
    let approvers = [ParticipantId::new("x:ann").expect("a name")].into();
    let options = BridgeOptions { approvers, ..BridgeOptions::default() };
    assert_snapshot!(able_script(options).run(
        "! hold h1 3f9a1c22 move {\"x\":1}
         ! hold h2 3f9a1c33 move {\"x\":2}
         @eve: !approve 3f9a1c2
         @ann?: !approve 3f9a1c2
         @ann: !approve 3f9a1c
         @ann: !approve 3f9a1c2
         ! decided h1 approved x:ann
         ! restart
         @ann: !approve h1
         @ann: !deny h2"
    ));
}

#[test]
fn overload_and_limits_are_shown() {
    let options = BridgeOptions { max_queue: 2, ..BridgeOptions::default() };
    assert_snapshot!(able_script(options).run(
        "! offline
         bob: one
         bob: two
         bob: three
         bob: four
         ! online
         bob: five
         ! limit 15000
         bob: six
         ! wait 14999
         ! wait 1
         ! forbid
         bob: seven"
    ));
}

#[test]
fn a_restart_repeats_only_what_a_platform_can_tell_apart() {
    let script = "bob: one
         ! stuck
         bob: two
         ! restart
         bob: three";
    assert_snapshot!("by_key", able_script(BridgeOptions::default()).run(script));
    assert_snapshot!("never", Script::new(able(ResendRule::Never), BridgeOptions::default()).run(script));
}

/// A platform that was connected to before the message was sent says nothing about it. That it has caught up can come later than the answer is missed.
#[test]
fn only_a_connection_of_afterwards_tells_what_became_of_a_message() {
    let script = Script::new(able(ResendRule::AfterEcho), BridgeOptions::default());
    let transcript = script.run("! lose\nbob: one\n! caught-up\n! offline\n! online");
    let parts: Vec<&str> = transcript.split("! caught-up\n").collect();
    assert!(parts[1].starts_with("! offline\n"), "{transcript}");
    assert_eq!(parts[1].matches("platform: Bob: one").count(), 1, "{transcript}");
}

/// Each `@` would have been looked up with all of the text after it.
#[test]
fn a_text_of_nothing_but_mentions_is_read_in_linear_time() {
    let text = "@".repeat(300_000);
    let transcript = able_script(BridgeOptions::default()).run(&format!("@ann: hi\nbob: {text}"));
    assert!(transcript.contains("platform: Bob: @@@"), "it is shown");
}

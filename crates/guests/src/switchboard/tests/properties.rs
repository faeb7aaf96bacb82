//! However ids collide and whatever a server says.

use proptest::prelude::*;

use super::*;

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u8..4).prop_map(|id| id.to_string()),
        (0_u8..4).prop_map(|id| format!("\"{id}\"")),
        Just("1.0".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        Just(r#""\u00e9\"x""#.to_owned()),
    ]
}

proptest! {
    /// However the callers' ids and tokens collide, and in whatever order the server answers, each gets its own back.
    #[test]
    fn what_goes_up_comes_down_to_whom_it_belongs(
        calls in prop::collection::vec((0..5_usize, id(), prop::option::of(id())), 1..40),
        order in any::<prop::sample::Index>(),
    ) {
        let mut play = Play::seated(&[Era::Legacy], |_| {});
        for (caller, id, token) in &calls {
            let meta = token.as_ref().map(|token| format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#));
            play.line(&format!("p{caller}#{id} tools/call {}", meta.as_deref().unwrap_or("{}")));
        }
        play.told.clear();
        let first = order.index(calls.len());
        for at in (0..calls.len()).map(|at| (at + first) % calls.len()) {
            let (caller, id, token) = &calls[at];
            let (number, envelope) = (at + 3, at + 1);
            play.line(&format!(r#"0> {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{number},"progress":{at}}}}}"#));
            play.line(&format!(r#"0> {{"jsonrpc":"2.0","id":{number},"result":{{"at":{at}}}}}"#));
            let progress = token.as_ref().map(|token| {
                format!("⇒ p{caller} re e{envelope} {{\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{at}}}}}\n")
            });
            let answer = format!("⇒ p{caller} re e{envelope} {{\"id\":{id},\"result\":{{\"at\":{at}}}}}\n");
            prop_assert_eq!(&play.told, &(progress.unwrap_or_default() + &answer));
            play.told.clear();
        }
        prop_assert!(play.board.calls.is_empty() && play.board.due().is_none());
    }

    /// Nothing a server says makes it fall over.
    #[test]
    fn a_server_may_say_anything(text in r#"[\[\]{}",:0-9a-z/ ]{0,60}"#, method in "[a-z]{1,8}/[a-z]{1,8}", params in r#"(\{"[a-zA-Z]{1,12}":([0-9]{1,3}|"x"|null|\{\})\}|\[\]|7)"#) {
        for eras in [[Era::Legacy], [Era::Modern]] {
            let mut play = Play::seated(&eras, |_| {});
            play.line("alice#1 tools/call {\"_meta\":{\"progressToken\":1}}");
            play.line(&format!("0> {text}"));
            for method in [&*method, "notifications/progress", "notifications/cancelled", "notifications/message", "notifications/resources/updated", "notifications/subscriptions/acknowledged"] {
                play.line(&format!(r#"0> {{"method":"{method}","params":{params}}}"#));
                play.line(&format!(r#"0/4> {{"id":4,"method":"{method}","params":{params}}}"#));
                play.line(&format!(r#"0> {{"id":4,"result":{params}}}"#));
            }
        }
    }
}

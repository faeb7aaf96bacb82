//! Whatever is said in whatever order: nothing panics, and a request is answered once.

use proptest::prelude::*;

use super::*;

/// Lines of a script, some of which make no sense where they come.
fn line() -> impl Strategy<Value = String> {
    let who = prop_oneof![Just("bob"), Just("carol"), Just("modern"), Just("dave")];
    let request = (0..4u8, who.clone(), 0..3u8)
        .prop_map(|(id, to, tool)| format!(r#"request m{id} {to} {{"tool":{{"id":"t{tool}"}}}}"#));
    let fixed = prop_oneof![
        Just(r#"list bob {"tools":[{"name":"t0"},{"name":"t1"}]}"#),
        Just(r#"list carol none"#),
        Just(r#"list modern {"tools":[{"name":"t0"}]}"#),
        Just("join bob"),
        Just("leave bob"),
        Just("leave carol"),
        Just("gone m0 bob"),
        Just("gone m1 carol"),
        Just("tick 20000"),
        Just("tick 60000"),
        Just("refuse rate_limited"),
        Just("repeat"),
        Just(r#"bob! notifications/progress {"progressToken":"m0","progress":1}"#),
        Just(r#"carol! notifications/progress {"progressToken":"m1","progress":1}"#),
        Just(r#"notification n1@m0 - {"cancelled":{}}"#),
        Just(
            r#"request t1 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"echo","capabilities":[{"name":"say"}]}}}"#
        ),
        Just(r#"bob? q1 tools/call {"name":"echo.say"}"#),
        Just(r#"response r1@q1 bob {"result":1}"#),
        Just("raw nonsense"),
        Just("gap"),
        Just("closing"),
    ];
    let answers =
        (who, prop_oneof![Just("initialize"), Just("tools/call")], any::<bool>()).prop_map(|(who, method, fails)| {
            format!("?{who}: {method} {}", if fails { r#"error {"code":-1,"message":"m"}"# } else { "{}" })
        });
    prop_oneof![4 => request, 4 => fixed.prop_map(str::to_owned), 4 => answers]
}

proptest! {
    #[test]
    fn a_request_is_answered_once(lines in prop::collection::vec(line(), 0..40)) {
        let mut play = Play::seated();
        // How often each id was asked, and how often it was answered.
        let (mut asked, mut answered) = ([0u32; 4], [0u32; 4]);
        for line in lines.iter().map(String::as_str).chain(["closing"]) {
            if let Some(rest) = line.strip_prefix('?') {
                let (who, rest) = rest.split_once(": ").unwrap();
                let (method, outcome) = rest.split_once(' ').unwrap();
                // Only what is open can be answered.
                if play.open.iter().any(|(to, open, _)| to == who && open == method) {
                    play.answer(who, method, outcome);
                }
            } else {
                play.run(line);
            }
            if let Some(id) = line.strip_prefix("request m") {
                asked[usize::from(id.as_bytes()[0] - b'0')] += 1;
            }
        }
        for line in play.told.lines().filter(|line| line.contains("←")) {
            let is_answer = line.contains(r#""type":"response""#) || line.contains(r#""type":"error""#);
            for (id, count) in answered.iter_mut().enumerate().filter(|_| is_answer) {
                *count += u32::from(line.contains(&format!(r#""requestId":"m{id}""#)));
            }
        }
        prop_assert_eq!(asked, answered, "{}\n\n{}", lines.join("\n"), play.told);
    }

    #[test]
    fn no_frame_is_a_danger(text in "[{}\\[\\]\",:a-zA-Z0-9 .*-]{0,120}", kind in "(request|response|notification|error|x-[a-z]{0,3})", payload in ".{0,60}") {
        let mut play = Play::seated().after(REGISTER);
        play.frame(None, &text);
        play.frame(None, &message(kind.as_str(), &format!("m1@q1 bob {payload}")));
        play.frame(None, &message(kind.as_str(), &format!("m2 * {{\"security\":{{\"token\":{payload:?}}}}}")));
    }
}

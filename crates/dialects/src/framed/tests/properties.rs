//! Whatever comes, in whatever order: every request has one answer, and nothing is received twice on a connection that lasts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Send(u32, u8),
    Receive(u32, u16),
    Noise(u32, Vec<u8>),
    Entry,
    Settle(bool),
    HangUp(u32),
    Tick(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = 1_u32..4;
    prop_oneof![
        (stream.clone(), 0_u8..6).prop_map(|(stream, id)| Step::Send(stream, id)),
        (stream.clone(), 0_u16..2000).prop_map(|(stream, wait)| Step::Receive(stream, wait)),
        (stream.clone(), proptest::collection::vec(0_u8.., 0..40))
            .prop_map(|(stream, noise)| Step::Noise(stream, noise)),
        Just(Step::Entry),
        any::<bool>().prop_map(Step::Settle),
        stream.prop_map(Step::HangUp),
        (0_u16..1500).prop_map(Step::Tick),
    ]
}

proptest! {
    #[test]
    fn every_request_has_one_answer_and_nothing_is_lost(steps in proptest::collection::vec(step(), 0..60)) {
        let mut play = Play::seated();
        // By stream: what is unanswered. A stream that hung up gets another number, as it does from the carrier.
        let mut unanswered: HashMap<u32, i64> = HashMap::new();
        let mut number: HashMap<u32, u32> = HashMap::new();
        let mut fresh = 10;
        let (mut asked, mut published) = (0_u32, 0_u32);
        let mut received: Vec<(u32, Vec<u32>)> = Vec::new();
        let end = vec![Step::HangUp(1), Step::HangUp(2), Step::HangUp(3), Step::Receive(1, 0), Step::Receive(1, 0), Step::Receive(1, 0), Step::Tick(100)];
        for step in steps.into_iter().chain(end) {
            let mut of = |stream: u32| *number.entry(stream).or_insert_with(|| { fresh += 1; fresh });
            match step {
                Step::Send(stream, id) => {
                    let stream = of(stream);
                    *unanswered.entry(stream).or_default() += 1;
                    play.line(&format!(r#"{stream} SEND s{id} {{"payload":"x"}}"#));
                }
                Step::Receive(stream, wait) => {
                    let stream = of(stream);
                    asked += 1;
                    *unanswered.entry(stream).or_default() += 1;
                    play.line(&format!(r#"{stream} RECEIVE r{asked} {{"timeout":{wait}}}"#));
                }
                Step::Noise(stream, noise) => {
                    let stream = of(stream);
                    *unanswered.entry(stream).or_default() += 1;
                    play.frame(stream, noise.into());
                }
                Step::Entry => {
                    play.collect();
                    // A session takes nothing from the room that is not wanted.
                    if play.framed.ready() {
                        published += 1;
                        play.publish(&format!(r#"bob → * e{published} {{"jsonrpc":"2.0","method":"notifications/x"}}"#));
                    }
                }
                Step::Settle(_) if play.drafts.is_empty() => {}
                Step::Settle(true) => play.line("accept"),
                Step::Settle(false) => play.line("refuse recipient_not_found"),
                Step::HangUp(stream) => {
                    if let Some(stream) = number.remove(&stream) {
                        unanswered.remove(&stream);
                        play.line(&format!("hangup {stream}"));
                    }
                }
                Step::Tick(millis) => play.line(&format!("tick {millis}")),
            }
            play.collect();
            for line in std::mem::take(&mut play.told).lines().filter(|line| line.contains(" ← ")) {
                let stream: u32 = line.split(' ').next().unwrap().parse().unwrap();
                // A stream that hung up hears nothing any more.
                let Some(open) = unanswered.get_mut(&stream) else { continue };
                *open -= 1;
                prop_assert!(*open >= 0, "answered twice: {line}");
                if line.contains(r#"{"messages""#) {
                    let ids = line.split(r#"{"id":"e"#).skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap());
                    received.push((stream, ids.collect()));
                }
            }
        }
        let mut seen: Vec<u32> = received.iter().flat_map(|(_, ids)| ids.clone()).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen, (1..=published).collect::<Vec<_>>(), "nothing is lost");
        let mut by_stream: HashMap<u32, Vec<u32>> = HashMap::new();
        for (stream, ids) in received {
            by_stream.entry(stream).or_default().extend(ids);
        }
        for ids in by_stream.values() {
            prop_assert!(ids.is_sorted_by(|a, b| a < b), "in order, and once on a connection that lasts: {ids:?}");
        }
        play.now += Duration::from_secs(31);
        play.framed.handle_timeout(play.now);
        while let Some((_, draft)) = play.drafts.front() {
            prop_assert!(draft.envelope().from().as_str() == "alice");
            play.line("accept");
        }
    }

    #[test]
    fn no_frame_makes_it_panic(header in r#"\{("(id|method|version|timestamp|contentType|sessionId|destination)":("[A-Za-z/.0-9]{0,8}"|[0-9.e-]{1,5}|null|\[\]),?){0,6}\}?"#, body in "\\PC{0,60}", method in 0_usize..4) {
        let mut play = Play::seated();
        play.frame(1, encode(header.as_bytes(), body.as_bytes()));
        let proper = format!(r#"{{"id":"a","method":"{}","version":"MCP/1.0"}}"#, Method::ALL[method].word());
        play.frame(1, encode(proper.as_bytes(), body.as_bytes()));
        play.collect();
        let _ = route(&encode(proper.as_bytes(), body.as_bytes()));
    }
}

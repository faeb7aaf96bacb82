use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;

const PLAIN: Style = Style { resumable: false, prime: false, session_header: false };
const LEGACY: Style = Style { resumable: true, prime: false, session_header: false };
const PRIMED: Style = Style { resumable: true, prime: true, session_header: false };

fn outlets() -> Outlets {
    Outlets::new(Some("s1".into()))
}

fn message(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn get(after: Option<&str>) -> Listen {
    Listen { after: after.map(Into::into), endpoint: None }
}

/// What is to be done, an action a line.
fn done(outlets: &mut Outlets) -> String {
    let mut lines = Vec::new();
    while let Some(action) = outlets.poll_action() {
        lines.push(match action {
            Action::Begin(stream, Head { status, form, headers }) => {
                format!(
                    "{} begins {status} {form:?}{}",
                    stream.0,
                    headers.iter().map(|(name, value)| format!(" {name}: {value}")).collect::<String>()
                )
            }
            Action::Send(stream, Frame::Event(event)) => {
                let EventFrame { name, id, retry, data } = *event;
                let head = [
                    name.map(str::to_owned),
                    id.map(|id| format!("#{id}")),
                    retry.map(|retry| format!("retry {retry:?}")),
                ];
                format!("{} {} {data:.20}", stream.0, head.into_iter().flatten().collect::<Vec<_>>().join(" "))
            }
            Action::Send(stream, Frame::Text(text)) => format!("{} text {text}", stream.0),
            Action::Finish(stream) => format!("{} ends", stream.0),
            other => format!("{other:?}"),
        });
    }
    lines.join("\n")
}

#[test]
fn an_only_answer_is_plain_json_with_its_status() {
    let mut outlets = outlets();
    let channel = outlets.post(StreamId(1), 1, Style { session_header: true, ..LEGACY });
    assert!(outlets.attended());
    outlets.answer(channel, 404, &message("{}"));
    outlets.answer(channel, 200, &message("[]"));
    assert!(!outlets.say(channel, &message("[]")));
    assert!(!outlets.attended());
    assert_snapshot!(done(&mut outlets), @"
    1 begins 404 Json mcp-session-id: s1
    1 text {}
    1 ends
    ");
}

#[test]
fn what_is_said_before_the_answer_makes_it_a_stream() {
    let mut outlets = outlets();
    let channel = outlets.post(StreamId(1), 1, PLAIN);
    outlets.say(channel, &message("1"));
    outlets.answer(channel, 400, &message("2"));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 200 Events
    1 message 1
    1 message 2
    1 ends
    ");
    let channel = outlets.post(StreamId(2), 1, LEGACY);
    outlets.quicken(channel);
    outlets.quicken(channel);
    outlets.answer(channel, 200, &message("3"));
    assert_snapshot!(done(&mut outlets), @"
    2 begins 200 Events
    2 message #2-1 3
    2 ends
    ");
}

#[test]
fn a_batch_ends_with_its_last_answer() {
    let mut outlets = outlets();
    let channel = outlets.post(StreamId(1), 3, LEGACY);
    outlets.answer(channel, 200, &message("1"));
    outlets.skip(channel);
    outlets.answer(channel, 200, &message("3"));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 200 Events
    1 message #1-1 1
    1 message #1-2 3
    1 ends
    ");
}

#[test]
fn nothing_to_answer_is_202() {
    let mut outlets = outlets();
    outlets.post(StreamId(1), 0, PRIMED);
    outlets.apart(StreamId(2));
    let cancelled = outlets.post(StreamId(3), 1, LEGACY);
    outlets.skip(cancelled);
    assert_snapshot!(done(&mut outlets), @"
    1 begins 202 Empty
    1 ends
    2 begins 202 Empty
    2 ends
    3 begins 202 Empty
    3 ends
    ");
}

#[test]
fn a_refusal_is_a_whole_answer() {
    let mut outlets = outlets();
    outlets.refuse(StreamId(1), 400, &message("{}"));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 400 Json
    1 text {}
    1 ends
    ");
}

#[test]
fn on_a_duplex_stream_everything_is_text() {
    let mut outlets = outlets();
    outlets.duplex(StreamId::ONLY);
    outlets.say(Channel::SESSION, &message("1"));
    outlets.answer(Channel::SESSION, 404, &message("2"));
    outlets.refuse(StreamId::ONLY, 400, &message("3"));
    outlets.skip(Channel::SESSION);
    outlets.close_all();
    assert_snapshot!(done(&mut outlets), @"
    0 text 1
    0 text 2
    0 text 3
    ");
    assert!(outlets.attended());
    assert_eq!(outlets.closed(StreamId::ONLY), None);
    assert!(!outlets.attended());
}

#[test]
fn what_nobody_listened_to_waits_for_a_listener() {
    let mut outlets = outlets();
    outlets.say(Channel::SESSION, &message("1"));
    outlets.say(Channel::SESSION, &message("2"));
    assert_snapshot!(done(&mut outlets), @"");
    outlets.listen(StreamId(1), &get(None), true);
    outlets.say(Channel::SESSION, &message("3"));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 200 Events
    1 message #0-1 1
    1 message #0-2 2
    1 message #0-3 3
    ");
    outlets.listen(StreamId(2), &get(None), true);
    outlets.say(Channel::SESSION, &message("4"));
    assert_snapshot!(done(&mut outlets), @"
    2 begins 200 Events
    1 ends
    2 message #0-4 4
    ");
    assert_eq!(outlets.closed(StreamId(2)), None);
    outlets.say(Channel::SESSION, &message("5"));
    outlets.listen(StreamId(3), &get(Some("0-2")), true);
    assert_snapshot!(done(&mut outlets), @"
    3 begins 200 Events
    3 message #0-3 3
    3 message #0-4 4
    3 message #0-5 5
    ");
}

#[test]
fn an_unknown_event_brings_nothing_of_another_stream_back() {
    for id in ["", "7-1", "nonsense", "0-x", "1-0", "99999999999999999999-1"] {
        let mut outlets = outlets();
        outlets.post(StreamId(9), 1, LEGACY);
        outlets.listen(StreamId(1), &get(None), true);
        outlets.say(Channel::SESSION, &message("1"));
        outlets.listen(StreamId(2), &get(Some(id)), true);
        assert_eq!(done(&mut outlets), "1 begins 200 Events\n1 message #0-1 1\n2 begins 200 Events\n1 ends", "{id}");
    }
}

#[test]
fn a_listener_of_the_old_transport_is_told_where_to_post() {
    let mut outlets = outlets();
    outlets.listen(StreamId(1), &Listen { after: None, endpoint: Some("/message?sessionId=s1".into()) }, false);
    outlets.apart(StreamId(2));
    outlets.answer(Channel::SESSION, 200, &message("1"));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 200 Events
    1 endpoint /message?sessionId=s
    2 begins 202 Empty
    2 ends
    1 message 1
    ");
}

#[test]
fn a_primed_channel_goes_on_after_its_stream_was_lost() {
    let mut outlets = outlets();
    let channel = outlets.post(StreamId(1), 1, PRIMED);
    outlets.say(channel, &message("1"));
    assert_eq!(outlets.closed(StreamId(1)), Some(channel));
    assert!(outlets.say(channel, &message("2")));
    assert_snapshot!(done(&mut outlets), @"
    1 begins 200 Events
    1 #1-0 retry 1s 
    1 message #1-1 1
    ");
    outlets.listen(StreamId(2), &get(Some("1-0")), true);
    outlets.say(channel, &message("3"));
    // The peer came back before its hanging up was noticed.
    outlets.listen(StreamId(3), &get(Some("1-2")), true);
    assert_eq!(outlets.closed(StreamId(3)), Some(channel));
    outlets.answer(channel, 400, &message("4"));
    outlets.listen(StreamId(4), &get(Some("1-3")), true);
    assert_snapshot!(done(&mut outlets), @"
    2 begins 200 Events
    2 message #1-1 1
    2 message #1-2 2
    2 message #1-3 3
    3 begins 200 Events
    3 message #1-3 3
    2 ends
    4 begins 200 Events
    4 message #1-4 4
    4 ends
    ");
    assert!(!outlets.attended());
}

#[test]
fn a_channel_nobody_can_come_back_to_goes_with_its_stream() {
    let mut outlets = outlets();
    for style in [PLAIN, LEGACY] {
        let channel = outlets.post(StreamId(1), 1, style);
        assert_eq!(outlets.closed(StreamId(1)), Some(channel));
        assert!(!outlets.say(channel, &message("1")));
        outlets.answer(channel, 200, &message("2"));
        assert_eq!(outlets.closed(StreamId(1)), None);
    }
    assert_snapshot!(done(&mut outlets), @"");
}

#[test]
fn the_end_finishes_what_is_open() {
    let mut outlets = outlets();
    outlets.listen(StreamId(1), &get(None), true);
    outlets.post(StreamId(2), 1, PRIMED);
    outlets.post(StreamId(3), 1, LEGACY);
    done(&mut outlets);
    outlets.close_all();
    assert_snapshot!(done(&mut outlets), @"
    1 ends
    2 ends
    3 begins 503 Empty
    3 ends
    ");
    assert!(!outlets.attended());
}

#[test]
fn only_the_newest_are_kept() {
    let mut many = outlets();
    for n in 0..1000 {
        many.say(Channel::SESSION, &message(&n.to_string()));
    }
    many.listen(StreamId(1), &get(None), true);
    let said = done(&mut many);
    assert_eq!((said.lines().count(), said.lines().nth(1)), (257, Some("1 message #0-1 744")));

    let mut long = outlets();
    let channel = long.post(StreamId(1), 2, PRIMED);
    for _ in 0..6 {
        long.say(channel, &message(&format!("{:?}", "x".repeat(1 << 20))));
    }
    done(&mut long);
    long.listen(StreamId(2), &get(Some("1-0")), true);
    assert_snapshot!(done(&mut long), @r#"
    2 begins 200 Events
    2 message #1-4 "xxxxxxxxxxxxxxxxxxx
    2 message #1-5 "xxxxxxxxxxxxxxxxxxx
    2 message #1-6 "xxxxxxxxxxxxxxxxxxx
    1 ends
    "#);
}

proptest! {
    /// Whatever happens in whatever order: each stream is begun at most once, hears nothing before that and nothing after its
    /// end, and ends once.
    #[test]
    fn a_stream_begins_speaks_and_ends(steps in prop::collection::vec((0_u8..10, 0_u32..8, 0_u64..8), 0..60)) {
        #[derive(Debug, PartialEq)]
        enum Stage { New, Begun, Over }
        let mut outlets = outlets();
        let mut streams: Vec<Stage> = Vec::new();
        for (step, chosen, number) in steps {
            let (channel, answers, text) = (Channel(number), number as usize % 3, message("1"));
            let next = StreamId(streams.len() as u32);
            if step < 5 {
                streams.push(Stage::New);
            }
            match step {
                0 => drop(outlets.post(next, answers, PRIMED)),
                1 => drop(outlets.post(next, answers, LEGACY)),
                2 => drop(outlets.post(next, answers, PLAIN)),
                3 => { outlets.listen(next, &get(Some(&format!("{number}-{chosen}"))), true); },
                4 => { outlets.listen(next, &get(None), true); },
                5 => if let Some(stage @ (Stage::New | Stage::Begun)) = streams.get_mut(chosen as usize) {
                    *stage = Stage::Over;
                    outlets.closed(StreamId(chosen));
                },
                6 => outlets.quicken(channel),
                7 => outlets.answer(channel, 200, &text),
                8 => outlets.skip(channel),
                _ => drop(outlets.say(channel, &text)),
            }
            while let Some(action) = outlets.poll_action() {
                let (stream, before, after) = match action {
                    Action::Begin(stream, _) => (stream, Stage::New, Stage::Begun),
                    Action::Send(stream, _) => (stream, Stage::Begun, Stage::Begun),
                    Action::Finish(stream) => (stream, Stage::Begun, Stage::Over),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(std::mem::replace(&mut streams[stream.0 as usize], after), before);
            }
        }
        outlets.close_all();
        prop_assert!(!outlets.attended());
    }
}

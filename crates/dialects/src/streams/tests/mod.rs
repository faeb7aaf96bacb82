//! What goes out on which stream, action by action.

mod properties;

use std::convert::Infallible;

use insta::assert_snapshot;
use proptest::prelude::*;
use salon_protocol::Code;

use super::*;
use crate::StreamHead;

const PLAIN: PostStyle = PostStyle { resumable: false, prime: false, session_header: false };
const LEGACY: PostStyle = PostStyle { resumable: true, prime: false, session_header: false };
const PRIMED: PostStyle = PostStyle { resumable: true, prime: true, session_header: false };

const UNREAD: Bound = Bound { count: 256, bytes: 1 << 20 };
const REPLAY: Bound = Bound { count: 512, bytes: 4 << 20 };
const POLLED: Bound = Bound { count: 3, bytes: 1 << 20 };

fn options() -> StreamOptions {
    let session_header = Some(("mcp-session-id", "s1".into()));
    StreamOptions { session_header, tag: None, unread: UNREAD, replay: REPLAY, polled: POLLED }
}

fn streams() -> Streams<Infallible> {
    Streams::new(options(), Instant::now())
}

fn text(text: &str) -> StreamReply {
    StreamReply::Text(text.into())
}

/// What is to be done, an action a line.
fn done(streams: &mut Streams<Infallible>) -> String {
    let mut lines = Vec::new();
    while let Some(action) = streams.poll_action() {
        lines.push(match action {
            DialectAction::Begin(stream, StreamHead { status, form, headers }) => {
                format!(
                    "{} begins {status} {form:?}{}",
                    stream.0,
                    headers.iter().map(|(name, value)| format!(" {name}: {value}")).collect::<String>()
                )
            }
            DialectAction::Send(stream, Frame::Event(event)) => {
                let EventFrame { name, id, retry, data } = *event;
                let head = [
                    name.map(str::to_owned),
                    id.map(|id| format!("#{id}")),
                    retry.map(|retry| format!("retry {retry:?}")),
                ];
                format!("{} {} {data:.20}", stream.0, head.into_iter().flatten().collect::<Vec<_>>().join(" "))
            }
            DialectAction::Send(stream, Frame::Text(text)) => format!("{} text {text}", stream.0),
            DialectAction::Finish(stream) => format!("{} ends", stream.0),
            other => format!("{other:?}"),
        });
    }
    lines.join("\n")
}

#[test]
fn an_only_answer_is_plain_json_with_its_status() {
    let mut streams = streams();
    let channel = streams.post(StreamId(1), 1, PostStyle { session_header: true, ..LEGACY });
    assert!(streams.is_attended());
    streams.answer(channel, 404, text("{}"));
    streams.answer(channel, 200, text("[]"));
    assert!(!streams.say(channel, "[]"));
    assert!(!streams.is_attended());
    assert_snapshot!(done(&mut streams), @"
    1 begins 404 Json mcp-session-id: s1
    1 text {}
    1 ends
    ");
}

#[test]
fn what_is_said_before_the_answer_makes_it_a_stream() {
    let mut streams = streams();
    let channel = streams.post(StreamId(1), 1, PLAIN);
    streams.say(channel, "1");
    streams.answer(channel, 400, text("2"));
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Events
    1 message 1
    1 message 2
    1 ends
    ");
    let channel = streams.post(StreamId(2), 1, LEGACY);
    streams.open_events(channel);
    streams.open_events(channel);
    streams.answer(channel, 200, text("3"));
    assert_snapshot!(done(&mut streams), @"
    2 begins 200 Events
    2 message #2-1 3
    2 ends
    ");
}

#[test]
fn a_batch_ends_with_its_last_answer() {
    let mut streams = streams();
    let channel = streams.post(StreamId(1), 3, LEGACY);
    streams.answer(channel, 200, text("1"));
    streams.skip(channel);
    streams.answer(channel, 200, text("3"));
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Events
    1 message #1-1 1
    1 message #1-2 3
    1 ends
    ");
}

#[test]
fn nothing_to_answer_is_202() {
    let mut streams = streams();
    streams.post(StreamId(1), 0, PRIMED);
    streams.accept(StreamId(2));
    let cancelled = streams.post(StreamId(3), 1, LEGACY);
    streams.skip(cancelled);
    assert_snapshot!(done(&mut streams), @"
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
    let mut streams = streams();
    streams.refuse(StreamId(1), 400, text("{}"));
    assert_snapshot!(done(&mut streams), @"
    1 begins 400 Json
    1 text {}
    1 ends
    ");
}

#[test]
fn on_a_duplex_stream_everything_is_text() {
    let mut streams = streams();
    streams.open_duplex(StreamId::ONLY);
    streams.say(Channel::SESSION, "1");
    streams.answer(Channel::SESSION, 404, text("2"));
    streams.refuse(StreamId::ONLY, 400, text("3"));
    streams.skip(Channel::SESSION);
    streams.close_all();
    assert_snapshot!(done(&mut streams), @"
    0 text 1
    0 text 2
    0 text 3
    ");
    assert!(streams.is_attended());
    assert_eq!(streams.closed(StreamId::ONLY), None);
    assert!(!streams.is_attended());
}

#[test]
fn what_nobody_listened_to_waits_for_a_listener() {
    let mut streams = streams();
    streams.say(Channel::SESSION, "1");
    streams.say(Channel::SESSION, "2");
    assert_snapshot!(done(&mut streams), @"");
    streams.listen(StreamId(1), None, None, true);
    streams.say(Channel::SESSION, "3");
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Events
    1 message #0-1 1
    1 message #0-2 2
    1 message #0-3 3
    ");
    streams.listen(StreamId(2), None, None, true);
    streams.say(Channel::SESSION, "4");
    assert_snapshot!(done(&mut streams), @"
    2 begins 200 Events
    1 ends
    2 message #0-4 4
    ");
    assert_eq!(streams.closed(StreamId(2)), None);
    streams.say(Channel::SESSION, "5");
    streams.listen(StreamId(3), Some("0-2"), None, true);
    assert_snapshot!(done(&mut streams), @"
    3 begins 200 Events
    3 message #0-3 3
    3 message #0-4 4
    3 message #0-5 5
    ");
}

#[test]
fn an_unknown_event_brings_nothing_of_another_stream_back() {
    for id in ["", "7-1", "nonsense", "0-x", "1-0", "99999999999999999999-1"] {
        let mut streams = streams();
        streams.post(StreamId(9), 1, LEGACY);
        streams.listen(StreamId(1), None, None, true);
        streams.say(Channel::SESSION, "1");
        streams.listen(StreamId(2), Some(id), None, true);
        assert_eq!(done(&mut streams), "1 begins 200 Events\n1 message #0-1 1\n2 begins 200 Events\n1 ends", "{id}");
    }
}

#[test]
fn a_listener_of_the_old_transport_is_told_where_to_post() {
    let mut streams = streams();
    let endpoint = EventFrame { name: Some("endpoint"), id: None, retry: None, data: "/message?sessionId=s1".into() };
    streams.listen(StreamId(1), None, Some(endpoint), false);
    streams.accept(StreamId(2));
    streams.answer(Channel::SESSION, 200, text("1"));
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Events
    1 endpoint /message?sessionId=s
    2 begins 202 Empty
    2 ends
    1 message 1
    ");
}

#[test]
fn a_primed_channel_goes_on_after_its_stream_was_lost() {
    let mut streams = streams();
    let channel = streams.post(StreamId(1), 1, PRIMED);
    streams.say(channel, "1");
    assert_eq!(streams.closed(StreamId(1)), Some(channel));
    assert!(streams.say(channel, "2"));
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Events
    1 #1-0 retry 1s 
    1 message #1-1 1
    ");
    streams.listen(StreamId(2), Some("1-0"), None, true);
    streams.say(channel, "3");
    // The peer came back before its hanging up was noticed.
    streams.listen(StreamId(3), Some("1-2"), None, true);
    assert_eq!(streams.closed(StreamId(3)), Some(channel));
    streams.answer(channel, 400, text("4"));
    streams.listen(StreamId(4), Some("1-3"), None, true);
    assert_snapshot!(done(&mut streams), @"
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
    assert!(!streams.is_attended());
}

#[test]
fn a_channel_nobody_can_come_back_to_goes_with_its_stream() {
    let mut streams = streams();
    for style in [PLAIN, LEGACY] {
        let channel = streams.post(StreamId(1), 1, style);
        assert_eq!(streams.closed(StreamId(1)), Some(channel));
        assert!(!streams.say(channel, "1"));
        streams.answer(channel, 200, text("2"));
        assert_eq!(streams.closed(StreamId(1)), None);
    }
    assert_snapshot!(done(&mut streams), @"");
}

#[test]
fn the_end_finishes_what_is_open() {
    let mut streams = streams();
    streams.listen(StreamId(1), None, None, true);
    streams.post(StreamId(2), 1, PRIMED);
    streams.post(StreamId(3), 1, LEGACY);
    done(&mut streams);
    streams.close_all();
    assert_snapshot!(done(&mut streams), @"
    1 ends
    2 ends
    3 begins 503 Empty
    3 ends
    ");
    assert!(!streams.is_attended());
}

#[test]
fn only_the_newest_are_kept() {
    let mut many = streams();
    for n in 0..1000 {
        many.say(Channel::SESSION, n.to_string());
    }
    many.listen(StreamId(1), None, None, true);
    let said = done(&mut many);
    assert_eq!((said.lines().count(), said.lines().nth(1)), (257, Some("1 message #0-745 744")));

    let mut long = streams();
    let channel = long.post(StreamId(1), 2, PRIMED);
    for _ in 0..6 {
        long.say(channel, format!("{:?}", "x".repeat(1 << 20)));
    }
    done(&mut long);
    long.listen(StreamId(2), Some("1-0"), None, true);
    assert_snapshot!(done(&mut long), @r#"
    2 begins 200 Events
    2 message #1-4 "xxxxxxxxxxxxxxxxxxx
    2 message #1-5 "xxxxxxxxxxxxxxxxxxx
    2 message #1-6 "xxxxxxxxxxxxxxxxxxx
    1 ends
    "#);
}

#[test]
fn an_answer_that_takes_long_becomes_a_stream() {
    let (mut streams, start) = (streams(), Instant::now());
    let channels: Vec<_> = (1..=3).map(|stream| streams.post(StreamId(stream), 1, LEGACY)).collect();
    for channel in &channels {
        streams.open_at(*channel, Some(start + STREAM_OPEN_DELAY));
    }
    streams.open_at(Channel::SESSION, Some(start));
    streams.open_at(channels[1], None);
    assert_eq!(streams.poll_timeout(), Some(start + STREAM_OPEN_DELAY));
    streams.answer(channels[0], 200, text("in time"));
    streams.handle_timeout(start + STREAM_OPEN_DELAY - Duration::from_millis(1));
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Json
    1 text in time
    1 ends
    ");
    streams.handle_timeout(start + STREAM_OPEN_DELAY);
    assert_eq!(streams.poll_timeout(), None);
    streams.answer(channels[2], 200, text("late"));
    assert_snapshot!(done(&mut streams), @"
    3 begins 200 Events
    3 message #3-1 late
    3 ends
    ");
}

#[test]
fn a_refusal_is_counted_on_every_kind_of_stream() {
    let refusal = || StreamReply::Refusal(Code::NotFound, "no".into());
    let mut streams = streams();
    streams.post(StreamId(1), 1, PLAIN);
    streams.answer_on(StreamId(1), 404, refusal());
    let channel = streams.post(StreamId(2), 1, PLAIN);
    streams.say(channel, "1");
    streams.answer(channel, 404, refusal());
    streams.answer_on(StreamId(2), 404, refusal());
    streams.open_duplex(StreamId::ONLY);
    streams.answer_on(StreamId::ONLY, 404, refusal());
    streams.answer_on(StreamId::ONLY, 202, StreamReply::Empty);
    assert_snapshot!(done(&mut streams), @r#"
    1 begins 404 Json
    Refuse(StreamId(1), NotFound, Text("no"))
    1 ends
    2 begins 200 Events
    2 message 1
    Refused(NotFound)
    2 message no
    2 ends
    Refuse(StreamId(0), NotFound, Text("no"))
    "#);
}

#[test]
fn the_oldest_poll_has_every_frame_and_the_others_wait() {
    let (mut streams, start) = (streams(), Instant::now());
    let second = Duration::from_secs(1);
    streams.say(Channel::SESSION, "1");
    streams.poll(StreamId(1), start + second, true);
    streams.poll(StreamId(2), start + second, false);
    streams.poll(StreamId(3), start + 9 * second, false);
    streams.say(Channel::POLLS, "2");
    streams.say(Channel::SESSION, "3");
    assert!(streams.is_attended());
    assert_eq!(streams.poll_timeout(), Some(start + second));
    streams.answer_polls(start);
    assert_snapshot!(done(&mut streams), @"
    1 begins 200 Json mcp-session-id: s1
    1 text [1,2,3]
    1 ends
    ");
    streams.answer_polls(start + second);
    assert_eq!(streams.closed(StreamId(3)), None);
    streams.say(Channel::POLLS, "4");
    streams.poll(StreamId(4), start + 2 * second, false);
    streams.close_all();
    assert_snapshot!(done(&mut streams), @"
    2 begins 200 Json
    2 text []
    2 ends
    4 begins 200 Json
    4 text [4]
    4 ends
    ");
    assert!(!streams.is_attended());
}

#[test]
fn a_listener_takes_precedence_over_polls_for_what_belongs_to_no_request() {
    let mut streams = streams();
    streams.poll(StreamId(1), Instant::now(), false);
    streams.listen(StreamId(2), None, None, true);
    streams.say(Channel::SESSION, "1");
    streams.answer(Channel::POLLS, 200, text("2"));
    streams.answer_polls(Instant::now());
    assert_snapshot!(done(&mut streams), @"
    2 begins 200 Events
    2 message #0-1 1
    1 begins 200 Json
    1 text [2]
    1 ends
    ");
}

#[test]
fn more_than_the_bound_for_polls_is_reported_once() {
    let mut streams = streams();
    for _ in 0..3 {
        streams.say(Channel::POLLS, "1");
        assert!(!streams.take_overflow());
    }
    streams.say(Channel::POLLS, "1");
    assert!(streams.take_overflow());
    assert!(!streams.take_overflow());
}

#[test]
fn a_session_is_idle_from_when_its_last_stream_ended() {
    let (mut streams, limit) = (streams(), Duration::from_secs(60));
    let start = streams.seen;
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(streams.idle_at(limit, false, at(10)), at(60));
    assert_eq!(streams.idle_at(limit, true, at(10)), at(70), "what is under way counts");
    streams.touch(at(10));
    streams.pass_time(at(20));
    assert_eq!(streams.idle_at(limit, false, at(20)), at(70));
    streams.listen(StreamId(1), None, None, true);
    assert_eq!(streams.idle_at(limit, false, at(30)), at(90), "so does an open stream");
    streams.pass_time(at(40));
    streams.closed(StreamId(1));
    assert_eq!(streams.idle_at(limit, false, at(50)), at(100));
}

proptest! {
    /// Whatever happens in whatever order: each stream is begun at most once, hears nothing before that and nothing after its
    /// end, and ends once.
    #[test]
    fn a_stream_begins_speaks_and_ends(steps in prop::collection::vec((0_u8..10, 0_u32..8, 0_u64..8), 0..60)) {
        #[derive(Debug, PartialEq)]
        enum Stage { New, Begun, Over }
        let mut streams = streams();
        let mut stages: Vec<Stage> = Vec::new();
        for (step, chosen, number) in steps {
            let (channel, answers) = (Channel(number), number as usize % 3);
            let next = StreamId(stages.len() as u32);
            if step < 5 {
                stages.push(Stage::New);
            }
            match step {
                0 => drop(streams.post(next, answers, PRIMED)),
                1 => drop(streams.post(next, answers, LEGACY)),
                2 => drop(streams.post(next, answers, PLAIN)),
                3 => { streams.listen(next, Some(&format!("{number}-{chosen}")), None, true); },
                4 => { streams.listen(next, None, None, true); },
                5 => if let Some(stage @ (Stage::New | Stage::Begun)) = stages.get_mut(chosen as usize) {
                    *stage = Stage::Over;
                    streams.closed(StreamId(chosen));
                },
                6 => streams.open_events(channel),
                7 => streams.answer(channel, 200, text("1")),
                8 => streams.skip(channel),
                _ => drop(streams.say(channel, "1")),
            }
            while let Some(action) = streams.poll_action() {
                let (stream, before, after) = match action {
                    DialectAction::Begin(stream, _) => (stream, Stage::New, Stage::Begun),
                    DialectAction::Send(stream, _) => (stream, Stage::Begun, Stage::Begun),
                    DialectAction::Finish(stream) => (stream, Stage::Begun, Stage::Over),
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!(std::mem::replace(&mut stages[stream.0 as usize], after), before);
            }
        }
        streams.close_all();
        prop_assert!(!streams.is_attended());
    }
}

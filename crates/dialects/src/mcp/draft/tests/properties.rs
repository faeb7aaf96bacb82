//! Whatever is said: nothing panics, and every request is answered once, under its own id.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use salon_mcp::RpcHead;

const METHODS: [&str; 12] = [
    "tools/list",
    "resources/list",
    r#"tools/invoke {"name":"bob__t","arguments":{"n":12345678901234567890}}"#,
    r#"tools/invoke {"name":"same"}"#,
    "tools/invoke",
    r#"resources/read {"uri":"a:1"}"#,
    "ping",
    "initialize {}",
    "prompts/list",
    r#"cancel {"id":1}"#,
    "tools/call []",
    "nonsense",
];

const RESULTS: [&str; 7] = [
    "{}",
    r#"{"tools":[{"name":"t"}],"resources":[{"uri":"a:1"}]}"#,
    r#"{"tools":[{"name":"u"}],"nextCursor":"c"}"#,
    r#"{"content":[{"type":"text","text":"é"}],"structuredContent":{"n":1}}"#,
    "null",
    r#"error {"code":-32602,"message":"no"}"#,
    SERVER,
];

#[derive(Debug, Clone)]
enum Step {
    Call(&'static str),
    Cancel(Index),
    Answer(Index, &'static str),
    Notification(&'static str),
    Poll(u64),
    Time(u64),
    Noise(String),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => select(METHODS.to_vec()).prop_map(Step::Call),
        1 => any::<Index>().prop_map(Step::Cancel),
        8 => (any::<Index>(), select(RESULTS.to_vec())).prop_map(|(at, result)| Step::Answer(at, result)),
        2 => select(vec![
            "bob* notifications/tools/list_changed",
            "bob* notifications/resources/list_changed",
            r#"bob! notifications/progress {"progressToken":"@","progress":1,"total":3}"#,
            r#"bob! notifications/resources/updated {"uri":"a:1"}"#,
            r#"bob! notifications/message {"level":"error"}"#,
            "leave bob",
        ]).prop_map(Step::Notification),
        1 => (0_u64..30).prop_map(Step::Poll),
        2 => select(vec![10_u64, 60, 3_000, 60_000]).prop_map(Step::Time),
        1 => ".{0,40}".prop_map(Step::Noise),
        1 => r#"\{"jsonrpc":"2\.0","(id|method|params|result)":[\{\}\[\]"a-z0-9:,]{0,20}\}"#.prop_map(Step::Noise),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Socket,
    Http,
    Poll,
}

/// A session in which it is known which requests are open.
struct Watched {
    play: Play,
    carrier: Carrier,
    stream: u32,
    next: u32,
    /// How often each request was answered.
    answers: HashMap<String, u32>,
}

impl Watched {
    fn new(carrier: Carrier) -> Self {
        let play = match carrier {
            Carrier::Socket => Play::duplex("bob"),
            Carrier::Http | Carrier::Poll => Play::new(DoorScope::Room, "bob"),
        };
        let mut watched = Self { play, carrier, stream: 0, next: 0, answers: HashMap::new() };
        watched.call(&format!("initialize {HELLO}"));
        watched.play.line("seat");
        if carrier == Carrier::Http {
            watched.play.line("get 100000");
        }
        watched.look();
        watched
    }

    fn say(&mut self, words: &str) {
        self.stream += 1;
        let stream = self.stream;
        match self.carrier {
            Carrier::Socket => self.play.line(words),
            Carrier::Http => self.play.line(&format!("{stream} {words}")),
            Carrier::Poll => self.play.line(&format!("{stream} poll 0 {words}")),
        }
    }

    /// Ids are of both types, and look alike.
    fn call(&mut self, words: &str) {
        self.next += 1;
        let id = match self.next % 2 {
            0 => self.next.to_string(),
            _ => format!("\"{}\"", self.next + 1),
        };
        self.answers.insert(id.clone(), 0);
        self.say(&format!("call {id} {words}"));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call(words) => self.call(words),
            Step::Cancel(at) => {
                let ids: Vec<_> = self.answers.keys().cloned().collect();
                self.say(&format!("tell cancel {{\"id\":{}}}", ids[at.index(ids.len())]));
            }
            Step::Answer(at, outcome) if !self.play.open.is_empty() => {
                let at = at.index(self.play.open.len());
                let is_consulted = self.play.open[at].id.is_none();
                let outcome = if is_consulted && outcome.starts_with("error") { "{}" } else { outcome };
                self.play.answer(at, outcome);
            }
            Step::Answer(..) => {}
            Step::Notification(line) => self.play.line(line),
            Step::Poll(wait) if self.carrier == Carrier::Poll => {
                self.stream += 1;
                self.play.line(&format!("{} poll {wait}", self.stream));
            }
            Step::Poll(_) => {}
            Step::Time(ms) => self.play.pass(Duration::from_millis(ms)),
            // It would be answered as well, under the id of a request of this client's.
            Step::Noise(text) if self.names_a_request(&text) => {}
            Step::Noise(text) => self.say(&format!("client {}", text.replace(['\n', '\r'], " "))),
        }
        self.look();
    }

    fn names_a_request(&self, text: &str) -> bool {
        let message: Option<serde_json::Value> = serde_json::from_str(text).ok();
        message.is_some_and(|message| self.answers.contains_key(&message["id"].to_string()))
    }

    /// Reads what was told to the client.
    fn look(&mut self) {
        let told = std::mem::take(&mut self.play.told);
        for line in
            told.lines().filter(|line| line.trim_start_matches(|char: char| char.is_ascii_digit()).starts_with('←'))
        {
            let (_, text) = line.split_once("← ").unwrap();
            let messages: Vec<Box<RawValue>> = match text.starts_with('[') {
                true => serde_json::from_str(text).unwrap(),
                false => vec![raw(text)],
            };
            for message in messages {
                assert!(message.get().starts_with(r#"{"jsonrpc":"2.0""#), "{message}");
                let head = RpcHead::read(message.get()).unwrap();
                if let (None, Some(id)) = (head.method, head.id)
                    && let Some(count) = self.answers.get_mut(id.get())
                {
                    *count += 1;
                }
            }
        }
    }

    /// Everything that is open is answered in the end.
    fn finish(mut self) {
        self.play.line("closing");
        self.look();
        assert!(self.play.ended);
        if self.carrier != Carrier::Poll {
            let wrong: Vec<_> = self.answers.iter().filter(|(_, count)| **count != 1).collect();
            assert!(wrong.is_empty(), "answered otherwise than once: {wrong:?}");
        } else {
            assert!(self.answers.values().all(|count| *count <= 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_is_answered_once_under_its_own_id(
        carrier in select(vec![Carrier::Socket, Carrier::Http, Carrier::Poll]),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut watched = Watched::new(carrier);
        for step in steps {
            if watched.play.ended {
                return Ok(());
            }
            watched.step(step);
        }
        if !watched.play.ended {
            watched.finish();
        }
    }

    #[test]
    fn a_translator_never_panics_and_keeps_ids(texts in prop::collection::vec(".{0,60}", 0..20), id in any::<u64>(), output in ".*") {
        let (mut translator, number) = (Translator::default(), id.to_string());
        for text in &texts {
            let _ = translator.to_server(text);
            let _ = translator.from_server(text);
            let _ = (is_initialize_message(text), translator.failed(text, Some(text)));
        }
        let asked = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
        let Passed::On(asked) = translator.to_server(&asked) else { panic!("it is passed on") };
        prop_assert_eq!(RpcHead::read(&asked).unwrap().request_id(), Some(number.as_str()));
        let output = serde_json::to_string(&output).unwrap();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"status":"success","output":{output}}}}}"#);
        let answer = translator.from_server(&answer).remove(0);
        let head = RpcHead::read(&answer).unwrap();
        prop_assert_eq!(head.id.map(RawValue::get), Some(number.as_str()));
        // And back: what a tool said is what is heard of it.
        let back = words::outcome_to_draft(head.result.unwrap());
        let expected = format!(r#"{{"status":"success","output":{output}}}"#);
        prop_assert_eq!(back.get(), expected.as_str());
    }

    #[test]
    fn an_object_passes_both_ways_as_it_was_written(number in "-?[1-9][0-9]{0,40}", word in "[a-zé]{0,8}") {
        let structured = format!(r#"{{"n":{number},"w":"{word}", "deep":[{{"n":{number}}}]}}"#);
        let result = words::outcome_to_mcp(&raw(&format!(r#"{{"status":"error","output":{structured}}}"#)));
        let back = words::outcome_to_draft(&result);
        let expected = format!(r#"{{"status":"error","output":{structured}}}"#);
        prop_assert_eq!(back.get(), expected.as_str());
    }
}

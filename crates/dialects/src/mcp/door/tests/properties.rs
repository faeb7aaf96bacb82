//! Whatever happens in whatever order: nothing panics, and every request of the client's is answered once, unless it takes it back.

use std::collections::HashMap;

use super::*;
use proptest::prelude::*;
use proptest::sample::Index;

/// Something that may happen.
#[derive(Debug, Clone)]
enum Step {
    /// A line of a script.
    Line(String),
    /// One of the open requests is answered.
    Answer(Index, &'static str),
    /// The client answers one of its questions.
    Reply(Index, bool),
    /// A request of the client's is made again with the state that was given out last.
    Resume,
    /// One of the client's requests is taken back.
    Cancel(Index),
    /// One of its streams is hung up.
    Hangup(Index),
    /// Somebody asks during one of the open requests, or tells something.
    Request(Index, &'static str),
    Notification(Index, &'static str),
    /// The room does not take an open request, or whom it asked is gone.
    Refused(Index, Code),
    Gone(Index),
    Time(u64),
}

const METHODS: [&str; 14] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    r#"tools/call {"name":"bob__t","_meta":{"progressToken":1}}"#,
    r#"tools/call {"name":"carol__u"}"#,
    r#"tools/call {"name":"same"}"#,
    r#"tools/call {"name":"dave__d"}"#,
    r#"resources/read {"uri":"a:1"}"#,
    r#"resources/subscribe {"uri":"a:1"}"#,
    r#"resources/unsubscribe {"uri":"a:1"}"#,
    r#"completion/complete {"ref":{"type":"ref/prompt","name":"p"}}"#,
    r#"logging/setLevel {"level":"info"}"#,
    r#"subscriptions/listen {"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}}"#,
    "server/discover",
];

const RESULTS: [&str; 5] = [
    "{}",
    r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}"#,
    r#"error {"code":-32601,"message":"no"}"#,
    r#"error {"code":-32042,"message":"open","data":{"elicitations":[{"url":"u"}]}}"#,
    r#"{"contents":[{"uri":"a:1"}],"content":[{"type":"resource_link","uri":"b:1"}]}"#,
];

fn step() -> impl Strategy<Value = Step> {
    let method = || prop::sample::select(METHODS.to_vec());
    let others = || prop::sample::select(vec!["bob", "carol", "dave", "dave/2026-07-28", "dave/2025-11-25,2026-07-28"]);
    prop_oneof![
        4 => method().prop_map(|method| Step::Line(format!("call # {method}"))),
        4 => method().prop_map(|method| Step::Line(format!("ask # {method}"))),
        12 => (any::<Index>(), prop::sample::select(RESULTS.to_vec())).prop_map(|(at, result)| Step::Answer(at, result)),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(at, well)| Step::Reply(at, well)),
        2 => Just(Step::Resume),
        1 => any::<Index>().prop_map(Step::Cancel),
        1 => any::<Index>().prop_map(Step::Hangup),
        3 => (any::<Index>(), prop::sample::select(vec!["roots/list", "elicitation/create", "tools/list", "initialize"]))
            .prop_map(|(at, method)| Step::Request(at, method)),
        2 => (any::<Index>(), prop::sample::select(vec![
            "notifications/tools/list_changed",
            r#"notifications/resources/updated {"uri":"a:1"}"#,
            r#"notifications/message {"level":"error"}"#,
            r#"notifications/cancelled {"requestId":1}"#,
        ])).prop_map(|(at, told)| Step::Notification(at, told)),
        1 => (any::<Index>(), prop::sample::select(vec![Code::RateLimited, Code::Closing, Code::RecipientNotFound]))
            .prop_map(|(at, code)| Step::Refused(at, code)),
        1 => any::<Index>().prop_map(Step::Gone),
        1 => others().prop_map(|who| Step::Line(format!("join {who}"))),
        1 => others().prop_map(|who| Step::Line(format!("leave {}", who.split('/').next().unwrap_or(who)))),
        1 => Just(Step::Line("gap".into())),
        3 => prop::sample::select(vec![10_u64, 30, 250, 3_000, 60_000, 120_000, 600_000]).prop_map(Step::Time),
    ]
}

/// A play in which it is known which requests of the client's are open.
struct Watched {
    play: Play,
    over_http: bool,
    next: u32,
    /// By JSON-RPC id, the stream where there is one; none once it was taken back.
    open: HashMap<u32, Option<u32>>,
    state: Option<String>,
    /// Whether a stream was lost that its client could come back to.
    lost: bool,
}

impl Watched {
    fn new(scope: DoorScope, over_http: bool) -> Self {
        let mut play = Play::new(scope, "bob carol/2026-07-28", |_| {});
        play.capabilities = ASKABLE.into();
        play.offers = vec![
            ("bob", "tools/list", r#"{"tools":[{"name":"t"},{"name":"same"}]}"#),
            ("carol", "tools/list", r#"{"tools":[{"name":"u"},{"name":"same"}]}"#),
            ("bob", "resources/list", r#"{"resources":[{"uri":"a:1"}]}"#),
        ];
        if !over_http {
            play.event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex));
        }
        let mut watched = Self { play, over_http, next: 1, open: HashMap::new(), state: None, lost: false };
        watched.request(&format!(r#"call # initialize {{"protocolVersion":"2025-11-25","capabilities":{ASKABLE}}}"#));
        watched.line("seat");
        if over_http {
            watched.line("get 10000");
        }
        watched
    }

    fn line(&mut self, line: &str) {
        self.play.line(line);
        self.heard();
    }

    fn request(&mut self, line: &str) {
        let number = self.next;
        self.next += 1;
        let line = line.replacen('#', &number.to_string(), 1);
        let stream = self.over_http.then_some(number);
        self.open.insert(number, stream);
        self.line(&if self.over_http { format!("{number} {line}") } else { line });
    }

    /// Counts the answers among what was said to the client.
    fn heard(&mut self) {
        for line in std::mem::take(&mut self.play.told).lines() {
            let Some((_, said)) = line.split_once("← ") else { continue };
            let text = if said.starts_with('#') { said.split_once(' ').map_or("", |(_, data)| data) } else { said };
            let Some(head) = salon_mcp::RpcHead::read(text).filter(|head| head.method.is_none()) else { continue };
            let number: u32 = head.id.and_then(|id| id.get().parse().ok()).unwrap_or_else(|| panic!("{line}"));
            assert!(self.open.remove(&number).is_some(), "{number} is answered though it is not open: {line}");
            if let Some((_, rest)) = text.rsplit_once(r#""requestState":"salon."#) {
                self.state = Some(format!("salon.{}", rest.split('"').next().unwrap_or_default()));
            }
        }
    }

    fn open_at(&mut self, at: Index) -> Option<OpenScriptRequest> {
        let sent: Vec<usize> =
            self.play.open.iter().enumerate().filter(|(_, open)| open.id.is_some()).map(|(at, _)| at).collect();
        (!sent.is_empty()).then(|| self.play.open.remove(*at.get(&sent)))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Line(line) if line.contains('#') => self.request(line),
            Step::Line(line) => self.line(line),
            Step::Answer(at, result) => {
                if !self.play.open.is_empty() {
                    let open = self.play.open.remove(at.index(self.play.open.len()));
                    self.answer(&open, result);
                }
            }
            Step::Reply(at, well) => {
                if !self.play.asked.is_empty() {
                    let (_, id) = self.play.asked.remove(at.index(self.play.asked.len()));
                    let outcome = if *well { "{}" } else { r#"error {"code":1,"message":"no"}"# };
                    let stream = if self.over_http { "9999 " } else { "" };
                    self.line(&format!("{stream}reply {id} {outcome}"));
                }
            }
            Step::Resume => {
                if let Some(state) = self.state.take() {
                    self.request(&format!(r#"ask # tools/call {{"name":"bob__t","requestState":"{state}"}}"#));
                }
            }
            Step::Cancel(at) => {
                let mut numbers: Vec<_> = self.open.keys().copied().filter(|number| *number > 1).collect();
                numbers.sort_unstable();
                if !numbers.is_empty() && !self.over_http {
                    let number = *at.get(&numbers);
                    self.open.remove(&number);
                    self.line(&format!(r#"tell notifications/cancelled {{"requestId":{number}}}"#));
                }
            }
            Step::Hangup(at) => {
                let mut numbers: Vec<_> =
                    self.open.iter().filter(|(_, stream)| stream.is_some()).map(|(number, _)| *number).collect();
                numbers.sort_unstable();
                if !numbers.is_empty() {
                    let number = *at.get(&numbers);
                    self.open.remove(&number);
                    self.lost = true;
                    self.line(&format!("hangup {number}"));
                }
            }
            Step::Request(at, method) => {
                if let Some(open) = self.open_at(*at) {
                    self.line(&format!("{}? 1 @={} {method}", open.to, open.id.clone().unwrap_or_default()));
                    self.play.open.push(open);
                }
            }
            Step::Notification(at, told) => {
                if let Some(open) = self.open_at(*at) {
                    self.line(&format!("{}! @={} {told}", open.to, open.id.clone().unwrap_or_default()));
                    self.play.open.push(open);
                }
            }
            Step::Refused(at, code) => {
                if let Some(open) = self.open_at(*at) {
                    self.play.refuse(|id| open.id.as_deref() == Some(id.as_str()), *code);
                    self.heard();
                }
            }
            Step::Gone(at) => {
                if let Some(OpenScriptRequest { to, id: Some(id), .. }) = self.open_at(*at) {
                    let (request, rpc) = (EnvelopeId::new(&*id).unwrap(), RpcId::String(id.into()));
                    let cause = FailureCause::CalleeLeft;
                    self.play.event(DialectEvent::CallFailed {
                        request,
                        id: rpc,
                        callee: self::id(&to),
                        cause,
                        reason: None,
                    });
                    self.heard();
                }
            }
            Step::Time(time) => {
                self.play.pass(Duration::from_millis(*time));
                self.heard();
            }
        }
    }

    fn answer(&mut self, open: &OpenScriptRequest, result: &str) {
        let offered = self.play.offers.iter().find(|(who, method, _)| *who == open.to && *method == open.method);
        let result = match (&*open.method, offered) {
            ("initialize", _) => SERVER,
            (_, Some((_, _, offered))) => offered,
            _ => result,
        };
        self.play.answer_open(open, result);
        self.heard();
    }

    /// What the door still works on, other than subscriptions.
    fn left(&self) -> String {
        let Door { calls, questions, lists, client, .. } = &self.play.door;
        let left = calls.numbers(|call| call.is_client() && &*call.method != "subscriptions/listen");
        let calls = left.into_iter().map(|number| format!("{:#?}", calls.get(number)));
        let asks = questions.all().into_iter().map(|number| format!("{:#?}", questions.get(number)));
        let gathers = lists.of_requests(|_| true).into_iter().map(|number| format!("waits for lists: {number}"));
        let requests = (client.waiting() > 0).then(|| format!("{client:#?}"));
        calls.chain(asks).chain(gathers).chain(requests).collect()
    }

    /// Everybody answers whatever is open, until nothing is.
    fn end(&mut self) {
        for _ in 0..200 {
            while let Some(open) = self.play.open.pop() {
                // Subscriptions last for as long as somebody wants them.
                if open.method != "subscriptions/listen" {
                    self.answer(&open, "{}");
                }
            }
            while let Some((_, id)) = self.play.asked.pop() {
                let stream = if self.over_http { "9999 " } else { "" };
                self.line(&format!("{stream}reply {id} {{}}"));
            }
            self.play.pass(Duration::from_millis(10_000));
            self.heard();
            if self.play.open.is_empty() && self.left().is_empty() {
                break;
            }
        }
        let left = self.left();
        assert!(left.is_empty() || self.lost, "{left}");
        self.line("closing");
        assert!(self.open.is_empty(), "not answered: {:?}", self.open);
        assert!(self.play.door.calls.numbers(|_| true).is_empty(), "{:#?}", self.play.door.calls);
    }
}

fn scopes() -> impl Strategy<Value = DoorScope> {
    prop_oneof![
        3 => Just(DoorScope::Room),
        1 => Just(DoorScope::One(id("bob"))),
        1 => Just(DoorScope::One(id("carol"))),
        1 => Just(DoorScope::One(id("dave"))),
    ]
}

proptest! {
    #[test]
    fn every_request_is_answered_once(scope in scopes(), over_http: bool, steps in prop::collection::vec(step(), 0..60)) {
        let mut watched = Watched::new(scope, over_http);
        for step in &steps {
            watched.step(step);
            if watched.play.door.streams.is_closing() || watched.play.ended {
                return Ok(());
            }
        }
        watched.end();
    }

    #[test]
    fn nothing_that_is_said_does_harm(texts in prop::collection::vec(r#"(\{"jsonrpc":"2.0"(,"id":(1|"a"|null|\[\]))?(,"method":"(initialize|tools/call|tools/list|ping|notifications/[a-z/]{1,12}|[a-z/]{1,12})")?(,"params":(\{\}|\[\]|7|\{"name":"bob__t"\}|\{"_meta":\{"io\.modelcontextprotocol/protocolVersion":"2026-07-28"\}\}))?(,"result":\{\})?\}|\PC{0,40})"#, 0..12), http: bool) {
        let mut play = Play::new(DoorScope::Room, "bob", |_| {});
        if !http {
            play.event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex));
        }
        for (number, text) in (1..).zip(texts) {
            let stream = if http { StreamId(number) } else { StreamId::ONLY };
            if http {
                let post = Post { body: Body::read(None, &text), headers: Vec::new(), apart: false };
                play.event(DialectEvent::StreamOpened(stream, McpOpening::Post(post)));
            } else {
                play.door.handle_frame(stream, Frame::Text(text.as_str().into()), play.now);
                play.collect();
            }
            if number == 3 {
                play.line("seat");
            }
            play.settle();
            for payload in [&*text, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#] {
                if let Ok(payload) = RawValue::from_string(payload.into()) {
                    let text = Compose { id: "e", ts: Timestamp(0), from: &id("bob"), to: &[id("alice")], kind: Kind::Mcp, correlation_id: Some("s-1"), payload }.text();
                    if let Ok(envelope) = Envelope::restore(text) {
                        play.event(DialectEvent::Entry(Arc::new(Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope })));
                    }
                }
            }
            play.pass(Duration::from_secs(5));
        }
        play.line("closing");
    }
}

use parking_lot::Mutex;
use salon_dialects::{BodyForm, History, StreamHead, Ticket};
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_log::{Claim, Durability};
use salon_protocol::{Draft, Limits, McpVersion, Participant, ParticipantId, TopicName};
use salon_rooms::{Admission, ByteRates, Deliver, Rate, Rooms, Settings};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::audit::Audit;
use crate::carriers::{ExchangeOutcome, Exchanges, Inbox, StreamRequest};
use crate::meters::Meters;
use crate::scratch::Scratch;

/// A dialect that does what it is told, one word a request, and notes what happens.
struct Script {
    actions: VecDeque<DialectAction<Infallible>>,
    noted: Arc<Mutex<Vec<String>>>,
    due: Option<Instant>,
}

impl Script {
    fn note(&self, what: impl Into<String>) {
        self.noted.lock().push(what.into());
    }

    fn publish(&mut self, ticket: u64, to: &str, payload: &str) {
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"m{ticket}","ts":"2025-08-17T14:00:00Z","from":"alice",{to}"kind":"mcp","payload":{{"jsonrpc":"2.0",{payload}}}}}"#
        );
        let draft = Draft::parse(text, &Limits::default()).expect("a draft");
        self.actions.push_back(DialectAction::Publish(Ticket(ticket), Box::new(draft)));
    }

    fn answer(&mut self, stream: StreamId, text: &str) {
        let head = StreamHead { status: 200, form: BodyForm::Json, headers: Vec::new() };
        self.actions.push_back(DialectAction::Begin(stream, head));
        self.actions.push_back(DialectAction::Send(stream, Frame::Text(text.into())));
        self.actions.push_back(DialectAction::Finish(stream));
    }

    fn hear(&mut self, stream: StreamId, word: &str, now: Instant) {
        match word {
            "join" => {
                let introduction = Introduction::default();
                self.actions.push_back(DialectAction::Join(Box::new(introduction)));
            }
            "call ghosts" => {
                for ticket in 1..=3 {
                    self.publish(ticket, r#""to":["ghost"],"#, r#""id":1,"method":"ping""#);
                }
                self.publish(4, "", r#""method":"notifications/note""#);
            }
            "soon" => self.due = Some(now),
            "close" => self.actions.push_back(DialectAction::Close(CloseReason::Bye)),
            "panic" => panic!("the test asked for it"),
            _ => {}
        }
        self.answer(stream, word);
    }
}

/// What a request says; one that says nothing listens.
type Word = Option<&'static str>;

impl Dialect for Script {
    type Opening = Word;
    type Query = Infallible;
    type Answer = Infallible;

    fn handle_frame(&mut self, _: StreamId, frame: Frame, _: Instant) {
        panic!("requests are the only streams here: {frame:?}");
    }

    fn handle_event(&mut self, event: DialectEvent<Word, Infallible>, now: Instant) {
        match event {
            DialectEvent::Joined(_) => self.note("joined"),
            DialectEvent::NotJoined(refusal) => self.note(format!("not joined: {}", refusal.code)),
            DialectEvent::Accepted { ticket, .. } => self.note(format!("{} accepted", ticket.0)),
            DialectEvent::Held { ticket, .. } => self.note(format!("{} held", ticket.0)),
            DialectEvent::Refused { ticket, refusal } => self.note(format!("{} refused: {}", ticket.0, refusal.code)),
            DialectEvent::StreamOpened(_, None) => self.note("listening"),
            DialectEvent::StreamOpened(stream, Some(word)) => self.hear(stream, word, now),
            DialectEvent::StreamClosed(_) => self.note("closed"),
            DialectEvent::Closing(reason) => self.note(format!("closing: {}", reason.word())),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.due = None;
        self.note("due");
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn poll_action(&mut self) -> Option<DialectAction<Infallible>> {
        self.actions.pop_front()
    }
}

/// A session of alice's that has not joined.
struct Stage {
    inbox: Inbox<Word>,
    noted: Arc<Mutex<Vec<String>>>,
    dismiss: Option<oneshot::Sender<()>>,
    running: JoinHandle<CloseReason>,
    rooms: Rooms,
    meters: Meters,
    _scratch: Scratch,
}

impl Stage {
    fn new(participants: usize, expires: Duration) -> Self {
        let scratch = Scratch::new();
        let options = SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() };
        let log = Arc::new(Sqlite::open(scratch.path(), options).expect("a log"));
        let settings = Settings {
            ring: 1 << 20,
            rings: 1 << 20,
            rate: Rate::UNLIMITED,
            byte_rates: ByteRates::UNLIMITED,
            bridges: salon_rooms::BridgeSettings::default(),
            participants,
            rooms: 0,
            rooms_each: 0,
            grace: Duration::ZERO,
            leaves: [7; 16],
            witness: None,
            timings: salon_rooms::Timings::default(),
        };
        let rooms = Rooms::new(log, settings, Box::new(|_| Box::pin(std::future::pending())));
        let topic = TopicName::new("room:a").expect("a name");
        let (dismiss, dismissed) = oneshot::channel();
        let entered = rooms.clone();
        let enter_topic = topic;
        let enter = move |introduction: Introduction| -> crate::entrance::SeatFuture {
            let (rooms, topic) = (entered.clone(), enter_topic.clone());
            Box::pin(async move {
                let arrival = rooms.enter(&topic, admission("alice", introduction.mcp)).await?;
                let joined = Joined {
                    topic,
                    participant: arrival.seat.participant().clone(),
                    roster: arrival.roster,
                    open_calls: arrival.open_calls,
                    history: History { enabled: true, limit: 1, recent: None },
                    durability: None,
                };
                Ok((arrival.seat, joined))
            })
        };
        let entrance = Entrance::new(enter, async { drop(dismissed.await) });
        let noted = Arc::<Mutex<Vec<String>>>::default();
        let dialect = Script { actions: VecDeque::new(), noted: noted.clone(), due: None };
        let (carrier, inbox) = Exchanges::new();
        let connection = ConnectionContext::of_alice(Audit::off());
        let expires = Instant::now() + expires;
        let meters = connection.meters.clone();
        let beginning = SessionStart {
            dialect,
            resolver: None,
            carrier,
            keep_alive: None,
            expires,
            connection: connection.clone(),
        };
        let session = Box::pin(Session::outside(entrance, beginning));
        let running = tokio::spawn(async move { crate::doors::run(session, &connection).await });
        Self { inbox, noted, dismiss: Some(dismiss), running, rooms, meters, _scratch: scratch }
    }

    /// Says a word and hears it back.
    async fn say(&self, word: &'static str) {
        let asked = StreamRequest { opening: Some(word), is_message: true };
        match within(self.inbox.ask(asked, (Instant::now() + HOUR).into())).await {
            ExchangeOutcome::Answered(_) => {}
            other => panic!("expected an answer to `{word}`, came {other:?}"),
        }
    }

    /// Goes on until so much has been noted, and gives it.
    async fn noted(&self, count: usize) -> String {
        let enough = async {
            loop {
                let noted = self.noted.lock().clone();
                if noted.len() >= count {
                    return noted.join(", ");
                }
                self.say("and?").await;
            }
        };
        within(enough).await
    }

    async fn ends(self) -> (CloseReason, String) {
        let reason = within(self.running).await.expect("it does not panic");
        let noted = self.noted.lock().join(", ");
        (reason, noted)
    }
}

fn admission(id: &str, mcp: McpVersion) -> Admission {
    let participant = Participant { mcp, ..Participant::new(ParticipantId::new(id).expect("an id")) };
    Admission {
        participant,
        claim: Claim::Shared,
        after: None,
        recent: None,
        deliver: Deliver::Directed,
        echo: false,
        stamp: None,
        ghosts: None,
    }
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it happens in time")
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn nothing_is_published_without_a_seat_and_everything_in_its_turn_with_one() {
    let stage = Stage::new(10, HOUR);
    stage.say("call ghosts").await;
    assert_eq!(
        stage.noted(4).await,
        "1 refused: forbidden, 2 refused: forbidden, 3 refused: forbidden, 4 refused: forbidden"
    );
    stage.noted.lock().clear();
    stage.say("join").await;
    stage.noted(1).await;
    // Each of the ghosts has to be looked up in the log, and each draft waits for the one before it.
    stage.say("call ghosts").await;
    assert_eq!(
        stage.noted(5).await,
        "joined, 1 refused: recipient_not_found, 2 refused: recipient_not_found, 3 refused: recipient_not_found, 4 accepted"
    );
}

#[tokio::test]
async fn who_is_not_let_in_may_try_again() {
    let stage = Stage::new(1, HOUR);
    let topic = TopicName::new("room:a").expect("a name");
    let bob = stage.rooms.enter(&topic, admission("bob", McpVersion::default())).await.expect("a seat");
    stage.say("join").await;
    assert_eq!(stage.noted(1).await, "not joined: rate_limited");
    drop(bob);
    // His leave is stored in its own time.
    let let_in = async {
        while !stage.noted(2).await.ends_with(", joined") {
            stage.say("join").await;
        }
    };
    stage.say("join").await;
    within(let_in).await;
}

#[tokio::test]
async fn a_deadline_that_the_dialect_sets_itself_is_kept() {
    let stage = Stage::new(10, HOUR);
    stage.say("soon").await;
    assert_eq!(stage.noted(1).await, "due");
}

#[tokio::test]
async fn who_waits_outside_is_told_that_the_gateway_stops() {
    let mut stage = Stage::new(10, HOUR);
    drop(stage.dismiss.take());
    assert_eq!(stage.ends().await, (CloseReason::Shutdown, "closing: shutdown".into()));
}

#[tokio::test]
async fn a_farewell_ends_a_session_and_so_does_the_dialect() {
    let stage = Stage::new(10, HOUR);
    stage.inbox.dismiss().await;
    assert_eq!(stage.ends().await, (CloseReason::Bye, "closing: bye".into()));
    let stage = Stage::new(10, HOUR);
    let asked = StreamRequest { opening: Some("close"), is_message: true };
    assert!(matches!(within(stage.inbox.ask(asked, (Instant::now() + HOUR).into())).await, ExchangeOutcome::Ended));
    assert_eq!(stage.ends().await, (CloseReason::Bye, String::new()));
}

#[tokio::test]
async fn the_last_token_seen_decides_when_a_session_ends() {
    let stage = Stage::new(10, Duration::ZERO);
    assert_eq!(stage.ends().await, (CloseReason::TokenExpired, "closing: token_expired".into()));
}

#[tokio::test]
async fn a_listener_that_hangs_up_is_told_of() {
    let stage = Stage::new(10, HOUR);
    let asked = StreamRequest { opening: None, is_message: false };
    let mut listening = Box::pin(stage.inbox.ask(asked, (Instant::now() + HOUR).into()));
    assert!(std::future::poll_fn(|cx| Poll::Ready(listening.as_mut().poll(cx).is_pending())).await);
    stage.noted(1).await;
    drop(listening);
    assert_eq!(stage.noted(2).await, "listening, closed");
}

#[tokio::test]
async fn a_session_that_panics_is_not_counted_as_open_for_ever() {
    let stage = Stage::new(10, HOUR);
    stage.say("hello").await;
    assert!(stage.meters.render().contains("\nsalon_connections 1\n"), "{}", stage.meters.render());
    let asked = StreamRequest { opening: Some("panic"), is_message: true };
    assert!(matches!(within(stage.inbox.ask(asked, (Instant::now() + HOUR).into())).await, ExchangeOutcome::Ended));
    assert!(within(stage.running).await.expect_err("it panicked").is_panic());
    assert!(stage.meters.render().contains("\nsalon_connections 0\n"), "{}", stage.meters.render());
}

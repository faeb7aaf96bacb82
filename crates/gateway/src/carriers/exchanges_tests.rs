use std::future::poll_fn;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::task::JoinHandle;

use super::super::pipe::MAX_WAITING;
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A session's requests, and the clients that make them.
struct Wire {
    exchanges: Exchanges<&'static str>,
    inbox: Inbox<&'static str>,
}

impl Wire {
    fn new() -> Self {
        let (exchanges, inbox) = Exchanges::new();
        Self { exchanges, inbox }
    }

    /// Makes a request, and has the session hear it.
    async fn ask(&mut self, text: &'static str) -> (StreamId, JoinHandle<ExchangeOutcome<&'static str>>) {
        let inbox = self.inbox.clone();
        let asked = StreamRequest { opening: text, is_message: true };
        let asking = tokio::spawn(async move { inbox.ask(asked, (Instant::now() + HOUR).into()).await });
        match self.next().await {
            Received::Opened(opened) => {
                assert_eq!((opened.opening, opened.is_message), (text, true));
                (opened.stream, asking)
            }
            other => panic!("expected the request, came {other:?}"),
        }
    }

    /// A request that is being answered by events.
    async fn stream(&mut self) -> (StreamId, Response) {
        let (stream, asking) = self.ask("listen").await;
        self.exchanges.begin(stream, head(200, BodyForm::Events));
        (stream, answered(asking).await)
    }

    async fn next(&mut self) -> Received<&'static str> {
        let next = poll_fn(|cx| self.exchanges.poll_receive(cx));
        tokio::time::timeout(Duration::from_secs(60), next).await.expect("something comes")
    }

    fn say(&mut self, stream: StreamId, data: &str) {
        let event = EventFrame { name: None, id: None, retry: None, data: data.into() };
        self.exchanges.send(stream, Frame::Event(Box::new(event)));
    }

    /// Whether nothing waits to be heard.
    async fn is_quiet(&mut self) -> bool {
        poll_fn(|cx| Poll::Ready(self.exchanges.poll_receive(cx).is_pending())).await
    }
}

fn head(status: u16, form: BodyForm) -> StreamHead {
    StreamHead { status, form, headers: vec![("mcp-session-id", "abc".into())] }
}

async fn answered(asking: JoinHandle<ExchangeOutcome<&'static str>>) -> Response {
    match asking.await.expect("it does not panic") {
        ExchangeOutcome::Answered(response) => response,
        other => panic!("expected an answer, came {other:?}"),
    }
}

/// The next piece of a body; `None` at its end.
async fn piece(response: &mut Response) -> Option<Result<String, axum::Error>> {
    let frame = response.body_mut().frame().await?;
    Some(frame.map(|frame| String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text")))
}

fn header(response: &Response, name: &str) -> String {
    response.headers().get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn an_answer_in_json_comes_whole() {
    let mut wire = Wire::new();
    let (stream, asking) = wire.ask("{}").await;
    wire.exchanges.begin(stream, head(400, BodyForm::Json));
    wire.exchanges.send(stream, Frame::Text("{\"a\":1}".into()));
    wire.exchanges.finish(stream);
    let response = answered(asking).await;
    assert_eq!(response.status(), 400);
    assert_eq!(header(&response, "content-type"), "application/json");
    assert_eq!(header(&response, "mcp-session-id"), "abc");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body, "{\"a\":1}");
    assert!(wire.is_quiet().await, "a finished stream cannot be hung up");
}

#[tokio::test]
async fn an_empty_answer_needs_no_frame() {
    let mut wire = Wire::new();
    let (stream, asking) = wire.ask("{}").await;
    wire.exchanges.begin(stream, head(202, BodyForm::Empty));
    wire.exchanges.finish(stream);
    let response = answered(asking).await;
    assert_eq!((response.status().as_u16(), header(&response, "content-type")), (202, String::new()));
    assert!(wire.is_quiet().await, "a finished stream cannot be hung up");
}

#[tokio::test]
async fn events_come_as_they_are_said_and_end_when_the_session_says_so() {
    let mut wire = Wire::new();
    let (stream, mut response) = wire.stream().await;
    assert_eq!(header(&response, "content-type"), "text/event-stream");
    wire.say(stream, "1");
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), "data: 1\n\n");
    wire.say(stream, "2");
    wire.exchanges.finish(stream);
    wire.say(stream, "too late");
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), "data: 2\n\n");
    assert!(piece(&mut response).await.is_none());
    drop(response);
    assert!(wire.is_quiet().await, "a finished stream cannot be hung up");
}

#[tokio::test]
async fn who_hangs_up_is_told_of_once() {
    let mut wire = Wire::new();
    let (waiting, asking) = wire.ask("{}").await;
    asking.abort();
    assert!(matches!(wire.next().await, Received::HungUp(stream) if stream == waiting));
    wire.exchanges.begin(waiting, head(200, BodyForm::Json));
    wire.exchanges.finish(waiting);

    let (reading, response) = wire.stream().await;
    assert_ne!(reading, waiting);
    wire.say(reading, "unread");
    drop(response);
    assert!(matches!(wire.next().await, Received::HungUp(stream) if stream == reading));
    wire.say(reading, "to nobody");
    assert!(wire.is_quiet().await);
    assert!(wire.inbox.idle_since().is_some(), "nobody is there any more");
}

#[tokio::test]
async fn who_hung_up_before_being_heard_is_heard_all_the_same() {
    let mut wire = Wire::new();
    let asked = StreamRequest { opening: "{}", is_message: true };
    let mut asking = Box::pin(wire.inbox.ask(asked, Instant::now().into()));
    assert!(poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).is_pending())).await);
    drop(asking);
    let Received::Opened(opened) = wire.next().await else { panic!("it was said") };
    assert!(matches!(wire.next().await, Received::HungUp(stream) if stream == opened.stream));
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_alone() {
    let mut wire = Wire::new();
    let (slow, mut slow_response) = wire.stream().await;
    let (other, mut other_response) = wire.stream().await;
    let large = "x".repeat(MAX_WAITING + 1);
    wire.say(slow, &large);
    assert!(wire.is_quiet().await, "one message may be as long as it likes");
    wire.say(slow, "one more");
    assert!(matches!(wire.next().await, Received::HungUp(stream) if stream == slow));
    assert!(piece(&mut slow_response).await.expect("more").is_err(), "it must not look like an end");
    drop(slow_response);
    wire.say(other, "unharmed");
    assert_eq!(piece(&mut other_response).await.expect("more").expect("whole"), "data: unharmed\n\n");
    assert!(wire.is_quiet().await, "it is told once");
}

#[tokio::test]
async fn what_waits_for_all_readers_together_is_bounded() {
    let mut wire = Wire::new();
    let mut readers = Vec::new();
    for _ in 0..8 {
        readers.push(wire.stream().await);
    }
    let half = "x".repeat(MAX_WAITING / 2 - 100);
    for (stream, _) in &readers {
        wire.say(*stream, &half);
        wire.say(*stream, "and a little");
    }
    assert!(wire.is_quiet().await);
    let (last, _) = readers[7];
    wire.say(last, &half);
    assert!(matches!(wire.next().await, Received::HungUp(stream) if stream == last));
    // What was read makes room again.
    let (first, response) = &mut readers[0];
    assert_eq!(piece(response).await.expect("more").expect("whole").len(), half.len() + "data: \n\n".len());
    wire.say(*first, &half);
    assert!(wire.is_quiet().await);
}

#[tokio::test]
async fn the_end_finishes_what_is_open_and_hands_back_what_was_not_heard() {
    let mut wire = Wire::new();
    let (stream, mut response) = wire.stream().await;
    let (_, unanswered) = wire.ask("unanswered").await;
    let ask = |text| StreamRequest { opening: text, is_message: true };
    let inbox = wire.inbox.clone();
    let mut undelivered = Box::pin(inbox.ask(ask("undelivered"), Instant::now().into()));
    assert!(poll_fn(|cx| Poll::Ready(undelivered.as_mut().poll(cx).is_pending())).await);
    wire.say(stream, "last");
    wire.exchanges.close(CloseReason::Bye);
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), "data: last\n\n");
    assert!(piece(&mut response).await.is_none());
    assert!(matches!(unanswered.await, Ok(ExchangeOutcome::Ended)));
    let handed_back =
        |outcome| matches!(outcome, ExchangeOutcome::Undelivered(asked) if asked.opening == "undelivered");
    assert!(handed_back(undelivered.await));
    assert!(wire.inbox.is_closed());
    assert!(handed_back(wire.inbox.ask(ask("undelivered"), Instant::now().into()).await));
}

#[tokio::test]
async fn a_session_ends_when_it_is_asked_to_and_when_nobody_can_reach_it() {
    let (exchanges, inbox) = Exchanges::new();
    inbox.dismiss().await;
    let mut wire = Wire { exchanges, inbox };
    assert!(matches!(wire.next().await, Received::End(CloseReason::Bye)));
    assert!(wire.is_quiet().await);
    let Wire { mut exchanges, inbox } = wire;
    drop(inbox);
    let received = poll_fn(|cx| exchanges.poll_receive(cx));
    let received = tokio::time::timeout(Duration::from_secs(60), received).await;
    assert!(matches!(received, Ok(Received::End(CloseReason::Bye))));
}

#[tokio::test(start_paused = true)]
async fn a_reader_hears_something_every_fifteen_seconds() {
    let mut wire = Wire::new();
    let (stream, mut response) = wire.stream().await;
    let began = tokio::time::Instant::now();
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), ": \n\n");
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    tokio::time::advance(Duration::from_secs(10)).await;
    wire.say(stream, "1");
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), "data: 1\n\n");
    assert_eq!(piece(&mut response).await.expect("more").expect("whole"), ": \n\n");
    assert_eq!(began.elapsed(), Duration::from_secs(40));
}

/// Makes a request with a token that expires as soon as the session has received it.
async fn ask_briefly(wire: &mut Wire) -> (StreamId, JoinHandle<ExchangeOutcome<&'static str>>) {
    let (inbox, expires) = (wire.inbox.clone(), Instant::now() + Duration::from_millis(50));
    let asked = StreamRequest { opening: "listen", is_message: false };
    let asking = tokio::spawn(async move { inbox.ask(asked, expires.into()).await });
    match wire.next().await {
        Received::Opened(opened) => (opened.stream, asking),
        other => panic!("expected the request, came {other:?}"),
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_token_it_was_opened_with() {
    let mut wire = Wire::new();
    let (other, mut kept) = wire.stream().await;
    let (stream, asking) = ask_briefly(&mut wire).await;
    wire.exchanges.begin(stream, head(200, BodyForm::Events));
    let mut response = answered(asking).await;
    let end = tokio::time::timeout(Duration::from_secs(20), piece(&mut response)).await;
    assert!(end.expect("it ends in time").is_none());
    drop(response);
    assert!(matches!(wire.next().await, Received::HungUp(ended) if ended == stream), "the session is told");
    wire.say(other, "hello");
    assert_eq!(piece(&mut kept).await.expect("a piece").expect("not cut off"), "data: hello\n\n");
}

#[tokio::test]
async fn a_request_whose_token_expires_is_told_so_instead_of_an_answer() {
    let mut wire = Wire::new();
    let (stream, asking) = ask_briefly(&mut wire).await;
    let outcome = tokio::time::timeout(Duration::from_secs(20), asking).await.expect("in time").expect("no panic");
    assert!(matches!(outcome, ExchangeOutcome::Expired), "{outcome:?}");
    assert!(matches!(wire.next().await, Received::HungUp(ended) if ended == stream), "the session is told");
}

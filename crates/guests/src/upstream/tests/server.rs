//! An HTTP server that is the test itself: every request waits until the test answers it.

use std::convert::Infallible;
use std::net::SocketAddr;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use salon_testkit::within;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::upstream::{GuestTarget, UrlTransport};

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) struct Server {
    address: SocketAddr,
    requests: mpsc::Receiver<Exchange>,
    _task: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel(64);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, sender));
        Self { address, requests, _task: task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn target(&self) -> GuestTarget {
        self.target_as(UrlTransport::Auto)
    }

    pub(crate) fn target_as(&self, transport: UrlTransport) -> GuestTarget {
        let headers = vec![("X-Key".to_owned(), "secret".to_owned())];
        GuestTarget::Url { url: self.url("/mcp"), headers, transport }
    }

    /// The next request, which must be told as `METHOD body-or-path` contains `expected`.
    pub(crate) async fn expect(&mut self, expected: &str) -> Exchange {
        let exchange = within(&format!("the request {expected:?}"), self.requests.recv()).await.unwrap().unwrap();
        let told = format!("{} {} {}", exchange.method, exchange.path, exchange.body);
        assert!(told.contains(expected), "{expected:?} was expected, not {told:?}");
        assert_eq!(exchange.header("x-key"), Some("secret"), "the user's header goes with every request");
        exchange
    }
}

async fn accept(listener: TcpListener, requests: mpsc::Sender<Exchange>) {
    let mut connections = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let requests = requests.clone();
        let service = service_fn(move |request| serve(request, requests.clone()));
        connections.spawn(async move {
            // Clients go away in the middle of an answer: that is what some tests are about.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
        });
    }
}

async fn serve(request: Request<Incoming>, requests: mpsc::Sender<Exchange>) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let (answer, answered) = oneshot::channel();
    let exchange = Exchange {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        answer_headers: Vec::new(),
        answer,
    };
    let _ = requests.send(exchange).await;
    // A test that drops a request leaves it without an answer.
    match answered.await {
        Ok(response) => Ok(response),
        Err(_) => std::future::pending().await,
    }
}

/// A request, to be answered.
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: hyper::HeaderMap,
    pub(crate) body: String,
    answer_headers: Vec<(&'static str, String)>,
    answer: oneshot::Sender<Response<Body>>,
}

impl Exchange {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.answer_headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn json(self, text: &str) {
        self.answer(200, "application/json", text);
    }

    pub(crate) fn status(self, status: u16) {
        self.answer(status, "text/plain", "");
    }

    pub(crate) fn answer(self, status: u16, kind: &str, text: &str) {
        self.respond(status, kind, UnsyncBoxBody::new(Full::new(Bytes::from(text.to_owned()))));
    }

    /// Answers with events; the stream ends when what is returned is dropped.
    pub(crate) fn events(self) -> Events {
        let (sender, receiver) = mpsc::channel::<String>(64);
        let frames = stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|text| (Ok(Frame::data(Bytes::from(text))), receiver))
        });
        self.respond(200, "text/event-stream; charset=utf-8", UnsyncBoxBody::new(StreamBody::new(frames)));
        Events(sender)
    }

    fn respond(self, status: u16, kind: &str, body: Body) {
        let mut response = Response::builder().status(status).header("content-type", kind).body(body).unwrap();
        for (name, value) in &self.answer_headers {
            response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let _ = self.answer.send(response);
    }
}

/// A stream of events on its way to the client.
pub(crate) struct Events(mpsc::Sender<String>);

impl Events {
    pub(crate) async fn send(&self, text: &str) {
        self.0.send(text.to_owned()).await.expect("the client reads");
    }

    pub(crate) async fn data(&self, data: &str) {
        self.send(&format!("data: {data}\n\n")).await;
    }

    /// Waits until the client has gone.
    pub(crate) async fn closed(self) {
        within("the client to hang up", self.0.closed()).await.unwrap();
    }
}

//! Ways to a NATS server on which every frame is looked at: it is passed on, changed, held back, or lost.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use salon_testkit::nats::frame;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What one side has said.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) is_clients: bool,
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// A word of its line, the first of which says what it is.
    pub(crate) fn word(&self, number: usize) -> &str {
        self.line.split_whitespace().nth(number).unwrap_or_default()
    }

    /// Whether some text is in its body.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

/// Begins to pass connections to a server on this machine, and gives where clients connect. What is said of a frame takes its place; the
/// next one of the same side waits for it.
pub(crate) async fn way<W>(port: u16, look: impl Fn(Frame) -> W + Send + Sync + 'static) -> String
where
    W: Future<Output = Vec<Frame>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("nats://{}", listener.local_addr().expect("an address"));
    let look = Arc::new(look);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            tokio::spawn(pass(from_client, to_server, true, look.clone()));
            tokio::spawn(pass(from_server, to_client, false, look.clone()));
        }
    });
    url
}

/// A way on which frames are only lost, or changed but for their lengths.
pub(crate) async fn lossy_way(port: u16, loses: impl Fn(&mut Frame) -> bool + Send + Sync + 'static) -> String {
    way(port, move |mut frame| {
        let is_lost = loses(&mut frame);
        std::future::ready(if is_lost { Vec::new() } else { vec![frame] })
    })
    .await
}

async fn pass<W: Future<Output = Vec<Frame>>>(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    is_clients: bool,
    look: Arc<impl Fn(Frame) -> W>,
) {
    let mut from = BufReader::new(from);
    while let Some((line, body)) = frame(&mut from).await {
        // At once, so that nobody reads some of it and acts before the rest is there.
        let passed = look(Frame { is_clients, line, body }).await;
        let bytes: Vec<u8> =
            passed.into_iter().flat_map(|frame| [frame.line.into_bytes(), frame.body].concat()).collect();
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Requests that are to have no answer, though they were heard.
#[derive(Clone, Default)]
pub(crate) struct Unanswered(Arc<Mutex<HashSet<String>>>);

impl Unanswered {
    /// Notes where a request wants its answer.
    pub(crate) fn note(&self, request: &Frame) {
        self.0.lock().expect("unpoisoned").insert(request.word(2).to_owned());
    }

    /// Whether a frame is such an answer.
    pub(crate) fn has(&self, frame: &Frame) -> bool {
        !frame.is_clients && self.0.lock().expect("unpoisoned").remove(frame.word(1))
    }
}

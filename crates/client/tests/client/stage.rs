//! A gateway, and participants on it.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use salon_client::protocol::{Envelope, ParticipantId, TopicName};
use salon_client::{Backoff, Client, Dial, Entering, Event, Events, Gateway, StaticToken, Wire};
use salon_testkit::{Failure, TestEngine, TestOptions, TestToken, within};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

pub(crate) fn topic() -> TopicName {
    TopicName::new("room:lab").unwrap()
}

pub(crate) fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

/// A gateway of one's own.
pub(crate) async fn gateway() -> salon_testkit::TestGateway {
    salon_testkit::TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.unwrap()
}

/// A client of it, as somebody.
pub(crate) fn client(gateway: &salon_testkit::TestGateway, id: &str) -> Client {
    let address = Gateway::new(&format!("http://{}", gateway.address())).unwrap();
    Client::new(address, StaticToken::new(gateway.token(&TestToken::new(id)).unwrap()))
}

/// On the way into the room, coming back quickly where connections are lost on purpose.
pub(crate) fn entering(gateway: &salon_testkit::TestGateway, id: &str) -> Entering {
    client(gateway, id).room(topic()).backoff(quick())
}

pub(crate) fn quick() -> Backoff {
    Backoff { base: std::time::Duration::from_millis(5), cap: std::time::Duration::from_millis(50) }
}

/// The next chat line, whatever else happens before it.
pub(crate) async fn heard(events: &mut Events) -> Result<String, Failure> {
    within("a chat line", async {
        loop {
            match events.next().await {
                Some(Event::Envelope(envelope)) => {
                    if let Some(chat) = envelope.chat() {
                        return chat.text;
                    }
                }
                Some(Event::Gap) => return "(gap)".into(),
                Some(_) => {}
                None => return "(over)".into(),
            }
        }
    })
    .await
}

/// Every envelope of the topic, oldest first.
pub(crate) async fn history(client: &Client) -> Vec<Envelope> {
    let mut all = Vec::new();
    let mut query = salon_client::HistoryQuery::new().limit(1000);
    loop {
        let page = client.history(&topic(), &query).await.unwrap();
        all.extend(page.envelopes);
        query.before = page.next;
        if query.before.is_none() {
            all.reverse();
            return all;
        }
    }
}

/// A way to a gateway on which every connection can be cut at once.
#[derive(Clone)]
pub(crate) struct Scissors {
    address: std::net::SocketAddr,
    cut: Arc<parking_lot::Mutex<CancellationToken>>,
}

impl Scissors {
    pub(crate) fn new(gateway: &salon_testkit::TestGateway) -> Self {
        Self::at(gateway.address())
    }

    pub(crate) fn at(address: std::net::SocketAddr) -> Self {
        Self { address, cut: Arc::default() }
    }

    /// Cuts every connection there is; new ones can be made.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock()).cancel();
    }
}

impl Dial for Scissors {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        Box::pin(async {
            let mut stream = TcpStream::connect(self.address).await?;
            let (near, mut far) = tokio::io::duplex(4096);
            let cut = self.cut.lock().clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = cut.cancelled() => {}
                    _ = tokio::io::copy_bidirectional(&mut stream, &mut far) => {}
                }
            });
            Ok(Box::new(near) as Box<dyn Wire>)
        })
    }
}

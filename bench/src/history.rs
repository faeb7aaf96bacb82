//! Histories: filling topics as participants do, and reading pages of them over REST.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::contender::ContenderServer;
use crate::load::{LoadCrowd, LoadRole};
use crate::mcp::http::HttpResponse;
use crate::procfs::CpuClock;
use crate::room::{PublishPace, Until};
use crate::scenario::{Figure, Figures, MAX_HANDSHAKES, MESSAGE, micros, topic, wait_figures};
use crate::wire::{FrameFormat, MessageSort, MessageTemplate, envelope_id};

/// Envelopes on a page, as many as the gateway gives where nothing is asked for.
pub(crate) const PAGE: u32 = 100;
/// Pages that are read before any is timed, and that are timed at least.
const FIRST_PAGES: u32 = 5;
const MIN_PAGES: usize = 20;

/// Topics with a participant in each, who publishes.
pub(crate) struct Writers {
    crowd: LoadCrowd,
    in_flight: u32,
}

impl Writers {
    /// So many topics of a gateway. Together they have about two thousand messages in flight.
    pub(crate) fn enter(server: &ContenderServer, topics: usize) -> Result<Self> {
        let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
        for at in 0..topics {
            let name = topic(at);
            let sort = MessageSort::Notification;
            let message = MessageTemplate::new(FrameFormat::WebSocket, &name, sort, "publisher", "", MESSAGE);
            let room = crowd.add_room(message, None);
            crowd.add_client(room, LoadRole::Publisher, server.greeting(&name, "publisher", None)?);
        }
        crowd.connect(MAX_HANDSHAKES)?;
        Ok(Self { crowd, in_flight: (2048 / topics as u32).clamp(1, 512) })
    }

    /// Stores so many more messages in each topic.
    pub(crate) fn publish(&mut self, each: u32) -> Result<()> {
        self.crowd.run(PublishPace::Window(self.in_flight), Until::Sent(each), || Ok(())).map(drop)
    }
}

/// Which page of a history is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PagePosition {
    Newest,
    /// Somewhere else each time.
    Middle,
    Oldest,
}

impl PagePosition {
    pub(crate) const ALL: [Self; 3] = [Self::Newest, Self::Middle, Self::Oldest];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest page",
            Self::Middle => "pages in the middle",
            Self::Oldest => "oldest page",
        }
    }
}

/// One connection to a gateway that reads pages of a topic's history, one after the other.
pub(crate) struct PageReader {
    stream: TcpStream,
    host: String,
    topic: String,
    token: String,
    response: HttpResponse,
}

impl PageReader {
    pub(crate) fn connect(server: &ContenderServer, topic: &str) -> Result<Self> {
        let token = server.bearer(topic, "reader")?.context("a gateway has a key")?;
        let stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let (host, topic, response) = (server.address.to_string(), topic.to_owned(), HttpResponse::default());
        Ok(Self { stream, host, topic, token, response })
    }

    /// Reads the page before message number `before` of so many. The page must have the message before that one on it, and the last of the page.
    pub(crate) fn page(&mut self, before: Option<u32>, messages: u32) -> Result<Duration> {
        let Self { host, topic, token, .. } = self;
        let query = before.map(|at| format!("&before={}", envelope_id(MessageSort::Notification, at)));
        let query = query.unwrap_or_default();
        let request = format!(
            "GET /v0/topics/{topic}/history?limit={PAGE}{query} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let start = Instant::now();
        self.stream.write_all(request.as_bytes())?;
        self.response.clear();
        let mut part = [0; 16 * 1024];
        while !self.response.is_whole() {
            match self.stream.read(&mut part)? {
                0 => bail!("the gateway closed the connection"),
                count => self.response.take(&part[..count])?,
            }
        }
        let elapsed = start.elapsed();
        let text = self.response.text();
        if self.response.status() != Some(200) {
            bail!("no page: {text}");
        }
        let newest = before.unwrap_or(messages).checked_sub(1).context("there is a message before it")?;
        // On the newest page are joins and leaves, too.
        let oldest = newest.saturating_sub(if before.is_some() { PAGE - 1 } else { PAGE / 2 });
        for at in [newest, oldest] {
            let id = envelope_id(MessageSort::Notification, at);
            if !text.contains(&id) {
                bail!("`{id}` is not on the page before {before:?}");
            }
        }
        Ok(elapsed)
    }

    /// Reads pages of a history of so many messages for a while.
    pub(crate) fn measure(
        &mut self,
        pid: u32,
        place: PagePosition,
        messages: u32,
        length: Duration,
    ) -> Result<Figures> {
        // A step that visits every part of the history before it comes back.
        let step = (f64::from(messages) * 0.618) as u32;
        let mut next = messages / 2;
        let mut read = |reader: &mut Self| {
            let before = match place {
                PagePosition::Newest => None,
                PagePosition::Middle => {
                    next = (next + step) % messages;
                    Some(next.clamp(PAGE, messages - 1))
                }
                PagePosition::Oldest => Some(PAGE),
            };
            reader.page(before, messages)
        };
        for _ in 0..FIRST_PAGES {
            read(self)?;
        }
        let (clock, start, mut waits) = (CpuClock::start(pid)?, Instant::now(), Vec::new());
        while start.elapsed() < length || waits.len() < MIN_PAGES {
            waits.push(read(self)?.as_nanos() as u64);
        }
        let cpu = micros(clock.elapsed()?) / waits.len() as f64;
        let mut figures = wait_figures(waits)?;
        figures.insert(Figure::CpuUsPerPage, cpu);
        Ok(figures)
    }
}

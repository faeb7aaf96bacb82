//! Where doors read the catalogues of rooms, and have their hosts bring them up to date.
//!
//! A room's board outlives its host: sessions follow it from before they have their seats, so that the host knows of them before they
//! are there. A participant that joins after them is looked at.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_dialects::CatalogueSnapshot;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{ParticipantId, Stamp, TopicName};
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// Questions that may wait for one host.
const MAX_WAITING: usize = 1024;

/// A question.
pub(super) enum HostQuery {
    /// What one participant offers to `asker`.
    One {
        asker: ParticipantId,
        stamp: Option<Stamp>,
        who: ParticipantId,
        listing: Listing,
        answer: oneshot::Sender<Option<Arc<[ListItem]>>>,
    },
    /// Bring these lists of everybody's but the asker's up to date.
    Gather { asker: ParticipantId, listings: &'static [Listing], answer: oneshot::Sender<Arc<CatalogueSnapshot>> },
    /// Wait for `asker` as these parameters of a call say. Dropping the receiver of the answer ends the wait.
    Wait {
        asker: ParticipantId,
        stamp: Option<Stamp>,
        params: Box<str>,
        answer: oneshot::Sender<Option<Box<RawValue>>>,
    },
}

/// Which lists of a newcomer are asked for before anybody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// None: no session follows the catalogue.
    None,
    /// Those that sessions have asked for or subscribe to.
    Requested,
    /// All: a session is told of changes of lists that it has not asked for.
    All,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct CatalogueFollowers {
    sessions: usize,
    announced_to: usize,
}

/// One room's catalogue as sessions see it.
#[derive(Default)]
pub(super) struct Board {
    host: Mutex<Option<mpsc::Sender<HostQuery>>>,
    snapshots: watch::Sender<Arc<CatalogueSnapshot>>,
    /// By participant: its sessions that follow, and those of them that are told of changes of lists that they have not asked for.
    followers: Mutex<HashMap<ParticipantId, CatalogueFollowers>>,
    /// Listings that a session subscribes to, one bit each.
    watched: AtomicU8,
    followed: Notify,
}

impl Board {
    pub(super) fn snapshot(&self) -> Arc<CatalogueSnapshot> {
        self.snapshots.borrow().clone()
    }

    /// Gives sessions a snapshot, unless they have it.
    pub(super) fn publish(&self, snapshot: &Arc<CatalogueSnapshot>) {
        self.snapshots.send_if_modified(|known| {
            let is_newer = snapshot.version() > known.version();
            if is_newer {
                known.clone_from(snapshot);
            }
            is_newer
        });
    }

    /// Waits until a session begins to follow the catalogue.
    pub(super) async fn followed(&self) {
        self.followed.notified().await;
    }

    /// Whether a session subscribes to a listing's changes, or did.
    pub(super) fn is_watched(&self, listing: Listing) -> bool {
        self.watched.load(Ordering::Acquire) & (1 << listing as u8) != 0
    }

    /// Which lists of a participant are wanted: its own sessions do not see them.
    pub(super) fn demand(&self, of: &ParticipantId) -> Demand {
        let followers = self.followers.lock();
        let mut others = followers.iter().filter(|(who, _)| *who != of).map(|(_, following)| following.announced_to);
        match others.next() {
            None => Demand::None,
            Some(first) if first > 0 || others.any(|announced_to| announced_to > 0) => Demand::All,
            Some(_) => Demand::Requested,
        }
    }

    /// Counts a session in (`true`) or out.
    fn count(&self, who: &ParticipantId, is_announced_to: bool, is_in: bool) {
        let mut followers = self.followers.lock();
        let following = followers.entry(who.clone()).or_default();
        let (sessions, announced_to) = (1, usize::from(is_announced_to));
        match is_in {
            true => {
                following.sessions += sessions;
                following.announced_to += announced_to;
            }
            false => {
                following.sessions -= sessions;
                following.announced_to -= announced_to;
            }
        }
        if following.sessions == 0 {
            followers.remove(who);
        }
    }
}

type Boards = HashMap<TopicName, Arc<Board>>;

/// What the catalogues of all rooms come to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LibraryCensus {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
    /// Lists that are too long to be kept.
    pub(crate) left_out: usize,
}

/// The catalogues of the rooms that are open.
#[derive(Default)]
pub(crate) struct Library(Mutex<Boards>);

impl Library {
    fn boards(&self) -> MutexGuard<'_, Boards> {
        self.0.lock()
    }

    fn board(&self, topic: &TopicName) -> Arc<Board> {
        self.boards().entry(topic.clone()).or_default().clone()
    }

    fn host(&self, topic: &TopicName) -> Option<mpsc::Sender<HostQuery>> {
        self.boards().get(topic).and_then(|board| board.host.lock().clone())
    }

    /// A board that nobody holds any more is forgotten.
    fn release(&self, topic: &TopicName, board: &Arc<Board>) {
        let mut boards = self.boards();
        // The map's, and the one that is about to be dropped.
        if Arc::strong_count(board) <= 2 {
            boards.remove(topic);
        }
    }

    /// What a participant offers, to the asker; `None` when that is not to be had.
    pub(crate) fn consult(
        &self,
        topic: &TopicName,
        (asker, stamp): (&ParticipantId, Option<Stamp>),
        who: &ParticipantId,
        listing: Listing,
    ) -> BoxFuture<'static, Option<Arc<[ListItem]>>> {
        let host = self.host(topic);
        let (asker, who) = (asker.clone(), who.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            host?.send(HostQuery::One { asker, stamp, who, listing, answer }).await.ok()?;
            answered.await.ok().flatten()
        })
    }

    /// Has a room's host find out what everybody offers of some kinds; `None` when there is no host.
    pub(crate) fn gather(
        &self,
        topic: &TopicName,
        asker: &ParticipantId,
        listings: &'static [Listing],
    ) -> BoxFuture<'static, Option<Arc<CatalogueSnapshot>>> {
        let (host, asker) = (self.host(topic), asker.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            host?.send(HostQuery::Gather { asker, listings, answer }).await.ok()?;
            answered.await.ok()
        })
    }

    /// Has a room's host wait as a call of `room.wait` says. The result where nothing happened; `None` where the call has to be made in the room.
    pub(crate) fn wait(
        &self,
        topic: &TopicName,
        (asker, stamp): (&ParticipantId, Option<Stamp>),
        params: Box<str>,
    ) -> BoxFuture<'static, Option<Box<RawValue>>> {
        let (host, asker) = (self.host(topic), asker.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            host?.send(HostQuery::Wait { asker, stamp, params, answer }).await.ok()?;
            answered.await.ok().flatten()
        })
    }

    /// Follows a room's catalogue for a session of a participant, until the returned value is dropped. `is_announced_to` where changes are
    /// told of lists that were not asked for.
    pub(crate) fn follow(self: &Arc<Self>, topic: &TopicName, who: &ParticipantId, is_announced_to: bool) -> Follower {
        let board = self.board(topic);
        board.count(who, is_announced_to, true);
        board.followed.notify_one();
        Follower { library: self.clone(), topic: topic.clone(), who: who.clone(), board, is_announced_to }
    }

    /// A host begins to answer for a room, until the returned value is dropped.
    pub(super) fn open(self: &Arc<Self>, topic: &TopicName) -> LibraryDesk {
        let board = self.board(topic);
        let (sender, queries) = mpsc::channel(MAX_WAITING);
        *board.host.lock() = Some(sender.clone());
        LibraryDesk { library: self.clone(), topic: topic.clone(), board, sender, queries }
    }

    pub(crate) fn census(&self) -> LibraryCensus {
        let mut census = LibraryCensus::default();
        for board in self.boards().values() {
            let snapshot = board.snapshot();
            census.items += snapshot.items();
            census.bytes += snapshot.bytes();
            census.left_out += snapshot.left_out();
        }
        census
    }
}

/// A session that follows a room's catalogue.
pub(crate) struct Follower {
    library: Arc<Library>,
    topic: TopicName,
    who: ParticipantId,
    board: Arc<Board>,
    is_announced_to: bool,
}

impl Follower {
    /// Has these lists of newcomers looked at from now on.
    pub(crate) fn watch(&self, listings: &[Listing]) {
        let bits = listings.iter().fold(0, |bits, listing| bits | 1 << *listing as u8);
        self.board.watched.fetch_or(bits, Ordering::AcqRel);
    }

    /// The next snapshot with a version above this one.
    pub(crate) fn next(&self, after: u64) -> BoxFuture<'static, Arc<CatalogueSnapshot>> {
        let mut snapshots = self.board.snapshots.subscribe();
        Box::pin(async move {
            let newer = snapshots.wait_for(|snapshot| snapshot.version() > after).await.map(|newer| newer.clone());
            match newer {
                Ok(newer) => newer,
                // The session has ended, and this with it.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.board.count(&self.who, self.is_announced_to, false);
        self.library.release(&self.topic, &self.board);
    }
}

/// Where one host hears what is asked.
pub(super) struct LibraryDesk {
    library: Arc<Library>,
    topic: TopicName,
    board: Arc<Board>,
    sender: mpsc::Sender<HostQuery>,
    queries: mpsc::Receiver<HostQuery>,
}

impl LibraryDesk {
    pub(super) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The next question. There is always another.
    pub(super) async fn next(&mut self) -> HostQuery {
        match self.queries.recv().await {
            Some(query) => query,
            // Never: the sender is held here.
            None => std::future::pending().await,
        }
    }
}

impl Drop for LibraryDesk {
    fn drop(&mut self) {
        // The room may have been opened again meanwhile, with another host.
        let mut host = self.board.host.lock();
        if host.as_ref().is_some_and(|host| host.same_channel(&self.sender)) {
            *host = None;
        }
        drop(host);
        self.library.release(&self.topic, &self.board);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicName {
        TopicName::new("room:a").expect("a name")
    }

    #[test]
    fn a_board_is_there_while_a_host_or_a_session_needs_it() {
        let library = Arc::<Library>::default();
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| ParticipantId::new(name).expect("a name"));
        let follower = library.follow(&topic(), &alice, true);
        let desk = library.open(&topic());
        assert_eq!(desk.board().demand(&carol), Demand::All, "a session that came before the host counts");
        assert_eq!(desk.board().demand(&alice), Demand::None, "nobody but alice follows");
        let shared = library.follow(&topic(), &bob, false);
        assert_eq!(desk.board().demand(&alice), Demand::Requested);
        shared.watch(&[Listing::Tools, Listing::Templates]);
        assert_eq!(Listing::ALL.map(|listing| desk.board().is_watched(listing)), [true, false, false, true]);
        drop(follower);
        assert_eq!(desk.board().demand(&carol), Demand::Requested);
        drop(shared);
        assert_eq!(desk.board().demand(&carol), Demand::None);
        let follower = library.follow(&topic(), &alice, true);
        drop(desk);
        assert!(library.host(&topic()).is_none());
        assert_eq!(library.boards().len(), 1);
        drop(follower);
        assert_eq!(library.boards().len(), 0);
    }

    #[tokio::test]
    async fn without_a_host_there_is_no_catalogue() {
        let library = Arc::<Library>::default();
        let who = ParticipantId::host();
        assert!(library.gather(&topic(), &who, &[Listing::Tools]).await.is_none());
        assert!(library.consult(&topic(), (&who, None), &who, Listing::Tools).await.is_none());
    }
}

//! What the gateways of one log share beside its entries and contexts: small values that are kept for a time.
//!
//! [`Cluster`] is the contract; [`SingleNode`] keeps it in memory for one machine, `nats` in buckets for several. Deliberately absent: what
//! the values mean (that is the gateway's) and which nodes hold whose place (that is part of [`crate::TopicLog`]).

mod single;

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::ReadError;

pub use single::SingleNode;

/// A set of values that are kept for the same time. Declared when the engine is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyspace {
    /// Its name, alike on every node: lower-case letters.
    pub name: &'static str,
    /// How long a value is kept after it was last written.
    pub time_to_live: Duration,
}

/// Makes a key's next value of the one there is; `None` leaves it as it is.
pub type ChangeValue<'a> = &'a (dyn Fn(Option<&[u8]>) -> Option<Vec<u8>> + Send + Sync);

/// Hears the values of a keyspace. Must not call the cluster.
pub type ValueListener = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Values that all nodes share. What every engine promises:
///
/// 1. A value is there on every node until its keyspace's time to live is over since it was last written, by one clock; then on none.
/// 2. Of all that take a value, on whichever node, one gets it.
/// 3. Changes of one value are made one after the other, so none is lost.
/// 4. A follower of a keyspace gets every value there is, then every later one. A value may be heard again; one that was replaced
///    before it was heard may not be.
///
/// A key has 1 to 64 letters, digits, `-` or `_`. Names that somebody else chose are digested first.
pub trait Cluster: Send + Sync + 'static {
    /// Whether there may be other nodes: on one machine there are none, and nobody has to be told anything.
    fn is_shared(&self) -> bool;

    /// Keeps a value, in place of the key's value if it has one.
    fn keep(&self, space: Keyspace, key: &str, value: Vec<u8>) -> BoxFuture<'static, Result<(), ReadError>>;

    /// Takes a value away.
    fn take(&self, space: Keyspace, key: &str) -> BoxFuture<'static, Result<Option<Vec<u8>>, ReadError>>;

    /// Changes a value. `change` is called again when another node was faster.
    fn change<'a>(
        &'a self,
        space: Keyspace,
        key: &str,
        change: ChangeValue<'a>,
    ) -> BoxFuture<'a, Result<(), ReadError>>;

    /// Follows a keyspace for as long as the engine is open. Resolves when every value there was has been heard.
    fn follow(&self, space: Keyspace, hear: ValueListener) -> BoxFuture<'static, Result<(), ReadError>>;
}

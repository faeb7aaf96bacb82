//! Takes the place of the log on NATS in a build without the feature `nats`.
//!
//! The type has no values. So [`Nodes`](super::Nodes) has none either, and the compiler removes everything that needs one.

use salon_log::{Health, ReadError};
use salon_protocol::ParticipantId;
use tokio::sync::watch;

pub(crate) enum NoNats {}

impl NoNats {
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        match *self {}
    }

    pub(crate) fn longest(&self) -> usize {
        match *self {}
    }

    pub(crate) async fn put_ticket(&self, _key: &str, _value: Vec<u8>) -> Result<(), ReadError> {
        match *self {}
    }

    pub(crate) async fn take_ticket(&self, _key: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match *self {}
    }

    pub(crate) async fn change_sign_outs(
        &self,
        _who: &ParticipantId,
        _change: impl Fn(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), ReadError> {
        match *self {}
    }

    pub(crate) async fn follow_sign_outs(
        &self,
        _hear: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<(), ReadError> {
        match *self {}
    }
}

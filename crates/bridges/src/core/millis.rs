//! Times in what is stored: milliseconds since 1970.

use salon_protocol::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    u64::deserialize(deserializer).map(Timestamp)
}

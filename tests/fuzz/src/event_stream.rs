//! The decoder of event streams, on any bytes a gateway or an MCP server could send, cut anywhere.

use salon_client::internal::sse::{SseDecoder, SseEvent};

const LIMIT: usize = 512;

/// The first byte counts the cuts after it, each a length; the rest is the stream.
pub(crate) fn run(input: &[u8]) -> bool {
    let Some((count, input)) = input.split_first() else { return true };
    let (cuts, bytes) = input.split_at(usize::from(*count).min(input.len()));
    let whole = decode([bytes]);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, after) = rest.split_at(usize::from(*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(decode(pieces), whole, "how the bytes were cut changes nothing");
    true
}

/// The events up to the end or to the first that is too long, and whether there was such a one.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<SseEvent>, bool) {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        let taken = decoder.push(piece);
        while let Some(event) = decoder.take() {
            assert!(event.data.len() <= 3 * LIMIT, "no more is kept than was allowed");
            events.push(event);
        }
        if taken.is_err() {
            return (events, true);
        }
    }
    (events, false)
}

//! The decoder of event streams, on any bytes a gateway or an MCP server could send, cut anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salon_client::sse::{Decoder, Event};

const LIMIT: usize = 512;

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (bytes, cuts) = input;
    let whole = decode([bytes.as_slice()]);
    let mut rest = bytes.as_slice();
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, after) = rest.split_at(usize::from(cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(decode(pieces), whole, "how the bytes were cut changes nothing");
});

/// The events up to the end or to the first that is too long, and whether there was such a one.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, bool) {
    let mut decoder = Decoder::new(LIMIT);
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

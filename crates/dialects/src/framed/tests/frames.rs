//! The codec: lengths, before anything else is looked at.

use super::*;

const LIMIT: usize = 1000;

/// What a decoder makes of bytes that come in pieces of a size.
fn decode(bytes: &[u8], piece: usize) -> String {
    let mut decoder = Decoder::new(LIMIT);
    let mut told = String::new();
    for piece in bytes.chunks(piece.max(1)) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    let (header, body) = split(&frame).expect("whole");
                    told.push_str(&format!("frame {}+{}\n", header.len(), body.len()));
                }
                Ok(None) => break,
                Err(broken) => return format!("{told}broken: {broken}"),
            }
        }
    }
    format!("{told}{}", if decoder.has_begun() { "more to come" } else { "nothing left" })
}

fn with_lengths(header: u32, body: u32, rest: &[u8]) -> Vec<u8> {
    let header_bytes = vec![b'h'; usize::try_from(header).unwrap().min(MAX_HEADER)];
    [&header.to_be_bytes()[..], &header_bytes, &body.to_be_bytes(), rest].concat()
}

#[test]
fn lengths_are_judged_before_anything_is_made_for_them() {
    let most = u32::try_from(MAX_HEADER).unwrap();
    for (header, told) in [
        (0, "frame 0+0\nnothing left"),
        (1, "frame 1+0\nnothing left"),
        (most - 1, "frame 65535+0\nnothing left"),
        (most, "frame 65536+0\nnothing left"),
        (most + 1, "broken: the header has 65537 bytes; the limit is 65536. A length is 4 bytes, big-endian"),
        (0x7fff_ffff, "broken: the header has 2147483647 bytes; the limit is 65536. A length is 4 bytes, big-endian"),
        (0xffff_ffff, "broken: the header has 4294967295 bytes; the limit is 65536. A length is 4 bytes, big-endian"),
        (
            28_u32.swap_bytes(),
            "broken: the header has 469762048 bytes; the limit is 65536. A length is 4 bytes, big-endian; little-endian this one would be 28",
        ),
    ] {
        assert_eq!(decode(&with_lengths(header, 0, b""), 4096), told);
    }
    let body = |length: u32, sent: usize| decode(&with_lengths(2, length, &vec![b'b'; sent]), 64);
    assert_eq!(body(999, 999), "frame 2+999\nnothing left");
    assert_eq!(body(1000, 1000), "frame 2+1000\nnothing left");
    assert_snapshot!(body(1001, 1001), @"broken: the body has 1001 bytes; the limit is 1000. A length is 4 bytes, big-endian");
    assert_snapshot!(body(0x7fff_ffff, 0), @"broken: the body has 2147483647 bytes; the limit is 1000. A length is 4 bytes, big-endian");
    assert_snapshot!(body(u32::MAX, 0), @"broken: the body has 4294967295 bytes; the limit is 1000. A length is 4 bytes, big-endian");
    assert_snapshot!(body(12_u32.swap_bytes(), 12), @"broken: the body has 201326592 bytes; the limit is 1000. A length is 4 bytes, big-endian; little-endian this one would be 12");
}

#[test]
fn what_is_short_waits_and_what_is_long_begins_the_next() {
    let whole = encode(b"{}", b"body");
    assert_eq!(decode(&whole[..3], 1), "more to come");
    assert_eq!(decode(&whole[..whole.len() - 1], 5), "more to come");
    let long = [&whole[..], &whole, b"\0\0"].concat();
    for piece in [1, 3, 7, 100] {
        assert_eq!(decode(&long, piece), "frame 2+4\nframe 2+4\nmore to come");
    }
    assert_eq!(split(&long), None);
    assert_eq!(split(&whole[..whole.len() - 1]), None);
}

#[test]
fn a_frame_that_has_begun_may_have_its_header() {
    let whole = encode(br#"{"id":"a"}"#, b"body");
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(&whole[..10]);
    assert_eq!(decoder.header(), None);
    decoder.push(&whole[10..16]);
    assert_eq!(decoder.header(), Some(&br#"{"id":"a"}"#[..]));
    let refusal = Refusal::new(Code::Timeout, "too slow");
    let frame = refuse_header(decoder.header(), &refusal, Timestamp(7));
    assert_snapshot!(shown(StreamId(1), &frame), @r#"1 ← 408  a {"status":"error","code":"timeout","message":"too slow"}"#);
}

proptest::proptest! {
    #[test]
    fn what_is_framed_comes_back(
        frames in proptest::collection::vec((proptest::collection::vec(0_u8.., 0..40), proptest::collection::vec(0_u8.., 0..400)), 0..8),
        piece in 1_usize..50,
    ) {
        let wire: Vec<u8> = frames.iter().flat_map(|(header, body)| encode(header, body).into_vec()).collect();
        let mut decoder = Decoder::new(LIMIT);
        let mut came = Vec::new();
        for piece in wire.chunks(piece) {
            decoder.push(piece);
            while let Some(frame) = decoder.next_frame().expect("the lengths are right") {
                let (header, body) = split(&frame).expect("a whole frame");
                came.push((header.to_vec(), body.to_vec()));
            }
        }
        proptest::prop_assert_eq!(came, frames);
        proptest::prop_assert!(!decoder.has_begun());
    }

    #[test]
    fn decoding_never_panics_and_never_makes_room_for_what_has_not_come(bytes in proptest::collection::vec(0_u8.., 0..300), piece in 1_usize..20) {
        let mut decoder = Decoder::new(LIMIT);
        for piece in bytes.chunks(piece) {
            decoder.push(piece);
            while let Ok(Some(frame)) = decoder.next_frame() {
                proptest::prop_assert!(split(&frame).is_some());
                let _ = route(&frame);
            }
        }
        let _ = (decoder.header(), split(&bytes), route(&bytes));
    }
}

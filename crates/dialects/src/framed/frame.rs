//! The frames on the wire: `[length][header][length][body]`, lengths in four bytes, big-endian.
//!
//! Invariant: a length is judged before anything is made for it. What a peer announces costs nothing; only what it sends does.

use std::fmt;

/// The most bytes of a header.
pub const MAX_HEADER: usize = 64 << 10;

/// The bytes of a length.
const LENGTH: usize = 4;

/// A buffer that has grown beyond this is given back when it is empty.
const MAX_KEPT: usize = 16 << 10;

/// A frame of a header and a body.
///
/// # Panics
/// When either has 4 GiB or more, which nothing here can have made.
pub fn encode(header: &[u8], body: &[u8]) -> Box<[u8]> {
    let mut frame = Vec::with_capacity(2 * LENGTH + header.len() + body.len());
    for part in [header, body] {
        let length = u32::try_from(part.len()).expect("nothing that is framed here comes near 4 GiB");
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(part);
    }
    frame.into()
}

/// The header and the body of one whole frame; `None` when it is less or more than that.
pub fn split(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = part(frame)?;
    let (body, rest) = part(rest)?;
    rest.is_empty().then_some((header, body))
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// A length beyond the limit. The start of the next frame is unknown after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    part: &'static str,
    length: u32,
    limit: usize,
}

impl std::error::Error for Broken {}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, length, limit } = self;
        write!(f, "the {part} has {length} bytes; the limit is {limit}. A length is 4 bytes, big-endian")?;
        let turned = length.swap_bytes();
        match usize::try_from(turned) {
            Ok(turned) if turned <= *limit => write!(f, "; little-endian this one would be {turned}"),
            _ => Ok(()),
        }
    }
}

/// Finds the frames in what comes.
#[derive(Debug)]
pub struct Decoder {
    most_body: usize,
    came: Vec<u8>,
}

impl Decoder {
    /// Nothing has come. Bodies may have so many bytes.
    pub fn new(most_body: usize) -> Self {
        Self { most_body, came: Vec::new() }
    }

    /// More has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.came.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there. Once a length is broken it stays so.
    pub fn next_frame(&mut self) -> Result<Option<Box<[u8]>>, Broken> {
        let Some(header) = length(&self.came, 0, "header", MAX_HEADER)? else { return Ok(None) };
        let at = LENGTH + header;
        let Some(body) = length(&self.came, at, "body", self.most_body)? else { return Ok(None) };
        let whole = at + LENGTH + body;
        if self.came.len() < whole {
            return Ok(None);
        }
        let frame: Box<[u8]> = self.came.drain(..whole).collect();
        if self.came.is_empty() && self.came.capacity() > MAX_KEPT {
            self.came = Vec::new();
        }
        Ok(Some(frame))
    }

    /// Whether a frame has begun that is not whole.
    pub fn has_begun(&self) -> bool {
        !self.came.is_empty()
    }

    /// The length that the frame that has begun gives for its body, once that has come.
    pub fn announced(&self) -> Option<usize> {
        let header = length(&self.came, 0, "header", MAX_HEADER).ok()??;
        length(&self.came, LENGTH + header, "body", self.most_body).ok()?
    }

    /// The header of the frame that has begun, if it is there.
    pub fn header(&self) -> Option<&[u8]> {
        let header = length(&self.came, 0, "header", MAX_HEADER).ok()??;
        self.came.get(LENGTH..LENGTH + header)
    }
}

/// The length that stands at a place, if it is there.
fn length(bytes: &[u8], at: usize, part: &'static str, limit: usize) -> Result<Option<usize>, Broken> {
    let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk::<LENGTH>()) else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(fits) if fits <= limit => Ok(Some(fits)),
        _ => Err(Broken { part, length, limit }),
    }
}

//! Reads more from a connection at once than its WebSocket asks for, without keeping a buffer for every idle connection.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// How much is read at once. One buffer of each thread serves all connections.
const BUFFER: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}

/// What was read from a connection and not asked for yet. Takes memory only while there is something.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    taken: usize,
}

impl ReadAhead {
    /// Fills `into` with what was read before; how many bytes that were.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let rest = &self.bytes[self.taken..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.bytes.len() {
            *self = Self::default();
        }
        count
    }

    /// Reads, once everything that was read before has been taken. `see` is shown all of it, and `into` gets as much as it holds.
    pub(super) fn poll_read(
        &mut self,
        io: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
        into: &mut [u8],
        see: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        debug_assert!(self.bytes.is_empty(), "what was read before comes first");
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(io.poll_read(cx, &mut buffer))?;
            let read = buffer.filled();
            see(read);
            let (first, rest) = read.split_at(read.len().min(into.len()));
            into[..first.len()].copy_from_slice(first);
            if !rest.is_empty() {
                *self = Self { bytes: rest.to_vec(), taken: 0 };
            }
            Poll::Ready(Ok(first.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_once_and_in_order() {
        let sent: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
        let mut io = sent.as_slice();
        let (mut ahead, mut received, mut seen, mut reads) = (ReadAhead::default(), Vec::new(), Vec::new(), 0);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        loop {
            let mut into = [0; 1000];
            let count = match ahead.take(&mut into) {
                0 => {
                    reads += 1;
                    let read =
                        ahead.poll_read(Pin::new(&mut io), &mut cx, &mut into, |bytes| seen.extend_from_slice(bytes));
                    let Poll::Ready(Ok(count)) = read else { panic!("a slice is always ready") };
                    count
                }
                count => count,
            };
            if count == 0 {
                break;
            }
            received.extend_from_slice(&into[..count]);
        }
        assert_eq!((&received, &seen), (&sent, &sent));
        assert_eq!(reads, 4, "three buffers and the end");
        assert_eq!(ahead.bytes.capacity(), 0, "nothing is kept");
    }
}

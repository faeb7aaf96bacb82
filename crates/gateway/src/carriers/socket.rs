//! A connection as bytes, encrypted or not or made of memory, with an end to waiting for a peer that takes none.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

/// One accepted connection. A write that the peer's side takes nothing of for the write deadline fails as timed out.
pub(crate) struct Socket {
    transport: SocketTransport,
    deadline: Duration,
    /// Runs while the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

enum SocketTransport {
    /// Can be written to by its holder, which is what makes [`super::WebSocket`] fast.
    Plain(Arc<TcpStream>),
    Tls(Box<TlsStream<TcpStream>>),
    /// The peer is in this process.
    Memory(DuplexStream),
}

impl Socket {
    pub(crate) fn plain(stream: TcpStream, deadline: Duration) -> Self {
        Self { transport: SocketTransport::Plain(Arc::new(stream)), deadline, stalled: None }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, deadline: Duration) -> Self {
        Self { transport: SocketTransport::Tls(Box::new(stream)), deadline, stalled: None }
    }

    pub(crate) fn memory(stream: DuplexStream, deadline: Duration) -> Self {
        Self { transport: SocketTransport::Memory(stream), deadline, stalled: None }
    }

    /// The stream itself, when nothing stands between it and the bytes.
    pub(super) fn shared(&self) -> Option<&Arc<TcpStream>> {
        match &self.transport {
            SocketTransport::Plain(stream) => Some(stream),
            SocketTransport::Tls(_) | SocketTransport::Memory(_) => None,
        }
    }

    /// Gives up on a peer that has taken nothing for too long.
    fn limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let empty = match &self.transport {
            SocketTransport::Plain(_) | SocketTransport::Memory(_) => true,
            // TLS takes some bytes before the peer does.
            SocketTransport::Tls(stream) => !stream.get_ref().1.wants_write(),
        };
        if outcome.is_ready() && empty {
            self.stalled = None;
        }
        if outcome.is_ready() {
            return outcome;
        }
        let deadline = self.deadline;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(deadline)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Tries `attempt` whenever the stream may be ready, until it is.
/// Reads what there is. A read that does not fill its buffer has emptied the socket: to say so here saves the read that would find out.
fn read_some(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let (whole, mut short) = (into.len(), None);
    let outcome = stream.try_io(Interest::READABLE, || match stream.try_read(into) {
        Ok(count) if 0 < count && count < whole => {
            short = Some(count);
            Err(io::ErrorKind::WouldBlock.into())
        }
        outcome => outcome,
    });
    short.map_or(outcome, Ok)
}

fn poll_ready<T>(
    ready: impl Fn(&mut Context<'_>) -> Poll<io::Result<()>>,
    mut attempt: impl FnMut() -> io::Result<T>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    loop {
        ready!(ready(cx))?;
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return Poll::Ready(outcome),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            SocketTransport::Plain(stream) => {
                let read = || read_some(stream, buf.initialize_unfilled());
                poll_ready(|cx| stream.poll_read_ready(cx), read, cx).map_ok(|count| buf.advance(count))
            }
            SocketTransport::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
            SocketTransport::Memory(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.transport {
            SocketTransport::Plain(stream) => {
                poll_ready(|cx| stream.poll_write_ready(cx), || stream.try_write_vectored(bufs), cx)
            }
            SocketTransport::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, bufs),
            SocketTransport::Memory(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.limit(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.transport {
            SocketTransport::Plain(_) | SocketTransport::Memory(_) => Poll::Ready(Ok(())),
            SocketTransport::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        };
        self.limit(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            // By the descriptor: a room may still hold the stream, and the peer waits for the FIN (RFC 6455 §7.1.1).
            SocketTransport::Plain(stream) => Poll::Ready(SockRef::from(&**stream).shutdown(Shutdown::Write)),
            SocketTransport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            SocketTransport::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn shutdown_sends_the_fin_while_a_room_still_holds_the_stream() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a connection");
        let (accepted, _) = listener.accept().await.expect("a connection");
        let mut socket = Socket::plain(accepted, Duration::from_secs(60));
        let room = socket.shared().expect("plain").clone();
        socket.shutdown().await.expect("shut down");
        let read = tokio::time::timeout(Duration::from_secs(20), peer.read(&mut [0; 1])).await;
        assert_eq!(read.expect("the end comes before the room lets go").expect("no reset"), 0);
        drop(room);
    }
}

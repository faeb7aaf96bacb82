//! A connection as bytes, encrypted or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// One accepted connection. A plain one can be written to by whoever holds it, which is what makes [`super::WebSocket`] fast.
pub(crate) enum Socket {
    Plain(Arc<TcpStream>),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// The stream itself, when nothing stands between it and the bytes.
    pub(super) fn plain(&self) -> Option<&Arc<TcpStream>> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(_) => None,
        }
    }
}

/// Tries `attempt` whenever the stream may be ready, until it is.
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
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => {
                let read =
                    poll_ready(|cx| stream.poll_read_ready(cx), || stream.try_read(buf.initialize_unfilled()), cx);
                read.map_ok(|count| buf.advance(count))
            }
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => poll_ready(|cx| stream.poll_write_ready(cx), || stream.try_write(buf), cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => poll_ready(|cx| stream.poll_write_ready(cx), || stream.try_write_vectored(bufs), cx),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // While a room still holds the stream its end comes with the last holder instead.
            Self::Plain(stream) => match Arc::get_mut(stream) {
                Some(stream) => Pin::new(stream).poll_shutdown(cx),
                None => Poll::Ready(Ok(())),
            },
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}

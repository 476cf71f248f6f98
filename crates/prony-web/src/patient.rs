//! A connection whose other side must read: a client that takes nothing for a while is left.
//!
//! hyper has a limit for clients that send their request slowly, and none for those that read their answer slowly.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may take nothing. A guess: a phone that changes its network needs seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that fails when it cannot be written to for too long.
pub(crate) struct Patient<S> {
    inner: S,
    patience: Duration,
    /// Runs while nothing can be written.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, patience: PATIENCE, until: None }
    }

    fn weighed<T>(&mut self, now: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if now.is_ready() {
            self.until = None;
            return now;
        }
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        match until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let now = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.weighed(now, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = Pin::new(&mut self.inner).poll_flush(cx);
        self.weighed(now, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.weighed(now, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    /// Writes until it fails or `bytes` are through, to a client that reads nothing or everything.
    fn written(reads: bool) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let mut patient = Patient { patience: Duration::from_millis(200), ..Patient::new(server) };
            let reader = tokio::spawn(async move {
                let mut buffer = [0u8; 65_536];
                while reads && !matches!(client.try_read(&mut buffer), Ok(0)) {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_secs(60)).await;
                drop(client);
            });
            let chunk = [0u8; 65_536];
            let mut result = Ok(());
            for _ in 0..1_000 {
                result = std::future::poll_fn(|cx| Pin::new(&mut patient).poll_write(cx, &chunk)).await.map(drop);
                if result.is_err() {
                    break;
                }
            }
            reader.abort();
            result
        })
    }

    #[test]
    fn a_client_that_reads_nothing_is_left_and_one_that_reads_is_not() {
        assert_eq!(written(false).unwrap_err().kind(), io::ErrorKind::TimedOut);
        written(true).unwrap();
    }
}

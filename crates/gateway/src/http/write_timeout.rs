//! A client's connection that fails when the client does not read for some time. The timer runs only while a write waits
//! for the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection with a timeout for writes.
#[derive(Debug)]
pub(crate) struct WriteTimeout<Stream> {
    stream: Stream,
    timeout: Duration,
    /// Set while a write waits for the client.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<Stream> WriteTimeout<Stream> {
    /// A connection on which each write may wait for the client for this time.
    pub(crate) fn new(stream: Stream, timeout: Duration) -> WriteTimeout<Stream> {
        WriteTimeout { stream, timeout, timer: None }
    }

    /// Passes the result of a write on, and starts, stops or checks the timer.
    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        task: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        ready!(timer.as_mut().poll(task));
        timer.as_mut().reset(Instant::now() + self.timeout);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<Stream: AsyncRead + Unpin> AsyncRead for WriteTimeout<Stream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl<Stream: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<Stream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.watch(written, task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, slices);
        self.watch(written, task)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(task);
        self.watch(flushed, task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(task);
        self.watch(closed, task)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_after_the_timeout_and_a_slow_reader_is_served() {
        let (mut client, server) = duplex(4);
        let mut server = WriteTimeout::new(server, TIMEOUT);
        let (written, read) = tokio::join!(server.write_all(b"0123456789"), async {
            let mut read = Vec::new();
            for _ in 0..10 {
                tokio::time::advance(TIMEOUT * 2 / 3).await;
                read.push(client.read_u8().await.expect("a byte"));
            }
            read
        });
        written.expect("each wait is shorter than the timeout");
        assert_eq!(read, b"0123456789");
        server.write_all(b"0123").await.expect("room");
        let began = Instant::now();
        let error = server.write_all(b"4").await.expect_err("the client does not read");
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, TIMEOUT));
    }
}

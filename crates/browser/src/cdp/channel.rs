//! What carries messages: the browser's debugging pipe, where a NUL ends each message, or a WebSocket.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{ChildStdin, ChildStdout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// The longest message: a large picture in base64.
pub(crate) const MAX_MESSAGE_BYTES: usize = 128 * 1024 * 1024;
/// A read buffer that has grown beyond this is given back after its message.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// What carries messages.
pub(crate) enum Channel {
    /// The debugging pipe.
    Pipe(Box<PipeChannel>),
    /// A WebSocket.
    Socket(Box<WebSocketStream<TcpStream>>),
}

/// The debugging pipe.
pub(crate) struct PipeChannel {
    input: ChildStdin,
    output: ChildStdout,
    received: BytesMut,
    /// How much of `received` has no NUL.
    searched: usize,
    /// Messages to write, each with its NUL.
    unwritten: VecDeque<Bytes>,
}

impl PipeChannel {
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> PipeChannel {
        PipeChannel {
            input,
            output,
            received: BytesMut::new(),
            searched: 0,
            unwritten: VecDeque::new(),
        }
    }

    /// The next whole message in the buffer.
    fn take_message(&mut self) -> io::Result<Option<Bytes>> {
        match memchr::memchr(0, &self.received[self.searched..]) {
            Some(at) => {
                let message = self.received.split_to(self.searched + at).freeze();
                self.received.advance(1);
                self.searched = 0;
                if self.received.is_empty() && self.received.capacity() > KEPT_BUFFER_BYTES {
                    self.received = BytesMut::new();
                }
                Ok(Some(message))
            }
            None if self.received.len() > MAX_MESSAGE_BYTES => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"))
            }
            None => {
                self.searched = self.received.len();
                Ok(None)
            }
        }
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            self.received.reserve(64 * 1024);
            let front = self.unwritten.front_mut();
            tokio::select! {
                read = self.output.read_buf(&mut self.received) => {
                    if read? == 0 {
                        return Ok(None);
                    }
                }
                written = write(&mut self.input, front) => {
                    written?;
                    if self.unwritten.front().is_some_and(Bytes::is_empty) {
                        self.unwritten.pop_front();
                    }
                }
            }
        }
    }
}

/// Writes a part of a message; never completes without one. Cancel safe.
async fn write(input: &mut ChildStdin, message: Option<&mut Bytes>) -> io::Result<()> {
    match message {
        Some(message) => {
            let count = input.write(message).await?;
            message.advance(count);
            Ok(())
        }
        None => std::future::pending().await,
    }
}

impl Channel {
    /// Queues a message. The queue is bounded by the calls that wait for answers.
    pub(crate) async fn send(&mut self, message: String) -> io::Result<()> {
        match self {
            Channel::Pipe(pipe) => {
                let mut message = message.into_bytes();
                message.push(0);
                pipe.unwritten.push_back(message.into());
                Ok(())
            }
            Channel::Socket(socket) => {
                socket.send(Message::text(message)).await.map_err(io::Error::other)
            }
        }
    }

    /// Writes what is queued and returns the next message; `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Channel::Pipe(pipe) => pipe.next().await,
            Channel::Socket(socket) => loop {
                match socket.next().await {
                    None | Some(Ok(Message::Close(_))) => return Ok(None),
                    Some(Ok(Message::Text(text))) => return Ok(Some(text.into())),
                    Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes)),
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Err(error)) => return Err(io::Error::other(error)),
                }
            },
        }
    }
}

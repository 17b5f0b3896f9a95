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
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// How much of a longer message stays: enough to tell which command it answers.
const START_BYTES: usize = 64;
/// A read buffer that has grown beyond this is given back after its message.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// What arrives.
#[derive(Debug)]
pub(crate) enum ChannelMessage {
    Whole(Bytes),
    /// A message that was too long; its first bytes.
    TooLong(Bytes),
}

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
    /// The first bytes of a message that is too long, until its NUL.
    too_long: Option<Bytes>,
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
            too_long: None,
            unwritten: VecDeque::new(),
        }
    }

    /// The next whole message in the buffer.
    fn take_message(&mut self) -> Option<ChannelMessage> {
        match memchr::memchr(0, &self.received[self.searched..]) {
            Some(at) => {
                let message = self.received.split_to(self.searched + at).freeze();
                self.received.advance(1);
                self.searched = 0;
                if self.received.is_empty() && self.received.capacity() > KEPT_BUFFER_BYTES {
                    self.received = BytesMut::new();
                }
                Some(match self.too_long.take() {
                    Some(start) => ChannelMessage::TooLong(start),
                    None => ChannelMessage::Whole(message),
                })
            }
            None => {
                if self.too_long.is_none() && self.received.len() > MAX_MESSAGE_BYTES {
                    self.too_long = Some(Bytes::copy_from_slice(&self.received[..START_BYTES]));
                    self.received = BytesMut::new();
                }
                if self.too_long.is_some() {
                    self.received.clear();
                }
                self.searched = self.received.len();
                None
            }
        }
    }

    async fn next(&mut self) -> io::Result<Option<ChannelMessage>> {
        loop {
            if let Some(message) = self.take_message() {
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
    pub(crate) async fn next(&mut self) -> io::Result<Option<ChannelMessage>> {
        match self {
            Channel::Pipe(pipe) => pipe.next().await,
            Channel::Socket(socket) => loop {
                match socket.next().await {
                    None | Some(Ok(Message::Close(_))) => return Ok(None),
                    Some(Ok(Message::Text(text))) => {
                        return Ok(Some(ChannelMessage::Whole(text.into())));
                    }
                    Some(Ok(Message::Binary(bytes))) => {
                        return Ok(Some(ChannelMessage::Whole(bytes)));
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Err(error)) => return Err(io::Error::other(error)),
                }
            },
        }
    }
}

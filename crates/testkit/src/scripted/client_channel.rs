//! Channels for messages to a client: directly to a writer, or into a buffer that can be replayed after a disconnect.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::{mpsc, watch};

/// A unit of output. The transport adds its framing.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// The first half of a message.
    Truncated(Vec<u8>),
    /// Breaks the connection; a program on stdio exits.
    Disconnect,
    /// Ends the stream properly.
    End,
}

/// A channel to a client.
#[derive(Debug, Clone)]
pub enum ClientChannel {
    /// A writer. Unbounded: tests request no more than fits into memory.
    Direct(mpsc::UnboundedSender<Frame>),
    /// A replay buffer.
    Replayable(Arc<ReplayBuffer>),
}

impl ClientChannel {
    /// A channel without a reader.
    pub fn discard() -> ClientChannel {
        ClientChannel::Direct(mpsc::unbounded_channel().0)
    }

    pub fn send(&self, frame: Frame) {
        match self {
            ClientChannel::Direct(writer) => {
                let _client_left = writer.send(frame);
            }
            ClientChannel::Replayable(buffer) => buffer.push(frame),
        }
    }

    pub fn send_message(&self, message: &Value) {
        self.send(Frame::Message(message.to_string().into_bytes()));
    }

    /// Breaks the connection.
    pub fn disconnect(&self) {
        self.send(Frame::Disconnect);
    }

    /// Waits until the reader is gone. A replay buffer can always be read again.
    pub async fn closed(&self) {
        match self {
            ClientChannel::Direct(writer) => writer.closed().await,
            ClientChannel::Replayable(_) => std::future::pending().await,
        }
    }

    pub fn is_closed(&self) -> bool {
        match self {
            ClientChannel::Direct(writer) => writer.is_closed(),
            ClientChannel::Replayable(_) => false,
        }
    }

    /// Marks the end of the stream.
    pub fn close(&self) {
        match self {
            ClientChannel::Direct(_) => {}
            ClientChannel::Replayable(buffer) => buffer.close(),
        }
    }
}

/// A recorded stream: a client can request missed messages again.
#[derive(Debug)]
pub struct ReplayBuffer {
    /// The stream's name in event ids.
    pub name: String,
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    frames: Vec<Frame>,
    delivered: usize,
    has_ended: bool,
}

impl ReplayBuffer {
    pub fn new(name: String) -> Arc<ReplayBuffer> {
        let (changed, _) = watch::channel(());
        Arc::new(ReplayBuffer { name, log: Mutex::default(), changed })
    }

    fn push(&self, frame: Frame) {
        self.log.lock().expect("no holder of the lock panics").frames.push(frame);
        self.changed.send_replace(());
    }

    pub fn close(&self) {
        self.log.lock().expect("no holder of the lock panics").has_ended = true;
        self.changed.send_replace(());
    }

    /// A reader that starts after the last delivered frame.
    pub fn read_new(self: &Arc<Self>) -> ReplayReader {
        let next = self.log.lock().expect("no holder of the lock panics").delivered;
        ReplayReader { buffer: Arc::clone(self), next, mode: ReadMode::First }
    }

    /// A reader that replays the frames after number `last`.
    pub fn read_after(self: &Arc<Self>, last: usize) -> ReplayReader {
        ReplayReader { buffer: Arc::clone(self), next: last, mode: ReadMode::Replay }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    First,
    /// Faults are not replayed.
    Replay,
}

/// A position in a replay buffer.
#[derive(Debug)]
pub struct ReplayReader {
    buffer: Arc<ReplayBuffer>,
    next: usize,
    mode: ReadMode,
}

impl ReplayReader {
    /// The next frame and its event id; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<(String, Frame)> {
        let mut changed = self.buffer.changed.subscribe();
        loop {
            if let Some(frame) = self.take() {
                return frame;
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next frame if there is one; `Some(None)` at the end of the stream.
    fn take(&mut self) -> Option<Option<(String, Frame)>> {
        let mut log = self.buffer.log.lock().expect("no holder of the lock panics");
        while let Some(frame) = log.frames.get(self.next).cloned() {
            self.next += 1;
            log.delivered = log.delivered.max(self.next);
            let frame = match (self.mode, frame) {
                (ReadMode::Replay, Frame::Truncated(message)) => Frame::Message(message),
                (ReadMode::Replay, Frame::Disconnect | Frame::End) => continue,
                (ReadMode::First | ReadMode::Replay, frame) => frame,
            };
            return Some(Some((format!("{}/{}", self.buffer.name, self.next), frame)));
        }
        log.has_ended.then_some(None)
    }
}

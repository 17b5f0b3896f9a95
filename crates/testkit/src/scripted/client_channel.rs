//! Where messages to a client go: straight to a writer, or into a mailbox that is read again after a break.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::{mpsc, watch};

/// One thing to write. The writer puts around it what its transport needs.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// The first half of one.
    Truncated(Vec<u8>),
    /// The connection breaks; a program on stdio exits.
    Disconnect,
    /// The stream ends properly.
    End,
}

/// Where messages go.
#[derive(Debug, Clone)]
pub enum ClientChannel {
    /// A writer. Not bounded: a test asks for no more than it can hold.
    Direct(mpsc::UnboundedSender<Frame>),
    /// A mailbox.
    Replayable(Arc<ReplayBuffer>),
}

impl ClientChannel {
    /// A writer that does not listen.
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

    /// Waits until nobody can read any more; a mailbox may always be read again.
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

    /// Nothing more will be sent.
    pub fn close(&self) {
        match self {
            ClientChannel::Direct(_) => {}
            ClientChannel::Replayable(buffer) => buffer.close(),
        }
    }
}

/// A stream that is remembered: what a client missed it can ask for again.
#[derive(Debug)]
pub struct ReplayBuffer {
    /// What the stream is called in event ids.
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
        self.log.lock().expect("nobody panics with it").frames.push(frame);
        self.changed.send_replace(());
    }

    pub fn close(&self) {
        self.log.lock().expect("nobody panics with it").has_ended = true;
        self.changed.send_replace(());
    }

    /// Reads on where nobody has read yet.
    pub fn read_new(self: &Arc<Self>) -> ReplayReader {
        let next = self.log.lock().expect("nobody panics with it").delivered;
        ReplayReader { buffer: Arc::clone(self), next, mode: ReadMode::First }
    }

    /// Reads again, from the frame after number `last`.
    pub fn read_after(self: &Arc<Self>, last: usize) -> ReplayReader {
        ReplayReader { buffer: Arc::clone(self), next: last, mode: ReadMode::Replay }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    First,
    /// Nothing goes wrong a second time.
    Replay,
}

/// A place in a mailbox.
#[derive(Debug)]
pub struct ReplayReader {
    buffer: Arc<ReplayBuffer>,
    next: usize,
    mode: ReadMode,
}

impl ReplayReader {
    /// The next frame and its event id; nothing when the stream is over.
    pub async fn next(&mut self) -> Option<(String, Frame)> {
        let mut changed = self.buffer.changed.subscribe();
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next frame if there is one; nothing inside if there will be none.
    fn take(&mut self) -> Option<Option<(String, Frame)>> {
        let mut log = self.buffer.log.lock().expect("nobody panics with it");
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

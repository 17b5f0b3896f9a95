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
    Half(Vec<u8>),
    /// The connection breaks; a program on stdio exits.
    Cut,
    /// The stream ends properly.
    Stop,
}

/// Where messages go.
#[derive(Debug, Clone)]
pub enum Outlet {
    /// A writer. Not bounded: a test asks for no more than it can hold.
    Direct(mpsc::UnboundedSender<Frame>),
    /// A mailbox.
    Kept(Arc<Mailbox>),
}

impl Outlet {
    /// A writer that does not listen.
    pub fn nowhere() -> Outlet {
        Outlet::Direct(mpsc::unbounded_channel().0)
    }

    pub fn send(&self, frame: Frame) {
        match self {
            Outlet::Direct(writer) => {
                let _client_left = writer.send(frame);
            }
            Outlet::Kept(mailbox) => mailbox.put(frame),
        }
    }

    pub fn say(&self, message: &Value) {
        self.send(Frame::Message(message.to_string().into_bytes()));
    }

    /// Waits until nobody can read any more; a mailbox may always be read again.
    pub async fn closed(&self) {
        match self {
            Outlet::Direct(writer) => writer.closed().await,
            Outlet::Kept(_) => std::future::pending().await,
        }
    }

    pub fn is_closed(&self) -> bool {
        match self {
            Outlet::Direct(writer) => writer.is_closed(),
            Outlet::Kept(_) => false,
        }
    }

    /// Nothing more will be sent.
    pub fn finish(&self) {
        match self {
            Outlet::Direct(_) => {}
            Outlet::Kept(mailbox) => mailbox.end(),
        }
    }
}

/// A stream that is remembered: what a client missed it can ask for again.
#[derive(Debug)]
pub struct Mailbox {
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

impl Mailbox {
    pub fn new(name: String) -> Arc<Mailbox> {
        let (changed, _) = watch::channel(());
        Arc::new(Mailbox { name, log: Mutex::default(), changed })
    }

    fn put(&self, frame: Frame) {
        self.log.lock().expect("nobody panics with it").frames.push(frame);
        self.changed.send_replace(());
    }

    pub fn end(&self) {
        self.log.lock().expect("nobody panics with it").has_ended = true;
        self.changed.send_replace(());
    }

    /// Reads on where nobody has read yet.
    pub fn unread(self: &Arc<Self>) -> Reader {
        let next = self.log.lock().expect("nobody panics with it").delivered;
        Reader { mailbox: Arc::clone(self), next, reading: Reading::First }
    }

    /// Reads again, from the frame after number `last`.
    pub fn after(self: &Arc<Self>, last: usize) -> Reader {
        Reader { mailbox: Arc::clone(self), next: last, reading: Reading::Again }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    First,
    /// Nothing goes wrong a second time.
    Again,
}

/// A place in a mailbox.
#[derive(Debug)]
pub struct Reader {
    mailbox: Arc<Mailbox>,
    next: usize,
    reading: Reading,
}

impl Reader {
    /// The next frame and its event id; nothing when the stream is over.
    pub async fn next(&mut self) -> Option<(String, Frame)> {
        let mut changed = self.mailbox.changed.subscribe();
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
        let mut log = self.mailbox.log.lock().expect("nobody panics with it");
        while let Some(frame) = log.frames.get(self.next).cloned() {
            self.next += 1;
            log.delivered = log.delivered.max(self.next);
            let frame = match (self.reading, frame) {
                (Reading::Again, Frame::Half(message)) => Frame::Message(message),
                (Reading::Again, Frame::Cut | Frame::Stop) => continue,
                (Reading::First | Reading::Again, frame) => frame,
            };
            return Some(Some((format!("{}/{}", self.mailbox.name, self.next), frame)));
        }
        log.has_ended.then_some(None)
    }
}

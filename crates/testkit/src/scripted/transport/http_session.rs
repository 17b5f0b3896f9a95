//! A session over HTTP: the client session and its event streams.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::scripted::client_channel::ReplayBuffer;
use crate::scripted::client_session::ClientSession;

/// A session of the legacy era.
#[derive(Debug)]
pub struct HttpSession {
    pub session: Arc<ClientSession>,
    /// Streams by name, for replay.
    pub(super) streams: Mutex<HashMap<String, Arc<ReplayBuffer>>>,
    pub(super) requests: AtomicUsize,
}

impl HttpSession {
    /// A session whose only stream is its own channel.
    pub fn with_single_stream(session: Arc<ClientSession>) -> HttpSession {
        HttpSession { session, streams: Mutex::default(), requests: AtomicUsize::new(0) }
    }

    /// Ends all streams.
    pub(super) fn close_streams(&self) {
        for replay_buffer in self.streams.lock().expect("no holder of the lock panics").values() {
            replay_buffer.close();
        }
    }
}

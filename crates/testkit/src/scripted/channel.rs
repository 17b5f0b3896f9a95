//! A scripted server that is a channel: what it declares, what it sends by itself, and a feed through which a test makes it
//! send anything, valid or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client_channel::{ClientChannel, Frame};

const MESSAGE: &str = "notifications/claude/channel";
const ANSWER: &str = "notifications/claude/channel/permission";
/// Asks a channel for permission.
pub(super) const PERMISSION_REQUEST: &str = "notifications/claude/channel/permission_request";

/// The channel side of a scripted server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelScript {
    /// The value of the capability `claude/channel`; null for none.
    pub declares: Value,
    /// The value of the capability `claude/channel/permission`; null for none.
    pub permission: Value,
    /// The parameters of messages that it sends after the handshake.
    pub messages: Vec<Value>,
    /// How it answers each permission request: the behaviours, in this order.
    pub answers: Vec<String>,
    /// The socket of a [`ChannelFeed`], whose lines it sends unchanged.
    pub feed: Option<PathBuf>,
}

impl Default for ChannelScript {
    fn default() -> ChannelScript {
        ChannelScript {
            declares: json!({}),
            permission: Value::Null,
            messages: Vec::new(),
            answers: Vec::new(),
            feed: None,
        }
    }
}

impl ChannelScript {
    /// A channel that declares to answer permission requests.
    pub fn with_permissions() -> ChannelScript {
        ChannelScript { permission: json!({}), ..ChannelScript::default() }
    }

    /// Declares something else.
    pub fn declaring(mut self, value: Value) -> ChannelScript {
        self.declares = value;
        self
    }

    /// Sends a message after the handshake.
    pub fn message(mut self, params: Value) -> ChannelScript {
        self.messages.push(params);
        self
    }

    /// Answers each permission request with these behaviours.
    pub fn answers(mut self, behaviors: &[&str]) -> ChannelScript {
        self.answers = behaviors.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    /// Sends what a test feeds to it.
    pub fn fed_by(mut self, feed: &ChannelFeed) -> ChannelScript {
        self.feed = Some(feed.path.clone());
        self
    }

    pub(super) fn experimental(&self) -> Value {
        let declared =
            [("claude/channel", &self.declares), ("claude/channel/permission", &self.permission)];
        let declared = declared.into_iter().filter(|(_, value)| !value.is_null());
        declared.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    /// Starts to send messages, when the handshake is over.
    pub(super) fn start(&self, client: &ClientChannel) {
        for params in &self.messages {
            client.send_message(&json!({"jsonrpc": "2.0", "method": MESSAGE, "params": params}));
        }
        if let Some(path) = &self.feed {
            let (path, client) = (path.clone(), client.clone());
            thread::spawn(move || {
                let Ok(stream) = UnixStream::connect(path) else { return };
                for line in BufReader::new(stream).split(b'\n') {
                    let Ok(line) = line else { return };
                    client.send(Frame::Message(line));
                }
            });
        }
    }

    /// Answers a permission request.
    pub(super) fn answer(&self, request: &Value, client: &ClientChannel) {
        for behavior in &self.answers {
            let params = json!({"request_id": request["request_id"], "behavior": behavior});
            client.send_message(&json!({"jsonrpc": "2.0", "method": ANSWER, "params": params}));
        }
    }
}

/// What a channel sends, decided by a test while the server runs. Lines wait until a server is connected.
#[derive(Debug)]
pub struct ChannelFeed {
    path: PathBuf,
    state: Arc<Mutex<FeedState>>,
}

/// The servers that a feed served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FedServers {
    /// How many have started.
    pub started: usize,
    /// How many are running.
    pub running: usize,
    /// How many have been running at the same time.
    pub most: usize,
}

#[derive(Debug, Default)]
struct FeedState {
    /// The server that started last.
    current: Option<UnixStream>,
    waiting: Vec<u8>,
    connected: usize,
    open: usize,
    most: usize,
}

impl ChannelFeed {
    /// A feed with a socket in a folder.
    pub fn in_folder(folder: &Path) -> ChannelFeed {
        let path = folder.join("feed.sock");
        let listener = UnixListener::bind(&path).expect("a socket can be made in the folder");
        let state: Arc<Mutex<FeedState>> = Arc::default();
        let shared = state.clone();
        // Ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                serve(stream, &shared);
            }
        });
        ChannelFeed { path, state }
    }

    /// Makes the channel send a line, whatever it is.
    pub fn line(&self, line: &str) {
        let mut state = lock(&self.state);
        state.waiting.extend_from_slice(line.as_bytes());
        state.waiting.push(b'\n');
        state.flush();
    }

    /// Makes the channel send a notification.
    pub fn notify(&self, method: &str, params: &Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Makes the channel send a message.
    pub fn message(&self, content: &str, meta: &Value) {
        self.notify(MESSAGE, &json!({"content": content, "meta": meta}));
    }

    /// Makes the channel answer a permission request.
    pub fn answer(&self, request_id: &str, behavior: &str) {
        self.notify(ANSWER, &json!({"request_id": request_id, "behavior": behavior}));
    }

    /// The servers that it fed.
    pub fn servers(&self) -> FedServers {
        let state = lock(&self.state);
        FedServers { started: state.connected, running: state.open, most: state.most }
    }
}

impl FeedState {
    fn flush(&mut self) {
        if let Some(stream) = &mut self.current
            && stream.write_all(&self.waiting).is_ok()
        {
            self.waiting.clear();
        }
    }
}

/// Feeds a server, and notes when it is gone.
fn serve(stream: UnixStream, shared: &Arc<Mutex<FeedState>>) {
    let mut reader = stream.try_clone().expect("a socket can be cloned");
    let mut state = lock(shared);
    state.connected += 1;
    state.open += 1;
    state.most = state.most.max(state.open);
    state.current = Some(stream);
    state.flush();
    drop(state);
    let shared = shared.clone();
    thread::spawn(move || {
        let _gone = reader.read(&mut [0]);
        lock(&shared).open -= 1;
    });
}

fn lock(state: &Mutex<FeedState>) -> MutexGuard<'_, FeedState> {
    state.lock().expect("no holder of the lock panics")
}

//! Who plays a script: what it has heard, whom it talks to, and how it ends.
//! All conversations of one server share one actor.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};

use super::client_channel::{ClientChannel, Frame};
use super::client_session::ClientSession;
use super::response_quirks;
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;

/// The exit code of a server that crashes.
pub const CRASH_EXIT_CODE: i32 = 70;

/// Where a server lives, and so what happens when it is to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// A program on standard streams.
    StdioProgram,
    /// A program on the network.
    NetworkProgram,
    /// A thread of a test: it drops connections instead.
    InTest,
}

/// One HTTP request, or one WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// The HTTP method; `MESSAGE` for a WebSocket message.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, where it was JSON.
    pub body: Option<Value>,
}

impl RecordedRequest {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message in the body.
    pub fn rpc_method(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

/// What a modern `ask` waits for.
#[derive(Debug)]
pub struct PendingInput {
    /// How many rounds are still to come.
    pub rounds_left: u64,
    /// The id of the request that was answered so.
    pub request_id: Value,
    /// What was answered in earlier rounds.
    pub responses: Vec<Value>,
}

/// Who plays a script.
#[derive(Debug)]
pub struct ServerState {
    pub script: Script,
    pub run_mode: RunMode,
    /// What modern questions wait for, by the state that has to come back.
    pub pending_inputs: Mutex<HashMap<String, PendingInput>>,
    received: Mutex<ReceivedCounts>,
    sessions: Mutex<Vec<Weak<ClientSession>>>,
    recorded: Mutex<Vec<RecordedRequest>>,
    journal: Option<Mutex<File>>,
    next_number: AtomicUsize,
    added_tools: AtomicUsize,
    /// Has somebody visited the page that opens it?
    pub is_gate_open: AtomicBool,
    in_flight: AtomicUsize,
    has_responded: AtomicBool,
}

#[derive(Debug, Default)]
struct ReceivedCounts {
    messages: usize,
    requests: usize,
    methods: BTreeMap<String, usize>,
    tools: BTreeMap<String, usize>,
    cancelled: Vec<String>,
}

/// Whether the server still lives after it heard something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterMessage {
    Continue,
    /// It lives inside a test, so only the connection is to end.
    Disconnect,
}

impl ServerState {
    pub fn new(script: Script, run_mode: RunMode) -> Arc<ServerState> {
        let journal = script.journal.as_ref().map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Mutex::new(file.expect("the journal can be written"))
        });
        Arc::new(ServerState {
            script,
            run_mode,
            pending_inputs: Mutex::default(),
            received: Mutex::default(),
            sessions: Mutex::default(),
            recorded: Mutex::default(),
            journal,
            next_number: AtomicUsize::new(1),
            added_tools: AtomicUsize::new(0),
            is_gate_open: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            has_responded: AtomicBool::new(false),
        })
    }

    /// Counts a message, writes it down, and dies of it if that is in the script.
    pub fn receive(&self, message: &Value) -> AfterMessage {
        let method = message.get("method").and_then(Value::as_str).unwrap_or("answer");
        if let Some(journal) = &self.journal {
            let line = format!("{message}\n");
            let mut file = journal.lock().expect("nobody panics with it");
            file.write_all(line.as_bytes()).expect("the journal can be written");
        }
        let (is_first, is_first_request) = self.count_message(method, message);
        if is_first_request {
            response_quirks::flood_stderr(&self.script);
        }
        let script = &self.script;
        let crashes = (is_first && script.has_quirk(&Quirk::ExitsOnFirstMessage))
            || (method == "server/discover" && script.has_quirk(&Quirk::ExitsOnProbe))
            || (method == "tools/call" && script.has_quirk(&Quirk::CrashesMidCall));
        if crashes { self.crash() } else { AfterMessage::Continue }
    }

    fn count_message(&self, method: &str, message: &Value) -> (bool, bool) {
        let mut received = self.received.lock().expect("nobody panics with it");
        received.messages += 1;
        *received.methods.entry(method.to_owned()).or_default() += 1;
        if method == "tools/call"
            && let Some(tool) = message["params"]["name"].as_str()
        {
            *received.tools.entry(tool.to_owned()).or_default() += 1;
        }
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        received.requests += usize::from(is_request);
        (received.messages == 1, is_request && received.requests == 1)
    }

    /// Ends the program; a server inside a test lives on.
    pub fn crash(&self) -> AfterMessage {
        match self.run_mode {
            RunMode::StdioProgram | RunMode::NetworkProgram => process::exit(CRASH_EXIT_CODE),
            RunMode::InTest => AfterMessage::Disconnect,
        }
    }

    /// What was heard so far.
    pub fn counts(&self) -> Value {
        let received = self.received.lock().expect("nobody panics with it");
        json!({"methods": received.methods, "tools": received.tools, "cancelled": received.cancelled})
    }

    pub fn record_cancelled(&self, label: &str) {
        self.received.lock().expect("nobody panics with it").cancelled.push(label.to_owned());
    }

    /// A number nobody had before.
    pub fn next_id(&self) -> usize {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub fn added_tools(&self) -> usize {
        self.added_tools.load(Ordering::Relaxed)
    }

    /// Adds a tool and tells everybody who listens.
    pub fn change_tools(&self) -> String {
        let name = format!("added_{}", self.added_tools.fetch_add(1, Ordering::Relaxed));
        self.notify_all("notifications/tools/list_changed", &json!({}));
        name
    }

    /// Tells every client that wants to know.
    pub fn notify_all(&self, method: &str, params: &Value) {
        let live_sessions: Vec<_> = {
            let mut sessions = self.sessions.lock().expect("nobody panics with it");
            sessions.retain(|it| it.strong_count() > 0);
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        for session in live_sessions {
            session.notify(method, params);
        }
    }

    /// Answers every request that listens, which ends it.
    pub fn end_subscriptions(&self) {
        let sessions = self.sessions.lock().expect("nobody panics with it");
        for session in sessions.iter().filter_map(Weak::upgrade) {
            session.end_subscriptions();
        }
    }

    pub fn add_session(&self, session: &Arc<ClientSession>) {
        let mut sessions = self.sessions.lock().expect("nobody panics with it");
        sessions.push(Arc::downgrade(session));
    }

    pub fn record(&self, recorded: RecordedRequest) {
        self.recorded.lock().expect("nobody panics with it").push(recorded);
    }

    pub fn recorded(&self) -> Vec<RecordedRequest> {
        self.recorded.lock().expect("nobody panics with it").clone()
    }

    /// Was anything answered before? From now on, it was.
    pub fn mark_responded(&self) -> bool {
        self.has_responded.swap(true, Ordering::Relaxed)
    }

    /// How many requests are being answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// One request more is being answered, until this is dropped.
    pub fn begin_request(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(self))
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct InFlightGuard(Arc<ServerState>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Breaks a connection on purpose.
pub fn disconnect(channel: &ClientChannel) {
    channel.send(Frame::Disconnect);
}

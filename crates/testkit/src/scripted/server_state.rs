//! The state of one scripted server, shared by its sessions: received messages, recorded requests, added tools.
//! Decides when the server crashes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};

use crate::http::recorded_request::RecordedRequest;
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;

/// The exit code of a crash.
pub const CRASH_EXIT_CODE: i32 = 70;

/// Where a server runs, which decides what a crash does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// A process on stdio.
    StdioProgram,
    /// A process on the network.
    NetworkProgram,
    /// A thread of a test: a crash drops connections instead.
    InTest,
}

/// The state of a modern `ask` between two rounds.
#[derive(Debug)]
pub struct PendingInput {
    /// The remaining rounds.
    pub rounds_left: u64,
    /// The id of the request of the previous round.
    pub request_id: Value,
    /// The input responses of earlier rounds.
    pub responses: Vec<Value>,
}

/// A client session as the server sees it: the receiver of notifications.
pub trait NotificationSink: Debug + Send + Sync {
    /// Sends a notification, if the client subscribed to it.
    fn notify(&self, method: &str, params: &Value);

    /// Ends every modern subscription with a response to the request that opened it.
    fn end_subscriptions(&self);
}

/// The state of one scripted server.
#[derive(Debug)]
pub struct ServerState {
    pub script: Script,
    pub run_mode: RunMode,
    /// Pending modern input requests by `requestState`.
    pub pending_inputs: Mutex<HashMap<String, PendingInput>>,
    received: Mutex<ReceivedCounts>,
    sessions: Mutex<Vec<Weak<dyn NotificationSink>>>,
    recorded: Mutex<Vec<RecordedRequest>>,
    journal: Option<Mutex<File>>,
    next_number: AtomicUsize,
    added_tools: AtomicUsize,
    /// Whether the URL elicitation of the gate is complete.
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

/// Whether the server continues after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterMessage {
    Continue,
    /// The server crashed inside a test: only the connection ends.
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

    /// Counts and records a message, and crashes if the script says so.
    pub fn receive(&self, message: &Value) -> AfterMessage {
        let method = message.get("method").and_then(Value::as_str).unwrap_or("answer");
        if let Some(journal) = &self.journal {
            let line = format!("{message}\n");
            let mut file = journal.lock().expect("no holder of the lock panics");
            file.write_all(line.as_bytes()).expect("the journal can be written");
        }
        let (is_first, is_first_request) = self.count_message(method, message);
        if is_first_request {
            flood_stderr(&self.script);
        }
        let script = &self.script;
        let crashes = (is_first && script.has_quirk(&Quirk::ExitsOnFirstMessage))
            || (method == "server/discover" && script.has_quirk(&Quirk::ExitsOnProbe))
            || (method == "tools/call" && script.has_quirk(&Quirk::CrashesMidCall));
        if crashes { self.crash() } else { AfterMessage::Continue }
    }

    fn count_message(&self, method: &str, message: &Value) -> (bool, bool) {
        let mut received = self.received.lock().expect("no holder of the lock panics");
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

    /// Ends the program; a server inside a test continues.
    pub fn crash(&self) -> AfterMessage {
        match self.run_mode {
            RunMode::StdioProgram | RunMode::NetworkProgram => process::exit(CRASH_EXIT_CODE),
            RunMode::InTest => AfterMessage::Disconnect,
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> Value {
        let received = self.received.lock().expect("no holder of the lock panics");
        json!({"methods": received.methods, "tools": received.tools, "cancelled": received.cancelled})
    }

    pub fn record_cancelled(&self, label: &str) {
        self.received
            .lock()
            .expect("no holder of the lock panics")
            .cancelled
            .push(label.to_owned());
    }

    /// A unique number.
    pub fn next_id(&self) -> usize {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub fn added_tools(&self) -> usize {
        self.added_tools.load(Ordering::Relaxed)
    }

    /// Adds a tool and notifies all subscribed clients.
    pub fn change_tools(&self) -> String {
        let name = format!("added_{}", self.added_tools.fetch_add(1, Ordering::Relaxed));
        self.notify_all("notifications/tools/list_changed", &json!({}));
        name
    }

    /// Notifies all subscribed clients.
    pub fn notify_all(&self, method: &str, params: &Value) {
        let live_sessions: Vec<_> = {
            let mut sessions = self.sessions.lock().expect("no holder of the lock panics");
            sessions.retain(|it| it.strong_count() > 0);
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        for session in live_sessions {
            session.notify(method, params);
        }
    }

    /// Ends all subscriptions with a response.
    pub fn end_subscriptions(&self) {
        let sessions = self.sessions.lock().expect("no holder of the lock panics");
        for session in sessions.iter().filter_map(Weak::upgrade) {
            session.end_subscriptions();
        }
    }

    pub fn add_session(&self, session: Weak<dyn NotificationSink>) {
        self.sessions.lock().expect("no holder of the lock panics").push(session);
    }

    pub fn record(&self, recorded: RecordedRequest) {
        self.recorded.lock().expect("no holder of the lock panics").push(recorded);
    }

    pub fn recorded(&self) -> Vec<RecordedRequest> {
        self.recorded.lock().expect("no holder of the lock panics").clone()
    }

    /// Whether a response was sent before; marks it as sent.
    pub fn mark_responded(&self) -> bool {
        self.has_responded.swap(true, Ordering::Relaxed)
    }

    /// The number of requests in progress.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Counts a request as in progress until the guard is dropped.
    pub fn begin_request(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(self))
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct InFlightGuard(Arc<ServerState>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Writes to stderr until all bytes are read.
fn flood_stderr(script: &Script) {
    let flood = script.find_quirk(|quirk| {
        if let Quirk::FloodsStderr { bytes } = quirk { Some(*bytes) } else { None }
    });
    let Some(mut remaining) = flood else { return };
    const LINE: &[u8] =
        b"this server has a lot to say about nothing at all, and it says it often\n";
    let mut stderr = std::io::stderr().lock();
    while remaining > 0 {
        let line = &LINE[LINE.len() - remaining.min(LINE.len())..];
        if stderr.write_all(line).is_err() {
            return;
        }
        remaining -= line.len();
    }
}

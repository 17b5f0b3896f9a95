//! Who plays a script: what it has heard, whom it talks to, and how it ends.
//! All conversations of one server share one actor.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};

use super::conversation::Conversation;
use super::mischief;
use super::outlet::{Frame, Outlet};
use crate::quirk::Quirk;
use crate::script::Script;

/// The exit code of a server that crashes.
pub const CRASHED: i32 = 70;

/// Where a server lives, and so what happens when it is to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// A program on standard streams.
    Stdio,
    /// A program on the network.
    Network,
    /// A thread of a test: it drops connections instead.
    Guest,
}

/// One HTTP request, or one WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The HTTP method; `MESSAGE` for a WebSocket message.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, where it was JSON.
    pub body: Option<Value>,
}

impl Recorded {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message in the body.
    pub fn asked(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

/// What a modern `ask` waits for.
#[derive(Debug)]
pub struct Round {
    /// How many rounds are still to come.
    pub left: u64,
    /// The id of the request that was answered so.
    pub id: Value,
    /// What was answered in earlier rounds.
    pub answers: Vec<Value>,
}

/// Who plays a script.
#[derive(Debug)]
pub struct Actor {
    pub script: Script,
    pub life: Life,
    /// What modern questions wait for, by the state that has to come back.
    pub rounds: Mutex<HashMap<String, Round>>,
    heard: Mutex<Heard>,
    conversations: Mutex<Vec<Weak<Conversation>>>,
    recorded: Mutex<Vec<Recorded>>,
    journal: Option<Mutex<File>>,
    next_number: AtomicUsize,
    added_tools: AtomicUsize,
    /// Has somebody visited the page that opens it?
    pub gate: AtomicBool,
    busy: AtomicUsize,
    answered: AtomicBool,
}

#[derive(Debug, Default)]
struct Heard {
    messages: usize,
    requests: usize,
    methods: BTreeMap<String, usize>,
    tools: BTreeMap<String, usize>,
    cancelled: Vec<String>,
}

/// Whether the server still lives after it heard something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alive {
    Yes,
    /// It lives inside a test, so only the connection is to end.
    No,
}

impl Actor {
    pub fn new(script: Script, life: Life) -> Arc<Actor> {
        let journal = script.journal.as_ref().map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Mutex::new(file.expect("the journal can be written"))
        });
        Arc::new(Actor {
            script,
            life,
            rounds: Mutex::default(),
            heard: Mutex::default(),
            conversations: Mutex::default(),
            recorded: Mutex::default(),
            journal,
            next_number: AtomicUsize::new(1),
            added_tools: AtomicUsize::new(0),
            gate: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
        })
    }

    /// Counts a message, writes it down, and dies of it if that is in the script.
    pub fn hear(&self, message: &Value) -> Alive {
        let method = message.get("method").and_then(Value::as_str).unwrap_or("answer");
        if let Some(journal) = &self.journal {
            let line = format!("{message}\n");
            let mut file = journal.lock().expect("nobody panics with it");
            file.write_all(line.as_bytes()).expect("the journal can be written");
        }
        let (is_first, is_first_request) = self.count(method, message);
        if is_first_request {
            mischief::flood_stderr(&self.script);
        }
        let script = &self.script;
        let dies = (is_first && script.does(&Quirk::ExitsOnFirstMessage))
            || (method == "server/discover" && script.does(&Quirk::ExitsOnProbe))
            || (method == "tools/call" && script.does(&Quirk::CrashesMidCall));
        if dies { self.die() } else { Alive::Yes }
    }

    fn count(&self, method: &str, message: &Value) -> (bool, bool) {
        let mut heard = self.heard.lock().expect("nobody panics with it");
        heard.messages += 1;
        *heard.methods.entry(method.to_owned()).or_default() += 1;
        if method == "tools/call"
            && let Some(tool) = message["params"]["name"].as_str()
        {
            *heard.tools.entry(tool.to_owned()).or_default() += 1;
        }
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        heard.requests += usize::from(is_request);
        (heard.messages == 1, is_request && heard.requests == 1)
    }

    /// Ends the program; a server inside a test lives on.
    pub fn die(&self) -> Alive {
        match self.life {
            Life::Stdio | Life::Network => process::exit(CRASHED),
            Life::Guest => Alive::No,
        }
    }

    /// What was heard so far.
    pub fn counts(&self) -> Value {
        let heard = self.heard.lock().expect("nobody panics with it");
        json!({"methods": heard.methods, "tools": heard.tools, "cancelled": heard.cancelled})
    }

    pub fn note_cancelled(&self, what: &str) {
        self.heard.lock().expect("nobody panics with it").cancelled.push(what.to_owned());
    }

    /// A number nobody had before.
    pub fn number(&self) -> usize {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    pub fn added_tools(&self) -> usize {
        self.added_tools.load(Ordering::Relaxed)
    }

    /// Adds a tool and tells everybody who listens.
    pub fn change_tools(&self) -> String {
        let name = format!("added_{}", self.added_tools.fetch_add(1, Ordering::Relaxed));
        self.announce("notifications/tools/list_changed", &json!({}));
        name
    }

    /// Tells every client that wants to know.
    pub fn announce(&self, method: &str, params: &Value) {
        let everyone: Vec<_> = {
            let mut conversations = self.conversations.lock().expect("nobody panics with it");
            conversations.retain(|it| it.strong_count() > 0);
            conversations.iter().filter_map(Weak::upgrade).collect()
        };
        for conversation in everyone {
            conversation.announce(method, params);
        }
    }

    /// Answers every request that listens, which ends it.
    pub fn end_listening(&self) {
        let conversations = self.conversations.lock().expect("nobody panics with it");
        for conversation in conversations.iter().filter_map(Weak::upgrade) {
            conversation.end_listening();
        }
    }

    pub fn knows(&self, conversation: &Arc<Conversation>) {
        let mut conversations = self.conversations.lock().expect("nobody panics with it");
        conversations.push(Arc::downgrade(conversation));
    }

    pub fn record(&self, recorded: Recorded) {
        self.recorded.lock().expect("nobody panics with it").push(recorded);
    }

    pub fn recorded(&self) -> Vec<Recorded> {
        self.recorded.lock().expect("nobody panics with it").clone()
    }

    /// Was anything answered before? From now on, it was.
    pub fn has_answered(&self) -> bool {
        self.answered.swap(true, Ordering::Relaxed)
    }

    /// How many requests are being answered.
    pub fn busy(&self) -> usize {
        self.busy.load(Ordering::Acquire)
    }

    /// One request more is being answered, until this is dropped.
    pub fn at_work(self: &Arc<Self>) -> AtWork {
        self.busy.fetch_add(1, Ordering::AcqRel);
        AtWork(Arc::clone(self))
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct AtWork(Arc<Actor>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Breaks a connection on purpose.
pub fn cut(outlet: &Outlet) {
    outlet.send(Frame::Cut);
}

//! Console messages and uncaught errors of one tab.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value as Json;

use crate::cdp::message::Event;
use crate::page::ring::RingBuffer;
use crate::shown_text::cut;

/// How many messages are kept.
const MAX_MESSAGES: usize = 200;
/// The longest message, in characters.
const MAX_TEXT: usize = 1000;
/// How many messages a second are read; more are only counted.
const MAX_PER_SECOND: u32 = 200;
/// A message with longer parameters is only counted.
const MAX_EVENT_BYTES: usize = 256 * 1024;

/// How serious a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConsoleLevel {
    Debug,
    Info,
    Warning,
    Error,
}

impl ConsoleLevel {
    pub(crate) fn id(self) -> &'static str {
        match self {
            ConsoleLevel::Debug => "debug",
            ConsoleLevel::Info => "info",
            ConsoleLevel::Warning => "warning",
            ConsoleLevel::Error => "error",
        }
    }
}

/// One message.
#[derive(Debug)]
pub(crate) struct ConsoleMessage {
    pub(crate) level: ConsoleLevel,
    pub(crate) text: String,
    pub(crate) place: String,
}

/// The messages of one tab.
#[derive(Debug)]
pub(crate) struct Console {
    pub(crate) messages: RingBuffer<ConsoleMessage>,
    window: Option<Instant>,
    in_window: u32,
}

impl Default for Console {
    fn default() -> Console {
        Console { messages: RingBuffer::new(MAX_MESSAGES), window: None, in_window: 0 }
    }
}

#[derive(Deserialize)]
struct ApiCall {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<RemoteObject>,
    #[serde(rename = "stackTrace")]
    stack: Option<StackTrace>,
}

#[derive(Deserialize)]
struct RemoteObject {
    value: Option<Json>,
    description: Option<String>,
    #[serde(rename = "unserializableValue")]
    unserializable: Option<String>,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct StackTrace {
    #[serde(rename = "callFrames")]
    frames: Vec<CallFrame>,
}

#[derive(Deserialize)]
struct CallFrame {
    url: String,
    #[serde(rename = "lineNumber")]
    line: i64,
}

#[derive(Deserialize)]
struct Thrown {
    #[serde(rename = "exceptionDetails")]
    details: ExceptionDetails,
}

#[derive(Deserialize)]
struct ExceptionDetails {
    text: String,
    exception: Option<RemoteObject>,
    url: Option<String>,
    #[serde(rename = "lineNumber")]
    line: i64,
}

#[derive(Deserialize)]
struct LogEvent {
    entry: LogEntry,
}

#[derive(Deserialize)]
struct LogEntry {
    level: String,
    text: String,
    url: Option<String>,
    #[serde(rename = "lineNumber")]
    line: Option<i64>,
}

impl RemoteObject {
    fn text(&self) -> String {
        match (&self.value, &self.description, &self.unserializable) {
            (Some(Json::String(text)), ..) => text.clone(),
            (Some(value), ..) => value.to_string(),
            (None, Some(text), _) | (None, None, Some(text)) => text.clone(),
            (None, None, None) => self.kind.clone(),
        }
    }
}

impl Console {
    /// Takes an event of the console; returns whether it was one.
    pub(crate) fn on_event(&mut self, event: &Event<'_>) -> bool {
        let is_message = matches!(
            event.method,
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded"
        );
        if !is_message {
            return false;
        }
        if !self.has_room() || event.params.len() > MAX_EVENT_BYTES {
            self.messages.skip();
            return true;
        }
        let message = match event.method {
            "Runtime.consoleAPICalled" => event.decode().map(of_api_call),
            "Runtime.exceptionThrown" => event.decode().map(of_exception),
            _ => event.decode().map(of_log_entry),
        };
        match message {
            Some(message) => drop(self.messages.push(message)),
            None => self.messages.skip(),
        }
        true
    }

    /// Whether a message is read in this second: a page may write faster than anything can read.
    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        if self.window.is_none_or(|it| now.duration_since(it) > Duration::from_secs(1)) {
            (self.window, self.in_window) = (Some(now), 0);
        }
        self.in_window += 1;
        self.in_window <= MAX_PER_SECOND
    }
}

fn of_api_call(call: ApiCall) -> ConsoleMessage {
    let level = match call.kind.as_str() {
        "error" | "assert" => ConsoleLevel::Error,
        "warning" => ConsoleLevel::Warning,
        "debug" | "trace" => ConsoleLevel::Debug,
        _ => ConsoleLevel::Info,
    };
    let mut text = String::new();
    for argument in call.args.iter().take(20) {
        if !text.is_empty() {
            text.push(' ');
        }
        text += &cut(&argument.text(), MAX_TEXT);
    }
    let frame = call.stack.and_then(|it| it.frames.into_iter().next());
    let place = frame.map(|it| place(&it.url, it.line)).unwrap_or_default();
    ConsoleMessage { level, text: cut(&text, MAX_TEXT), place }
}

fn of_exception(thrown: Thrown) -> ConsoleMessage {
    let details = thrown.details;
    let description = details.exception.as_ref().map(RemoteObject::text).unwrap_or_default();
    let text = match description.is_empty() {
        true => details.text,
        false => format!("{} {description}", details.text),
    };
    let place = place(&details.url.unwrap_or_default(), details.line);
    ConsoleMessage { level: ConsoleLevel::Error, text: cut(&text, MAX_TEXT), place }
}

fn of_log_entry(added: LogEvent) -> ConsoleMessage {
    let LogEntry { level, text, url, line } = added.entry;
    let level = match level.as_str() {
        "error" => ConsoleLevel::Error,
        "warning" => ConsoleLevel::Warning,
        "verbose" => ConsoleLevel::Debug,
        _ => ConsoleLevel::Info,
    };
    let place = place(&url.unwrap_or_default(), line.unwrap_or(-1));
    ConsoleMessage { level, text: cut(&text, MAX_TEXT), place }
}

/// A URL without its query, and a line counted from 1.
fn place(url: &str, line: i64) -> String {
    let url = cut(url.split(['?', '#']).next().unwrap_or_default(), 200);
    match (url.is_empty(), line >= 0) {
        (true, _) => String::new(),
        (false, true) => format!("{url}:{}", line + 1),
        (false, false) => url,
    }
}

//! Moves a peer's server key by key into an entry of ours, and notes what stays behind.
//! Which key goes where is said in the file of each host.

use serde_json::{Map, Value};

use super::note::{Expected, Note, SkipReason};
use super::spelling::{Remark, Spelling, is_name};

/// A server on its way.
pub(super) struct Draft<'a> {
    given: Map<String, Value>,
    made: Map<String, Value>,
    notes: Vec<Note>,
    spelling: &'a Spelling,
}

/// A server that arrived.
#[derive(Debug)]
pub(super) struct Converted {
    pub entry: Map<String, Value>,
    pub notes: Vec<Note>,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Stdio,
    Remote(&'static str),
}

/// What `true` does to a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Switch {
    TurnsOn,
    TurnsOff,
}

/// What a peer counts time in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
}

impl<'a> Draft<'a> {
    pub(super) fn new(server: Value, spelling: &'a Spelling) -> Result<Draft<'a>, SkipReason> {
        match server {
            Value::Object(given) => {
                Ok(Draft { given, made: Map::new(), notes: Vec::new(), spelling })
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(SkipReason::NotAnObject),
        }
    }

    /// The entry, with a note for each key that nobody took.
    pub(super) fn finish(mut self) -> Converted {
        for (key, value) in std::mem::take(&mut self.given) {
            if !value.is_null() {
                self.note(Note::LeftOut { key });
            }
        }
        Converted { entry: self.made, notes: self.notes }
    }

    /// Adds a note, once.
    pub(super) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What the peer wrote at a key; `null` is the same as nothing.
    pub(super) fn given(&self, key: &str) -> Option<&Value> {
        self.given.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.given(key).is_some()
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.made.insert(key.to_owned(), value.into());
    }

    /// Takes a key out; `null` is the same as nothing.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.given.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Takes a string as it is.
    pub(super) fn take_text(&mut self, key: &str) -> Result<Option<String>, SkipReason> {
        self.take(key).map(|value| text(key, value)).transpose()
    }

    pub(super) fn take_flag(&mut self, key: &str) -> Result<Option<bool>, SkipReason> {
        let flag = |value: Value| value.as_bool().ok_or_else(|| wrong(key, Expected::Flag));
        self.take(key).map(flag).transpose()
    }

    /// Takes an array of strings as they are.
    pub(super) fn take_texts(&mut self, key: &str) -> Result<Option<Vec<String>>, SkipReason> {
        self.take(key).map(|value| texts(key, value)).transpose()
    }

    /// Takes an object.
    pub(super) fn take_table(
        &mut self,
        key: &str,
    ) -> Result<Option<Map<String, Value>>, SkipReason> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(table)) => Ok(Some(table)),
            Some(_) => Err(wrong(key, Expected::Table)),
        }
    }

    /// Writes a text of the peer in our spelling and keeps what there is to say about it.
    pub(super) fn translate(&mut self, key: &str, text: &str) -> String {
        let translated = self.spelling.translate(text);
        let key = || key.to_owned();
        for remark in translated.remarks {
            self.note(match remark {
                Remark::Needs(variable) => Note::VariableNeeded { variable },
                Remark::Asks { input, variable } => Note::InputBecameVariable { input, variable },
                Remark::Rewrote { from, to } => Note::Rewritten { key: key(), from, to },
                Remark::Reads(path) => Note::FileNamed { key: key(), path },
                Remark::Doubled => Note::DollarDoubled { key: key() },
                Remark::Unknown => Note::ReferenceKept { key: key() },
            });
        }
        translated.text
    }

    /// Which transport `type`, `command` and `url` speak of. Takes `type`.
    pub(super) fn transport(&mut self) -> Result<Transport, SkipReason> {
        let transport = match self.take_text("type")?.as_deref() {
            Some("stdio") => Transport::Stdio,
            Some("http" | "streamable-http" | "streamableHttp") => Transport::Remote("http"),
            Some("sse") => Transport::Remote("sse"),
            Some("ws") => Transport::Remote("ws"),
            Some(_) => return Err(SkipReason::UnknownType),
            None if self.has("command") => Transport::Stdio,
            None => Transport::Remote(self.assume_transport()),
        };
        let needed = match transport {
            Transport::Stdio => "command",
            Transport::Remote(_) => "url",
        };
        if self.has(needed) { Ok(transport) } else { Err(SkipReason::NoTransport) }
    }

    /// The transport behind an address that says none. The peers try `http` first and fall back to
    /// `sse`; we do not, so an address that ends in `/sse` is believed.
    pub(super) fn assume_transport(&mut self) -> &'static str {
        let address = self.given("url").and_then(Value::as_str).unwrap_or_default();
        let path = address.split(['?', '#']).next().unwrap_or_default();
        if path.trim_end_matches('/').ends_with("/sse") {
            self.note(Note::TransportAssumed { transport: "sse" });
            "sse"
        } else {
            "http"
        }
    }

    /// `type`, `command`, `args`, `env` (under the name the peer has for it) and `cwd`.
    pub(super) fn copy_process(&mut self, env: &str) -> Result<(), SkipReason> {
        self.put("type", "stdio");
        self.copy_text("command")?;
        self.copy_texts("args")?;
        self.copy_table(env, "env")?;
        self.copy_text("cwd")
    }

    /// `type`, `url` (under the name the peer has for it) and `headers`.
    pub(super) fn copy_remote(
        &mut self,
        transport: &'static str,
        url: &str,
    ) -> Result<(), SkipReason> {
        self.copy_address(transport, url)?;
        self.copy_table("headers", "headers")
    }

    /// `type` and `url`.
    pub(super) fn copy_address(
        &mut self,
        transport: &'static str,
        url: &str,
    ) -> Result<(), SkipReason> {
        let address = self.take_text(url)?.ok_or(SkipReason::NoTransport)?;
        if !is_web_address(&address) {
            return Err(SkipReason::UnknownAddress);
        }
        self.put("type", transport);
        let address = self.translate(url, &address);
        self.put("url", address);
        Ok(())
    }

    /// A string, translated.
    pub(super) fn copy_text(&mut self, key: &str) -> Result<(), SkipReason> {
        if let Some(text) = self.take_text(key)? {
            let text = self.translate(key, &text);
            self.put(key, text);
        }
        Ok(())
    }

    /// An array of strings, translated.
    pub(super) fn copy_texts(&mut self, key: &str) -> Result<(), SkipReason> {
        if let Some(texts) = self.take_texts(key)? {
            let texts = self.translate_each(key, &texts);
            self.put(key, texts);
        }
        Ok(())
    }

    pub(super) fn translate_each(&mut self, key: &str, texts: &[String]) -> Vec<String> {
        let one =
            |(index, text): (usize, &String)| self.translate(&format!("{key}[{index}]"), text);
        texts.iter().enumerate().map(one).collect()
    }

    /// An object of strings, translated.
    pub(super) fn copy_table(&mut self, from: &str, to: &str) -> Result<(), SkipReason> {
        if let Some(table) = self.take_table(from)? {
            let table = self.translate_table(from, table)?;
            self.put(to, table);
        }
        Ok(())
    }

    /// Numbers and flags become strings, as they do when a peer hands them to a process.
    pub(super) fn translate_table(
        &mut self,
        key: &str,
        table: Map<String, Value>,
    ) -> Result<Map<String, Value>, SkipReason> {
        let mut made = Map::new();
        for (name, value) in table {
            let path = format!("{key}.{name}");
            let text = match value {
                Value::String(text) => self.translate(&path, &text),
                Value::Number(number) => self.as_text(path, "a number", number.to_string()),
                Value::Bool(flag) => self.as_text(path, "a flag", flag.to_string()),
                Value::Null => {
                    self.note(Note::LeftOut { key: path });
                    continue;
                }
                Value::Array(_) | Value::Object(_) => return Err(wrong(&path, Expected::Text)),
            };
            made.insert(name, Value::String(text));
        }
        Ok(made)
    }

    fn as_text(&mut self, key: String, was: &str, text: String) -> String {
        self.note(Note::Rewritten { key, from: was.to_owned(), to: "a string".to_owned() });
        text
    }

    /// A name of an environment variable, as a reference to it.
    pub(super) fn reference(&mut self, key: &str, variable: &str) -> Result<String, SkipReason> {
        if !is_name(variable) {
            return Err(wrong(key, Expected::Variable));
        }
        self.note(Note::VariableNeeded { variable: variable.to_owned() });
        Ok(format!("${{{variable}}}"))
    }

    /// How long a call may take.
    pub(super) fn copy_timeout(&mut self, key: &str, unit: Unit) -> Result<(), SkipReason> {
        let Some(value) = self.take(key) else {
            return Ok(());
        };
        let time = millis(key, &value, unit)?;
        self.put("timeout", time);
        Ok(())
    }

    /// Lists of tools that are let through and kept out. A tool may stand there with its arguments.
    pub(super) fn copy_tools(&mut self, allow: &str, deny: &str) -> Result<(), SkipReason> {
        let mut tools = Map::new();
        for (from, to) in [(allow, "allow"), (deny, "deny")] {
            if let Some(names) = self.take_texts(from)? {
                let names = names.iter().map(|name| self.tool_name(from, name));
                tools.insert(to.to_owned(), names.collect());
            }
        }
        if !tools.is_empty() {
            self.put("tools", tools);
        }
        Ok(())
    }

    fn tool_name(&mut self, key: &str, written: &str) -> String {
        let Some((name, _)) = written.split_once('(') else {
            return written.to_owned();
        };
        let from = format!("{name}(…)");
        self.note(Note::Rewritten { key: key.to_owned(), from, to: name.to_owned() });
        name.to_owned()
    }

    /// Moves a key of the server into one of its objects.
    pub(super) fn nest(&mut self, key: &str, object: &str) {
        let Some(value) = self.take(key) else { return };
        let object = self.given.entry(object).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(object) = object {
            object.insert(key.to_owned(), value);
        }
    }

    /// A flag that turns the server on or off.
    pub(super) fn copy_switch(&mut self, key: &str, switch: Switch) -> Result<(), SkipReason> {
        let off = match switch {
            Switch::TurnsOn => false,
            Switch::TurnsOff => true,
        };
        if self.take_flag(key)? == Some(off) {
            self.put("disabled", true);
        }
        Ok(())
    }
}

pub(super) fn wrong(key: &str, expected: Expected) -> SkipReason {
    SkipReason::WrongType { key: key.to_owned(), expected }
}

/// A time as whole milliseconds.
pub(super) fn millis(key: &str, value: &Value, unit: Unit) -> Result<u64, SkipReason> {
    let factor = match unit {
        Unit::Milliseconds => 1.0,
        Unit::Seconds => 1000.0,
    };
    let time = value.as_f64().map(|time| (time * factor).round());
    let time = time.filter(|time| (0.0..=9e15).contains(time));
    time.map(|time| time as u64).ok_or_else(|| wrong(key, Expected::Time))
}

pub(super) fn text(key: &str, value: Value) -> Result<String, SkipReason> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong(key, Expected::Text))
        }
    }
}

pub(super) fn texts(key: &str, value: Value) -> Result<Vec<String>, SkipReason> {
    let Value::Array(values) = value else {
        return Err(wrong(key, Expected::Texts));
    };
    let one = |value| text(key, value).map_err(|_not_text| wrong(key, Expected::Texts));
    values.into_iter().map(one).collect()
}

/// An address with a scheme must have one that goes over the web; one without may begin with a
/// variable.
fn is_web_address(address: &str) -> bool {
    match address.split_once(':') {
        Some((scheme, _)) if scheme.chars().all(|letter| letter.is_ascii_alphanumeric()) => {
            ["http", "https", "ws", "wss"].contains(&scheme.to_ascii_lowercase().as_str())
        }
        Some(_) | None => true,
    }
}

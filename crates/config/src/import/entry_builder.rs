//! Converts a server of another host, key by key, into an entry of our format, and notes what is dropped.
//! The reader of each application says which key goes where.

use serde_json::{Map, Value};

use super::note::{ExpectedType, ImportNote, SkipReason};
use super::reference::{TranslationNote, is_variable_name};
use super::variable_syntax::VariableSyntax;

/// A server that is being converted.
pub(super) struct EntryBuilder<'a> {
    input: Map<String, Value>,
    entry: Map<String, Value>,
    notes: Vec<ImportNote>,
    syntax: &'a VariableSyntax,
}

/// A converted server.
#[derive(Debug)]
pub(super) struct ConvertedEntry {
    pub entry: Map<String, Value>,
    pub notes: Vec<ImportNote>,
}

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportedTransport {
    Stdio,
    Remote(&'static str),
}

/// The meaning of `true` for a flag.
#[derive(Debug, Clone, Copy)]
pub(super) enum FlagMeaning {
    Enables,
    Disables,
}

/// The unit of a timeout.
#[derive(Debug, Clone, Copy)]
pub(super) enum TimeUnit {
    Milliseconds,
    Seconds,
}

impl<'a> EntryBuilder<'a> {
    pub(super) fn new(
        server: Value,
        syntax: &'a VariableSyntax,
    ) -> Result<EntryBuilder<'a>, SkipReason> {
        match server {
            Value::Object(given) => {
                Ok(EntryBuilder { input: given, entry: Map::new(), notes: Vec::new(), syntax })
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(SkipReason::NotAnObject),
        }
    }

    /// Returns the entry, with a note for each key that was not read.
    pub(super) fn build(mut self) -> ConvertedEntry {
        for (key, value) in std::mem::take(&mut self.input) {
            if !value.is_null() {
                self.note(ImportNote::KeyDropped { key });
            }
        }
        ConvertedEntry { entry: self.entry, notes: self.notes }
    }

    /// Adds a note, unless it is there.
    pub(super) fn note(&mut self, note: ImportNote) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the value of a key; `null` counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.input.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.entry.insert(key.to_owned(), value.into());
    }

    /// Removes and returns a key; `null` counts as absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.input.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Stores a value of the other host under the key that the readers expect.
    pub(super) fn put_back(&mut self, key: &str, value: Value) {
        self.input.insert(key.to_owned(), value);
    }

    /// Takes a string without translating it.
    pub(super) fn take_string(&mut self, key: &str) -> Result<Option<String>, SkipReason> {
        self.take(key).map(|value| expect_string(key, value)).transpose()
    }

    pub(super) fn take_bool(&mut self, key: &str) -> Result<Option<bool>, SkipReason> {
        let flag =
            |value: Value| value.as_bool().ok_or_else(|| wrong_type(key, ExpectedType::Boolean));
        self.take(key).map(flag).transpose()
    }

    /// Takes an array of strings without translating them.
    pub(super) fn take_strings(&mut self, key: &str) -> Result<Option<Vec<String>>, SkipReason> {
        self.take(key).map(|value| expect_strings(key, value)).transpose()
    }

    /// Takes an object.
    pub(super) fn take_object(
        &mut self,
        key: &str,
    ) -> Result<Option<Map<String, Value>>, SkipReason> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(table)) => Ok(Some(table)),
            Some(_) => Err(wrong_type(key, ExpectedType::StringMap)),
        }
    }

    /// Translates a text into our syntax and keeps the notes about it.
    pub(super) fn translate(&mut self, key: &str, text: &str) -> String {
        let translated = self.syntax.translate(text);
        let key = || key.to_owned();
        for translation_note in translated.notes {
            self.note(match translation_note {
                TranslationNote::RequiresVariable(variable) => {
                    ImportNote::VariableRequired { variable }
                }
                TranslationNote::RequiresInput { input, variable } => {
                    ImportNote::InputBecameVariable { input, variable }
                }
                TranslationNote::Rewritten { from, to } => {
                    ImportNote::Rewritten { key: key(), from, to }
                }
                TranslationNote::ReadsFile(path) => ImportNote::FileReferenced { key: key(), path },
                TranslationNote::DollarEscaped => ImportNote::DollarEscaped { key: key() },
                TranslationNote::UnknownReference => {
                    ImportNote::ReferenceNotTranslated { key: key() }
                }
            });
        }
        translated.text
    }

    /// Finds the transport from `type`, `command` and `url`. Takes `type`.
    pub(super) fn transport(&mut self) -> Result<ImportedTransport, SkipReason> {
        let transport = match self.take_string("type")?.as_deref() {
            Some("stdio") => ImportedTransport::Stdio,
            Some("http" | "streamable-http" | "streamableHttp") => {
                ImportedTransport::Remote("http")
            }
            Some("sse") => ImportedTransport::Remote("sse"),
            Some("ws") => ImportedTransport::Remote("ws"),
            Some(_) => return Err(SkipReason::UnknownType),
            None if self.has("command") => ImportedTransport::Stdio,
            None => ImportedTransport::Remote(self.assume_transport()),
        };
        let needed = match transport {
            ImportedTransport::Stdio => "command",
            ImportedTransport::Remote(_) => "url",
        };
        if self.has(needed) { Ok(transport) } else { Err(SkipReason::NoTransport) }
    }

    /// Chooses the transport for a URL without `type`. The other hosts try `http` first and fall back to `sse`;
    /// we do not, so a URL that ends in `/sse` is taken as `sse`.
    pub(super) fn assume_transport(&mut self) -> &'static str {
        let address = self.get("url").and_then(Value::as_str).unwrap_or_default();
        let path = address.split(['?', '#']).next().unwrap_or_default();
        if path.trim_end_matches('/').ends_with("/sse") {
            self.note(ImportNote::TransportAssumed { transport: "sse" });
            "sse"
        } else {
            "http"
        }
    }

    /// Copies `command`, `args`, `env` (under its name in the other host) and `cwd`, and sets `type`.
    pub(super) fn copy_stdio(&mut self, env: &str) -> Result<(), SkipReason> {
        self.set("type", "stdio");
        self.copy_string("command")?;
        self.copy_strings("args")?;
        self.copy_string_map(env, "env")?;
        self.copy_string("cwd")
    }

    /// Copies `url` (under its name in the other host) and `headers`, and sets `type`.
    pub(super) fn copy_remote(
        &mut self,
        transport: &'static str,
        url: &str,
    ) -> Result<(), SkipReason> {
        self.copy_url(transport, url)?;
        self.copy_string_map("headers", "headers")
    }

    /// Copies `url` and sets `type`.
    pub(super) fn copy_url(
        &mut self,
        transport: &'static str,
        url: &str,
    ) -> Result<(), SkipReason> {
        let address = self.take_string(url)?.ok_or(SkipReason::NoTransport)?;
        if !is_web_address(&address) {
            return Err(SkipReason::UnsupportedUrl);
        }
        self.set("type", transport);
        let address = self.translate(url, &address);
        self.set("url", address);
        Ok(())
    }

    /// Copies a string, translated.
    pub(super) fn copy_string(&mut self, key: &str) -> Result<(), SkipReason> {
        if let Some(text) = self.take_string(key)? {
            let text = self.translate(key, &text);
            self.set(key, text);
        }
        Ok(())
    }

    /// Copies an array of strings, translated.
    pub(super) fn copy_strings(&mut self, key: &str) -> Result<(), SkipReason> {
        if let Some(texts) = self.take_strings(key)? {
            let texts = self.translate_each(key, &texts);
            self.set(key, texts);
        }
        Ok(())
    }

    pub(super) fn translate_each(&mut self, key: &str, texts: &[String]) -> Vec<String> {
        let one =
            |(index, text): (usize, &String)| self.translate(&format!("{key}[{index}]"), text);
        texts.iter().enumerate().map(one).collect()
    }

    /// Copies an object of strings, translated.
    pub(super) fn copy_string_map(&mut self, from: &str, to: &str) -> Result<(), SkipReason> {
        if let Some(table) = self.take_object(from)? {
            let table = self.translate_string_map(from, table)?;
            self.set(to, table);
        }
        Ok(())
    }

    /// Numbers and booleans become strings, as they do when another host passes them to a process.
    pub(super) fn translate_string_map(
        &mut self,
        key: &str,
        table: Map<String, Value>,
    ) -> Result<Map<String, Value>, SkipReason> {
        let mut strings = Map::new();
        for (name, value) in table {
            let path = format!("{key}.{name}");
            let text = match value {
                Value::String(text) => self.translate(&path, &text),
                Value::Number(number) => {
                    self.note_stringified(path, "a number", number.to_string())
                }
                Value::Bool(flag) => self.note_stringified(path, "a flag", flag.to_string()),
                Value::Null => {
                    self.note(ImportNote::KeyDropped { key: path });
                    continue;
                }
                Value::Array(_) | Value::Object(_) => {
                    return Err(wrong_type(&path, ExpectedType::String));
                }
            };
            strings.insert(name, Value::String(text));
        }
        Ok(strings)
    }

    fn note_stringified(&mut self, key: String, was: &str, text: String) -> String {
        self.note(ImportNote::Rewritten { key, from: was.to_owned(), to: "a string".to_owned() });
        text
    }

    /// Returns a reference to an environment variable.
    pub(super) fn variable_reference(
        &mut self,
        key: &str,
        variable: &str,
    ) -> Result<String, SkipReason> {
        if !is_variable_name(variable) {
            return Err(wrong_type(key, ExpectedType::VariableName));
        }
        self.note(ImportNote::VariableRequired { variable: variable.to_owned() });
        Ok(format!("${{{variable}}}"))
    }

    /// Copies the timeout of calls.
    pub(super) fn copy_timeout(&mut self, key: &str, unit: TimeUnit) -> Result<(), SkipReason> {
        self.copy_time(key, "timeout", unit)
    }

    /// Copies the timeout of connecting.
    pub(super) fn copy_connect_timeout(
        &mut self,
        key: &str,
        unit: TimeUnit,
    ) -> Result<(), SkipReason> {
        self.copy_time(key, "connectTimeout", unit)
    }

    fn copy_time(&mut self, from: &str, to: &str, unit: TimeUnit) -> Result<(), SkipReason> {
        let Some(value) = self.take(from) else {
            return Ok(());
        };
        let time = to_millis(from, &value, unit)?;
        self.set(to, time);
        Ok(())
    }

    /// Copies the lists of allowed and denied tools. A name may be followed by arguments in parentheses.
    pub(super) fn copy_tools(&mut self, allow: &str, deny: &str) -> Result<(), SkipReason> {
        let mut tools = Map::new();
        for (from, to) in [(allow, "allow"), (deny, "deny")] {
            if let Some(names) = self.take_strings(from)? {
                let names = names.iter().map(|name| self.tool_name(from, name));
                tools.insert(to.to_owned(), names.collect());
            }
        }
        if !tools.is_empty() {
            self.set("tools", tools);
        }
        Ok(())
    }

    fn tool_name(&mut self, key: &str, written: &str) -> String {
        let Some((name, _)) = written.split_once('(') else {
            return written.to_owned();
        };
        let from = format!("{name}(…)");
        self.note(ImportNote::Rewritten { key: key.to_owned(), from, to: name.to_owned() });
        name.to_owned()
    }

    /// Moves a key of the server into one of its objects.
    pub(super) fn move_into(&mut self, key: &str, object: &str) {
        let Some(value) = self.take(key) else { return };
        let object = self.input.entry(object).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(object) = object {
            object.insert(key.to_owned(), value);
        }
    }

    /// Copies a flag that enables or disables the server.
    pub(super) fn copy_enabled_flag(
        &mut self,
        key: &str,
        switch: FlagMeaning,
    ) -> Result<(), SkipReason> {
        let off = match switch {
            FlagMeaning::Enables => false,
            FlagMeaning::Disables => true,
        };
        if self.take_bool(key)? == Some(off) {
            self.set("disabled", true);
        }
        Ok(())
    }
}

pub(super) fn wrong_type(key: &str, expected: ExpectedType) -> SkipReason {
    SkipReason::WrongType { key: key.to_owned(), expected }
}

/// Converts a time to whole milliseconds.
pub(super) fn to_millis(key: &str, value: &Value, unit: TimeUnit) -> Result<u64, SkipReason> {
    let factor = match unit {
        TimeUnit::Milliseconds => 1.0,
        TimeUnit::Seconds => 1000.0,
    };
    let time = value.as_f64().map(|time| (time * factor).round());
    let time = time.filter(|time| (0.0..=9e15).contains(time));
    time.map(|time| time as u64).ok_or_else(|| wrong_type(key, ExpectedType::Duration))
}

pub(super) fn expect_string(key: &str, value: Value) -> Result<String, SkipReason> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong_type(key, ExpectedType::String))
        }
    }
}

pub(super) fn expect_strings(key: &str, value: Value) -> Result<Vec<String>, SkipReason> {
    let Value::Array(values) = value else {
        return Err(wrong_type(key, ExpectedType::StringArray));
    };
    let one = |value| {
        expect_string(key, value).map_err(|_not_text| wrong_type(key, ExpectedType::StringArray))
    };
    values.into_iter().map(one).collect()
}

/// A URL with a scheme must have a web scheme; one without may begin with a variable.
fn is_web_address(address: &str) -> bool {
    match address.split_once(':') {
        Some((scheme, _)) if scheme.chars().all(|letter| letter.is_ascii_alphanumeric()) => {
            ["http", "https", "ws", "wss"].contains(&scheme.to_ascii_lowercase().as_str())
        }
        Some(_) | None => true,
    }
}

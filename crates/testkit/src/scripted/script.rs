//! What a scripted server is and does, as a value that travels as JSON.
//! `quirk` says what it does wrong; `scripted` plays it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scripted::quirk::Quirk;

/// Versions with `initialize` and sessions, oldest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Versions in which every request stands alone.
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];

/// Which of the two protocols a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize`, sessions, questions from the server.
    #[default]
    Legacy,
    /// `server/discover`, and nothing remembered between requests.
    Modern,
    /// Whichever the client speaks.
    Both,
}

/// How a request over HTTP is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// With one JSON document.
    Json,
    /// With a stream of events.
    #[default]
    Sse,
}

/// Whether the legacy era over HTTP has sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// `initialize` opens one, and every later request has to name it.
    #[default]
    Required,
    /// There are none: each request is answered by itself, and there is no standing stream.
    None,
}

/// What a server is and does. Tools with real behaviour are always there; see `scripted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The protocol it speaks.
    pub era: Era,
    /// The versions it speaks; empty for all of its era.
    pub versions: Vec<String>,
    /// What it calls itself.
    pub name: String,
    /// What it tells the model about itself.
    pub instructions: Option<String>,
    /// How many tools `tool_0`, `tool_1`, … it has besides those that are always there.
    pub tools: usize,
    /// The names of more tools, whatever characters are in them.
    pub named_tools: Vec<String>,
    /// How many resources `scripted://resource/0`, … it has.
    pub resources: usize,
    /// How many prompts `prompt_0`, … it has.
    pub prompts: usize,
    /// How many things a page of a list holds; 0 for all.
    pub page_size: usize,
    /// How long every list takes.
    pub list_delay_ms: u64,
    /// How long it takes before it reads anything; over HTTP, before it answers the first request of a client.
    pub start_delay_ms: u64,
    /// For how long the modern era's lists may be kept.
    pub ttl_ms: u64,
    /// How requests over HTTP are answered.
    #[serde(rename = "answers")]
    pub response_format: ResponseFormat,
    /// Whether the legacy era over HTTP has sessions.
    pub sessions: SessionMode,
    /// A file to which every message that arrives is added as a line.
    pub journal: Option<PathBuf>,
    /// A file that holds the description of `echo`, read each time its tools are listed.
    pub echo_description: Option<PathBuf>,
    /// A text that is in everything it says, on standard error too. Over stdio only.
    pub taint: Option<String>,
    /// What it does wrong.
    pub quirks: Vec<Quirk>,
    /// The methods whose answers are touched by quirks of single answers; empty for all.
    pub quirks_on: Vec<String>,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            era: Era::Legacy,
            versions: Vec::new(),
            name: "scripted".to_owned(),
            instructions: None,
            tools: 0,
            named_tools: Vec::new(),
            resources: 0,
            prompts: 0,
            page_size: 0,
            list_delay_ms: 0,
            start_delay_ms: 0,
            ttl_ms: 0,
            response_format: ResponseFormat::Sse,
            sessions: SessionMode::Required,
            journal: None,
            echo_description: None,
            taint: None,
            quirks: Vec::new(),
            quirks_on: Vec::new(),
        }
    }
}

impl Script {
    /// A well-behaved server of the legacy era.
    pub fn legacy() -> Script {
        Script::default()
    }

    /// A well-behaved server of the modern era.
    pub fn modern() -> Script {
        Script { era: Era::Modern, ..Script::default() }
    }

    /// A well-behaved server of both eras.
    pub fn both() -> Script {
        Script { era: Era::Both, ..Script::default() }
    }

    /// With this name.
    pub fn name(mut self, name: &str) -> Script {
        self.name = name.to_owned();
        self
    }

    /// Speaking these versions only.
    pub fn versions(mut self, versions: &[&str]) -> Script {
        self.versions = versions.iter().map(|&it| it.to_owned()).collect();
        self
    }

    /// With this to say about itself.
    pub fn instructions(mut self, text: &str) -> Script {
        self.instructions = Some(text.to_owned());
        self
    }

    /// With this many generated tools.
    pub fn tools(mut self, count: usize) -> Script {
        self.tools = count;
        self
    }

    /// With one more tool, of this name.
    pub fn tool(mut self, name: &str) -> Script {
        self.named_tools.push(name.to_owned());
        self
    }

    /// With this many resources.
    pub fn resources(mut self, count: usize) -> Script {
        self.resources = count;
        self
    }

    /// With this many prompts.
    pub fn prompts(mut self, count: usize) -> Script {
        self.prompts = count;
        self
    }

    /// With lists in pages of this size.
    pub fn page_size(mut self, size: usize) -> Script {
        self.page_size = size;
        self
    }

    /// Answering over HTTP in this way.
    pub fn response_format(mut self, response_format: ResponseFormat) -> Script {
        self.response_format = response_format;
        self
    }

    /// Without sessions over HTTP.
    pub fn without_sessions(mut self) -> Script {
        self.sessions = SessionMode::None;
        self
    }

    /// With every message that arrives written to a file.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Script {
        self.journal = Some(path.into());
        self
    }

    /// With a description of `echo` that may change.
    pub fn echo_description(mut self, path: impl Into<PathBuf>) -> Script {
        self.echo_description = Some(path.into());
        self
    }

    /// With this text in everything it says.
    pub fn taint(mut self, taint: &str) -> Script {
        self.taint = Some(taint.to_owned());
        self
    }

    /// Misbehaving in one more way.
    pub fn quirk(mut self, quirk: Quirk) -> Script {
        self.quirks.push(quirk);
        self
    }

    /// Quirks of single answers touch the answers to this method, and to others named so.
    pub fn quirks_on(mut self, method: &str) -> Script {
        self.quirks_on.push(method.to_owned());
        self
    }

    /// The script as it is given to the program.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is plain data")
    }

    /// The versions of the legacy era that are spoken, oldest first.
    pub(crate) fn legacy_versions(&self) -> Vec<&str> {
        match self.era {
            Era::Modern => Vec::new(),
            Era::Legacy | Era::Both => self.supported(&LEGACY_VERSIONS, |it| !is_modern(it)),
        }
    }

    /// The versions of the modern era that are spoken.
    pub(crate) fn modern_versions(&self) -> Vec<&str> {
        match self.era {
            Era::Legacy => Vec::new(),
            Era::Modern | Era::Both => self.supported(&MODERN_VERSIONS, is_modern),
        }
    }

    fn supported(&self, defaults: &'static [&'static str], belongs: fn(&str) -> bool) -> Vec<&str> {
        match self.versions.is_empty() {
            true => defaults.to_vec(),
            false => self.versions.iter().map(String::as_str).filter(|it| belongs(it)).collect(),
        }
    }

    /// Does it misbehave exactly so?
    pub(crate) fn has_quirk(&self, quirk: &Quirk) -> bool {
        self.quirks.contains(quirk)
    }

    /// The first quirk of which something can be said.
    pub(crate) fn find_quirk<T>(&self, pick: impl Fn(&Quirk) -> Option<T>) -> Option<T> {
        self.quirks.iter().find_map(pick)
    }

    /// Do quirks of single answers touch answers to this method?
    pub(crate) fn quirks_apply_to(&self, method: &str) -> bool {
        self.quirks_on.is_empty() || self.quirks_on.iter().any(|it| it == method)
    }
}

/// Versions are dates, so they sort as text.
pub(crate) fn is_modern(version: &str) -> bool {
    version >= MODERN_VERSIONS[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_what_it_writes_and_fills_in_the_rest() {
        let script = Script::both()
            .name("zoo")
            .tools(3)
            .quirk(Quirk::NeverAnswers)
            .quirk(Quirk::AnswersLate { ms: 5 })
            .quirks_on("tools/call");
        assert_eq!(serde_json::from_str::<Script>(&script.to_json()).unwrap(), script);
        assert_eq!(serde_json::from_str::<Script>("{}").unwrap(), Script::default());
    }

    #[test]
    fn a_misspelt_field_is_not_passed_over() {
        assert!(serde_json::from_str::<Script>(r#"{"tool": 3}"#).is_err());
    }

    #[test]
    fn versions_belong_to_their_era() {
        assert_eq!(Script::legacy().legacy_versions(), LEGACY_VERSIONS);
        assert_eq!(Script::modern().legacy_versions(), Vec::<&str>::new());
        let some = Script::both().versions(&["2025-06-18", "2026-07-28"]);
        assert_eq!(some.legacy_versions(), ["2025-06-18"]);
        assert_eq!(some.modern_versions(), ["2026-07-28"]);
    }
}

//! The behaviour of a scripted server as a value that can be passed as JSON. `quirk` has the faults; the other
//! modules implement it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scripted::channel::ChannelScript;
use crate::scripted::quirk::Quirk;

/// Versions with `initialize` and sessions, oldest first.
pub const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Stateless versions.
pub const MODERN_VERSIONS: [&str; 1] = ["2026-07-28"];

/// The protocol eras that a server supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// `initialize`, sessions, requests from the server.
    #[default]
    Legacy,
    /// `server/discover`, no state between requests.
    Modern,
    /// Both eras.
    Both,
}

/// The format of HTTP responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// A JSON document.
    Json,
    /// An event stream.
    #[default]
    Sse,
}

/// Whether legacy HTTP uses sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// `initialize` opens a session, which later requests must name.
    #[default]
    Required,
    /// No sessions and no GET stream: each request is handled on its own.
    None,
}

/// The behaviour of a scripted server. The built-in tools are always present; see [`scripted`](crate::scripted).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The supported eras.
    pub era: Era,
    /// The supported versions; empty for all of the era.
    pub versions: Vec<String>,
    /// The server's name.
    pub name: String,
    /// The instructions for the model.
    pub instructions: Option<String>,
    /// The number of additional tools `tool_0`, `tool_1`, …
    pub tools: usize,
    /// The names of more tools, with any characters.
    pub named_tools: Vec<String>,
    /// The number of resources `scripted://resource/0`, …
    pub resources: usize,
    /// The number of prompts `prompt_0`, …
    pub prompts: usize,
    /// The number of items per page; 0 for all.
    pub page_size: usize,
    /// The delay of every list.
    pub list_delay_ms: u64,
    /// The delay before it reads anything; over HTTP, before its first response to a client.
    pub start_delay_ms: u64,
    /// The time to live of modern results.
    pub ttl_ms: u64,
    /// The format of HTTP responses.
    #[serde(rename = "answers")]
    pub response_format: ResponseFormat,
    /// Whether legacy HTTP uses sessions.
    pub sessions: SessionMode,
    /// A file to which every received message is appended as a line.
    pub journal: Option<PathBuf>,
    /// A file with the description of `echo`, read with each list.
    pub echo_description: Option<PathBuf>,
    /// What makes it a channel.
    pub channel: Option<ChannelScript>,
    /// A text inserted into all output, including stderr. Stdio only.
    pub taint: Option<String>,
    /// The faults.
    pub quirks: Vec<Quirk>,
    /// The methods that response quirks apply to; empty for all.
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
            channel: None,
            taint: None,
            quirks: Vec::new(),
            quirks_on: Vec::new(),
        }
    }
}

impl Script {
    /// A compliant server of the legacy era.
    pub fn legacy() -> Script {
        Script::default()
    }

    /// A compliant server of the modern era.
    pub fn modern() -> Script {
        Script { era: Era::Modern, ..Script::default() }
    }

    /// A compliant server of both eras.
    pub fn both() -> Script {
        Script { era: Era::Both, ..Script::default() }
    }

    /// Sets the name.
    pub fn name(mut self, name: &str) -> Script {
        self.name = name.to_owned();
        self
    }

    /// Limits the versions.
    pub fn versions(mut self, versions: &[&str]) -> Script {
        self.versions = versions.iter().map(|&it| it.to_owned()).collect();
        self
    }

    /// Sets the instructions.
    pub fn instructions(mut self, text: &str) -> Script {
        self.instructions = Some(text.to_owned());
        self
    }

    /// Sets the number of generated tools.
    pub fn tools(mut self, count: usize) -> Script {
        self.tools = count;
        self
    }

    /// Adds a tool with this name.
    pub fn tool(mut self, name: &str) -> Script {
        self.named_tools.push(name.to_owned());
        self
    }

    /// Sets the number of resources.
    pub fn resources(mut self, count: usize) -> Script {
        self.resources = count;
        self
    }

    /// Sets the number of prompts.
    pub fn prompts(mut self, count: usize) -> Script {
        self.prompts = count;
        self
    }

    /// Sets the page size of lists.
    pub fn page_size(mut self, size: usize) -> Script {
        self.page_size = size;
        self
    }

    /// Sets the format of HTTP responses.
    pub fn response_format(mut self, response_format: ResponseFormat) -> Script {
        self.response_format = response_format;
        self
    }

    /// Disables sessions over HTTP.
    pub fn without_sessions(mut self) -> Script {
        self.sessions = SessionMode::None;
        self
    }

    /// Writes every received message to a file.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Script {
        self.journal = Some(path.into());
        self
    }

    /// Reads the description of `echo` from a file.
    pub fn echo_description(mut self, path: impl Into<PathBuf>) -> Script {
        self.echo_description = Some(path.into());
        self
    }

    /// Makes it a channel.
    pub fn channel(mut self, channel: ChannelScript) -> Script {
        self.channel = Some(channel);
        self
    }

    /// Inserts this text into all output.
    pub fn taint(mut self, taint: &str) -> Script {
        self.taint = Some(taint.to_owned());
        self
    }

    /// Adds a quirk.
    pub fn quirk(mut self, quirk: Quirk) -> Script {
        self.quirks.push(quirk);
        self
    }

    /// Limits response quirks to this method and others added the same way.
    pub fn quirks_on(mut self, method: &str) -> Script {
        self.quirks_on.push(method.to_owned());
        self
    }

    /// The script as the program's argument.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is plain data")
    }

    /// The supported legacy versions, oldest first.
    pub(crate) fn legacy_versions(&self) -> Vec<&str> {
        match self.era {
            Era::Modern => Vec::new(),
            Era::Legacy | Era::Both => self.supported(&LEGACY_VERSIONS, |it| !is_modern(it)),
        }
    }

    /// The supported modern versions.
    pub(crate) fn modern_versions(&self) -> Vec<&str> {
        match self.era {
            Era::Legacy => Vec::new(),
            Era::Modern | Era::Both => self.supported(&MODERN_VERSIONS, is_modern),
        }
    }

    fn supported(
        &self,
        defaults: &'static [&'static str],
        is_in_era: fn(&str) -> bool,
    ) -> Vec<&str> {
        match self.versions.is_empty() {
            true => defaults.to_vec(),
            false => self.versions.iter().map(String::as_str).filter(|it| is_in_era(it)).collect(),
        }
    }

    /// Whether the script has exactly this quirk.
    pub(crate) fn has_quirk(&self, quirk: &Quirk) -> bool {
        self.quirks.contains(quirk)
    }

    /// The first quirk for which `pick` returns a value.
    pub(crate) fn find_quirk<T>(&self, pick: impl Fn(&Quirk) -> Option<T>) -> Option<T> {
        self.quirks.iter().find_map(pick)
    }

    /// Whether response quirks apply to this method.
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
    fn a_script_round_trips_and_has_defaults() {
        let script = Script::both()
            .name("quirky")
            .tools(3)
            .quirk(Quirk::NeverAnswers)
            .quirk(Quirk::AnswersLate { ms: 5 })
            .quirks_on("tools/call");
        assert_eq!(serde_json::from_str::<Script>(&script.to_json()).unwrap(), script);
        assert_eq!(serde_json::from_str::<Script>("{}").unwrap(), Script::default());
    }

    #[test]
    fn an_unknown_field_is_rejected() {
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

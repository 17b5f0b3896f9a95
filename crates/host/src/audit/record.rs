//! The record of one call, and the digest that stands for its arguments.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use switchboard_config::entry::server::sha256;

use crate::storage::stderr_log::utc_timestamp;

/// The outcome in the record of a call's start. It stays where the program ended before the call did.
pub const STARTED: &str = "started";

/// The record of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditRecord {
    /// The start time in UTC.
    pub time: String,
    /// The caller: `cli`, or a client's name.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// The name that the caller used.
    pub exposed: String,
    /// The SHA-256 digest of the arguments, independent of key order and spacing.
    pub arguments: String,
    /// `allow` or `deny`.
    pub decision: String,
    /// The rules' verdict before the user is asked: `allow`, `ask` or `deny`. Empty if the call failed earlier, and
    /// in records of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// The reason of the decision: a rule, the user or a mode.
    pub because: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The id of a [`CallOutcome`], or [`STARTED`].
    pub outcome: String,
    /// Joins the two records of a call whose start is recorded before it runs. Otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The origin of a client's call. Empty in records of older versions.
    #[serde(flatten)]
    pub origin: RequestOrigin,
}

/// The origin of a client's call. Unknown parts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// A value derived from the session id. The id itself is a credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The client's request id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The trace id in hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
    /// The id of the request's span in that trace, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub span: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool returned a result.
    Succeeded,
    /// The tool ran and reported an error.
    ToolError,
    /// The call was not permitted.
    Denied,
    /// The tool does not exist or the arguments are invalid.
    Invalid,
    /// The request to the server failed.
    Failed,
    /// The server did not respond in time.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
}

impl CallOutcome {
    /// All outcomes, in the order of declaration.
    pub const ALL: [CallOutcome; 7] = [
        CallOutcome::Succeeded,
        CallOutcome::ToolError,
        CallOutcome::Denied,
        CallOutcome::Invalid,
        CallOutcome::Failed,
        CallOutcome::Timeout,
        CallOutcome::Cancelled,
    ];

    /// The identifier in records.
    pub fn id(self) -> &'static str {
        match self {
            CallOutcome::Succeeded => "ok",
            CallOutcome::ToolError => "tool-error",
            CallOutcome::Denied => "denied",
            CallOutcome::Invalid => "invalid",
            CallOutcome::Failed => "failed",
            CallOutcome::Timeout => "timeout",
            CallOutcome::Cancelled => "cancelled",
        }
    }
}

impl AuditRecord {
    /// A record of a call that starts now.
    pub fn begin(caller: &str, exposed: &str) -> AuditRecord {
        AuditRecord {
            time: utc_timestamp(SystemTime::now()),
            caller: caller.to_owned(),
            server: String::new(),
            tool: String::new(),
            exposed: exposed.to_owned(),
            arguments: String::new(),
            decision: "deny".to_owned(),
            verdict: String::new(),
            because: String::new(),
            duration_ms: 0,
            outcome: CallOutcome::Cancelled.id().to_owned(),
            id: String::new(),
            origin: RequestOrigin::default(),
        }
    }

    /// The record of the call's start, which is written before the call runs. Gives the call its id.
    pub(crate) fn start(&mut self) -> AuditRecord {
        self.id = format!("{:016x}", RandomState::new().hash_one(&self.arguments));
        AuditRecord { outcome: STARTED.to_owned(), ..self.clone() }
    }

    /// Sets the duration.
    pub fn with_duration(mut self, duration: Duration) -> AuditRecord {
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

/// A record as a JSON line. Serialization of a record cannot fail.
pub(super) fn to_json_line(record: &AuditRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A digest of arguments, independent of key order and spacing.
pub fn digest(arguments: &Json) -> String {
    let mut text = Vec::with_capacity(128);
    canonical(arguments, &mut text);
    let mut digest = String::with_capacity(80);
    digest.push_str("sha256:");
    digest.push_str(&sha256(&text));
    digest
}

/// Writes JSON with sorted keys and without whitespace.
fn canonical(value: &Json, text: &mut Vec<u8>) {
    match value {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push(b'{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_json(name, text);
                text.push(b':');
                canonical(value, text);
            }
            text.push(b'}');
        }
        Json::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                canonical(item, text);
            }
            text.push(b']');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => write_json(value, text),
    }
}

fn write_json(value: &(impl Serialize + ?Sized), text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("a name or a value can be written to memory");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(tool: &str) -> AuditRecord {
        AuditRecord { tool: tool.to_owned(), ..AuditRecord::begin("cli", "mcp__s__t") }
    }

    #[test]
    fn a_digest_does_not_depend_on_key_order_or_spacing() {
        let one: Json =
            serde_json::from_str(r#"{"b": [1, {"y": 2, "x": "é"}], "a": null}"#).expect("JSON");
        let other = json!({"a": null, "b": [1, {"x": "é", "y": 2}]});
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": null, "b": [{"x": "é", "y": 2}, 1]})));
    }

    #[test]
    fn a_record_contains_only_known_parts_of_its_origin() {
        let plain = serde_json::to_string(&record("a")).expect("JSON");
        assert!(!plain.contains("session") && !plain.contains("trace"), "{plain}");
        let mut known = record("a");
        known.origin.request = "7".to_owned();
        let text = serde_json::to_string(&known).expect("JSON");
        assert!(text.contains(r#""request":"7""#), "{text}");
        assert_eq!(serde_json::from_str::<AuditRecord>(&text).expect("a record"), known);
        assert_eq!(serde_json::from_str::<AuditRecord>(&plain).expect("a record"), record("a"));
    }
}

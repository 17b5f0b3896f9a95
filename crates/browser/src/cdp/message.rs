//! The envelope of a message. Parameters and results stay raw.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

/// A session with one target; the browser itself has none.
pub(crate) type SessionId = std::sync::Arc<str>;

/// A message of the browser.
#[derive(Debug, Deserialize)]
pub(crate) struct BrowserMessage<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<ProtocolError>,
    #[serde(borrow)]
    pub(crate) method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(rename = "sessionId", borrow)]
    pub(crate) session: Option<std::borrow::Cow<'a, str>>,
}

/// The browser's refusal of a command.
#[derive(Debug, Clone, Error, Deserialize)]
#[error("{message}")]
pub(crate) struct ProtocolError {
    pub(crate) message: String,
}

/// A command to send.
#[derive(Debug, Serialize)]
pub(crate) struct Command<'a, P> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    pub(crate) params: P,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
}

/// An event, on its way to the sink.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) params: &'a str,
}

impl Event<'_> {
    /// The parameters; `None` where they are not what this program expects.
    pub(crate) fn decode<'e, T: Deserialize<'e>>(&'e self) -> Option<T> {
        serde_json::from_str(self.params).ok()
    }
}

//! Classifies failed calls by their error message. Pure: reads the message as a client would.

use std::fmt;

/// The cause that an error message states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCause {
    /// The connection broke during the call, which may have been executed.
    BrokenOff,
    /// The server was not connected, and the message says why.
    NotConnected,
    /// The server did not respond within the timeout.
    TooSlow,
    /// The server is connected, and its tools are not listed yet.
    ToolsUnknown,
    /// The tool does not exist, or no longer exists.
    NoSuchTool,
    /// Another cause, or a message that states none.
    Unclear,
}

/// Phrases that identify a cause.
const PHRASES: [(&str, FailureCause); 6] = [
    ("was lost before the response", FailureCause::BrokenOff),
    ("is not connected: ", FailureCause::NotConnected),
    ("did not answer within", FailureCause::TooSlow),
    ("has not listed its tools yet", FailureCause::ToolsUnknown),
    ("there is no tool", FailureCause::NoSuchTool),
    ("there is no server", FailureCause::NoSuchTool),
];

/// The cause that a message states.
pub fn classify(message: &str) -> FailureCause {
    let known = PHRASES.iter().find(|(words, _)| message.contains(words));
    known.map_or(FailureCause::Unclear, |(_, cause)| *cause)
}

/// The information that a message lacks: which server failed, or why.
pub fn missing_detail(message: &str, server: &str) -> Option<&'static str> {
    match (message.trim().is_empty(), message.contains(server), classify(message)) {
        (true, _, _) => Some("says nothing"),
        (false, false, _) => Some("does not name the server"),
        (false, true, FailureCause::Unclear) => Some("does not say why"),
        (false, true, _) => None,
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            FailureCause::BrokenOff => "the connection broke under the call",
            FailureCause::NotConnected => "not connected, with the reason",
            FailureCause::TooSlow => "no answer in time",
            FailureCause::ToolsUnknown => "tools not known yet",
            FailureCause::NoSuchTool => "no such tool",
            FailureCause::Unclear => "unclear",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_server_and_its_reason() {
        let check = |message: &str, lack: Option<&str>| {
            assert_eq!(missing_detail(message, "alpha"), lack, "{message}")
        };
        check("`alpha` did not answer within 2 s", None);
        check("`alpha` is not connected: the program ended", None);
        check("", Some("says nothing"));
        check(" \n", Some("says nothing"));
        check("`beta` did not answer within 2 s", Some("does not name the server"));
        check("`alpha` is not connected", Some("does not say why"));
        check("alpha: internal error", Some("does not say why"));
    }
}

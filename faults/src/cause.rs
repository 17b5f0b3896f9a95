//! Why calls failed, by what they were told. Pure: reads sentences, as whoever called would.

use std::fmt;

/// What a failed call was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The connection broke under the call, which may have been carried out.
    BrokenOff,
    /// There was no connection, and why.
    NotConnected,
    /// The server took too long.
    TooSlow,
    /// The server is there, and its tools are not known yet.
    ToolsUnknown,
    /// There is no such tool, or no longer.
    NoSuchTool,
    /// Something else, or nothing that can be understood.
    Unclear,
}

/// Sentences by which a cause is known.
const KNOWN: [(&str, Cause); 6] = [
    ("broke before the answer came", Cause::BrokenOff),
    ("is not connected: ", Cause::NotConnected),
    ("did not answer within", Cause::TooSlow),
    ("has not said yet which tools", Cause::ToolsUnknown),
    ("there is no tool", Cause::NoSuchTool),
    ("there is no server", Cause::NoSuchTool),
];

/// What this sentence says.
pub fn of(told: &str) -> Cause {
    let known = KNOWN.iter().find(|(words, _)| told.contains(words));
    known.map_or(Cause::Unclear, |(_, cause)| *cause)
}

/// What is missing before somebody who reads this knows which server failed and why.
pub fn lacks(told: &str, server: &str) -> Option<&'static str> {
    match (told.trim().is_empty(), told.contains(server), of(told)) {
        (true, _, _) => Some("says nothing"),
        (false, false, _) => Some("does not name the server"),
        (false, true, Cause::Unclear) => Some("does not say why"),
        (false, true, _) => None,
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Cause::BrokenOff => "the connection broke under the call",
            Cause::NotConnected => "not connected, with the reason",
            Cause::TooSlow => "no answer in time",
            Cause::ToolsUnknown => "tools not known yet",
            Cause::NoSuchTool => "no such tool",
            Cause::Unclear => "unclear",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_server_and_its_reason() {
        let check =
            |told: &str, lack: Option<&str>| assert_eq!(lacks(told, "alpha"), lack, "{told}");
        check("`alpha` did not answer within 2 s", None);
        check("`alpha` is not connected: the program ended", None);
        check("", Some("says nothing"));
        check(" \n", Some("says nothing"));
        check("`beta` did not answer within 2 s", Some("does not name the server"));
        check("`alpha` is not connected", Some("does not say why"));
        check("alpha: internal error", Some("does not say why"));
    }
}

//! A tool call as the rules see it: the tool, its arguments and the server's hints about it.

use serde_json::Value as Json;

/// One call that wants to be made.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// The server's name as tool names hold it: every character that they cannot hold is `_`.
    pub server: &'a str,
    /// The tool's name, likewise.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Json,
    /// What the server says of the tool.
    pub hints: ToolHints,
    /// Are the server's tools approved beforehand?
    pub trust: Trust,
}

/// What a server says of a tool. Nobody checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: HintValue,
    /// It may destroy something. Means nothing for a tool that changes nothing.
    pub destructive: HintValue,
    /// It reaches things outside, such as the web.
    pub open_world: HintValue,
}

/// What a server claims, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintValue {
    /// It says yes.
    Yes,
    /// It says no.
    No,
    /// It says nothing, which is never taken for the harmless answer.
    #[default]
    Unspecified,
}

impl ToolHints {
    /// Is it an edit at most, that destroys nothing and stays inside?
    pub(super) fn is_safe_edit(self) -> bool {
        let is_non_destructive =
            self.read_only == HintValue::Yes || self.destructive == HintValue::No;
        is_non_destructive && self.open_world == HintValue::No
    }
}

/// Whether a server's tools are approved beforehand (`trust: true`, from a scope where that counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// They are.
    Trusted,
    /// They are not.
    #[default]
    Untrusted,
}

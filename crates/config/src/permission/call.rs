//! A tool call as the rules see it: the tool, its arguments and the server's hints about it.

use serde_json::Value as Json;

use super::seen_tools::SeenTools;

/// A call that needs a decision.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// The server's name as it is in tool names, where `_` replaces every other character.
    pub server: &'a str,
    /// The tool's name, in the same form.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Json,
    /// The server's hints about the tool.
    pub hints: ToolHints,
    /// Is the server trusted?
    pub trust: Trust,
    /// The tools whose results the session has seen.
    pub seen: &'a SeenTools,
}

/// The hints of a server about a tool. They are not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolHints {
    /// `readOnlyHint`: the tool changes nothing.
    pub read_only: HintValue,
    /// `destructiveHint`: the tool may destroy something. It has no meaning for a read-only tool.
    pub destructive: HintValue,
    /// `openWorldHint`: the tool accesses external systems, such as the web.
    pub open_world: HintValue,
}

/// The value of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintValue {
    /// The hint is `true`.
    Yes,
    /// The hint is `false`.
    No,
    /// The hint is absent, which is never taken for the harmless value.
    #[default]
    Unspecified,
}

impl ToolHints {
    /// Is the tool read-only or a non-destructive edit, without access to external systems?
    pub(super) fn is_safe_edit(self) -> bool {
        let is_non_destructive =
            self.read_only == HintValue::Yes || self.destructive == HintValue::No;
        is_non_destructive && self.open_world == HintValue::No
    }
}

/// Whether a server is trusted (`trust: true`, from a scope where that counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Its tools run without a prompt.
    Trusted,
    /// It is a part of this program and keeps to the folders that it was given: its read-only tools run without a prompt,
    /// and in the mode `acceptEdits` those that change files.
    BuiltIn,
    /// Its tools need a permission.
    #[default]
    Untrusted,
}

impl Trust {
    /// Does the mode `acceptEdits` allow a call with these hints? Those of a part of this program are reliable, and its
    /// edits stay in the folders that it was given.
    pub(super) fn accepts_edit(self, hints: ToolHints) -> bool {
        let is_local = hints.open_world == HintValue::No;
        hints.is_safe_edit() || (self == Trust::BuiltIn && is_local)
    }
}

//! The permission mode: how much is allowed without a prompt.

use std::fmt;

/// The permission mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PermissionMode {
    /// Only read-only tools are allowed.
    Plan,
    /// Calls that would need a prompt are denied.
    DontAsk,
    /// Calls that no rule allows need a prompt.
    #[default]
    Default,
    /// Non-destructive edits without access to external systems need no prompt.
    AcceptEdits,
    /// No call needs a prompt, unless an administrator requires one.
    Bypass,
}

impl PermissionMode {
    /// Every mode, from the strictest to the weakest.
    pub const ALL: [PermissionMode; 5] = [
        PermissionMode::Plan,
        PermissionMode::DontAsk,
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
        PermissionMode::Bypass,
    ];

    /// The name in settings and flags.
    pub fn id(self) -> &'static str {
        match self {
            PermissionMode::Plan => "plan",
            PermissionMode::DontAsk => "dontAsk",
            PermissionMode::Default => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Bypass => "bypass",
        }
    }

    /// Parses the name of a mode.
    pub fn parse(text: &str) -> Option<PermissionMode> {
        PermissionMode::ALL.into_iter().find(|mode| mode.id() == text)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

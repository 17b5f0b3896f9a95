//! The permission mode: how much is allowed without a prompt.

use std::fmt;

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PermissionMode {
    /// Only tools that change nothing.
    Plan,
    /// What would ask is refused.
    DontAsk,
    /// What no rule allows asks.
    #[default]
    Default,
    /// Edits that destroy nothing and stay inside do not ask.
    AcceptEdits,
    /// Nothing asks, unless an administrator wants it asked.
    Bypass,
}

impl PermissionMode {
    /// Every mode, the strictest first.
    pub const ALL: [PermissionMode; 5] = [
        PermissionMode::Plan,
        PermissionMode::DontAsk,
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
        PermissionMode::Bypass,
    ];

    /// The word used in settings and flags.
    pub fn id(self) -> &'static str {
        match self {
            PermissionMode::Plan => "plan",
            PermissionMode::DontAsk => "dontAsk",
            PermissionMode::Default => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Bypass => "bypass",
        }
    }

    /// Reads a mode's word.
    pub fn parse(text: &str) -> Option<PermissionMode> {
        PermissionMode::ALL.into_iter().find(|mode| mode.id() == text)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

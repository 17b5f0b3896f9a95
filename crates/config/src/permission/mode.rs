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

    /// The name in the protocol of agent SDKs.
    pub fn sdk_id(self) -> &'static str {
        match self {
            PermissionMode::Bypass => "bypassPermissions",
            PermissionMode::Plan
            | PermissionMode::DontAsk
            | PermissionMode::Default
            | PermissionMode::AcceptEdits => self.id(),
        }
    }

    /// Parses the name of a mode, ours or that of agent SDKs. Their `auto`, in which a model decides, is the default mode
    /// here: where that model would decide, a user is asked.
    pub fn parse(text: &str) -> Option<PermissionMode> {
        match text {
            "auto" => Some(PermissionMode::Default),
            _ => PermissionMode::ALL
                .into_iter()
                .find(|mode| mode.id() == text || mode.sdk_id() == text),
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_agent_sdks_are_modes_too() {
        for mode in PermissionMode::ALL {
            assert_eq!(PermissionMode::parse(mode.id()), Some(mode));
            assert_eq!(PermissionMode::parse(mode.sdk_id()), Some(mode));
        }
        assert_eq!(PermissionMode::parse("bypassPermissions"), Some(PermissionMode::Bypass));
        assert_eq!(PermissionMode::parse("auto"), Some(PermissionMode::Default));
        assert_eq!(PermissionMode::parse("Default"), None);
    }
}

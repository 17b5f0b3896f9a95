//! What a rule or a decision does with a call: allow, ask or deny.

use std::fmt;

use crate::pattern::MatchMode;

/// What a list of rules, and in the end a decision, says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PermissionEffect {
    /// It may be made.
    Allow,
    /// Somebody must say yes first.
    Ask,
    /// It may not be made.
    Deny,
}

impl PermissionEffect {
    /// The list's key in settings.
    pub fn id(self) -> &'static str {
        match self {
            PermissionEffect::Allow => "allow",
            PermissionEffect::Ask => "ask",
            PermissionEffect::Deny => "deny",
        }
    }

    /// How a list of this effect is read: a doubt never lets a call through.
    pub(super) fn match_mode(self) -> MatchMode {
        match self {
            PermissionEffect::Allow => MatchMode::Strict,
            PermissionEffect::Ask | PermissionEffect::Deny => MatchMode::Broad,
        }
    }
}

impl fmt::Display for PermissionEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

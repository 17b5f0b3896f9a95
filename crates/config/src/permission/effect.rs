//! The effect of a rule or a decision on a call: allow, ask or deny.

use std::fmt;

use crate::pattern::MatchMode;

/// The effect of a rule or of a decision, from the weakest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PermissionEffect {
    /// The call is made.
    Allow,
    /// The user is asked first.
    Ask,
    /// The call is not made.
    Deny,
}

impl PermissionEffect {
    /// The key of the list in settings.
    pub fn id(self) -> &'static str {
        match self {
            PermissionEffect::Allow => "allow",
            PermissionEffect::Ask => "ask",
            PermissionEffect::Deny => "deny",
        }
    }

    /// How rules of this effect are matched: in doubt, the call is not allowed.
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

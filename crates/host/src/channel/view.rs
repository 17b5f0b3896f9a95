//! A server as a channel, for readers.

use std::fmt;

use switchboard_config::channel::ChannelRefusal;

use super::counts::ChannelCounts;
use super::declaration::ChannelDeclaration;

/// A server as a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelView {
    /// What it declares; `None` where it sends messages without being a channel.
    pub declaration: Option<ChannelDeclaration>,
    /// Whether it is a channel of this session.
    pub state: ChannelState,
    /// What became of its messages in this session.
    pub counts: ChannelCounts,
}

/// Whether a server is a channel of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelState {
    /// It is.
    Registered,
    /// It does not declare to be a channel.
    Undeclared,
    /// It is not, for this reason.
    Refused(ChannelRefusal),
}

impl ChannelState {
    /// The identifier in JSON and files.
    pub fn id(&self) -> &'static str {
        match self {
            ChannelState::Registered => "registered",
            ChannelState::Undeclared => "not-declared",
            ChannelState::Refused(refusal) => refusal.id(),
        }
    }
}

/// `registered, answers permission requests; 3 delivered, 0 dropped`
impl fmt::Display for ChannelView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            ChannelState::Registered => f.write_str("registered")?,
            ChannelState::Undeclared => f.write_str("not declared")?,
            ChannelState::Refused(refusal) => write!(f, "not registered: {refusal}")?,
        }
        if self.declaration == Some(ChannelDeclaration::MessagesAndPermissions) {
            f.write_str(", answers permission requests")?;
        }
        write!(f, "; {}", self.counts)
    }
}

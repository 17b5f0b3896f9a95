//! What became of the messages of a channel: how many were delivered, and how many were dropped for which reason.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use switchboard_config::channel::ChannelRefusal;

/// Why a message of a channel was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelDrop {
    /// The server does not declare to be a channel.
    NotDeclared,
    /// The server is no channel of this session.
    Refused(ChannelRefusal),
    /// The parameters are not those of a message or an answer.
    WrongShape,
    /// The content is larger than a message may be.
    TooLarge,
    /// The conversation ended before it accepted the message, or a hook refused it.
    NotAccepted,
    /// Too many messages wait.
    QueueFull,
    /// The messages came faster than they could be read.
    TooFast,
    /// An answer of a channel, while permission requests are not relayed.
    RelayOff,
    /// An answer of a channel that does not declare to relay permission requests.
    RelayNotDeclared,
    /// An answer to no open request of this channel: late, repeated, or of another one.
    UnknownRequest,
}

impl ChannelDrop {
    /// The identifier in JSON and files.
    pub fn id(&self) -> &'static str {
        match self {
            ChannelDrop::NotDeclared => "not-declared",
            ChannelDrop::Refused(refusal) => refusal.id(),
            ChannelDrop::WrongShape => "wrong-shape",
            ChannelDrop::TooLarge => "too-large",
            ChannelDrop::NotAccepted => "not-accepted",
            ChannelDrop::QueueFull => "queue-full",
            ChannelDrop::TooFast => "too-fast",
            ChannelDrop::RelayOff => "relay-off",
            ChannelDrop::RelayNotDeclared => "relay-not-declared",
            ChannelDrop::UnknownRequest => "unknown-request",
        }
    }
}

impl fmt::Display for ChannelDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChannelDrop::NotDeclared => "the server does not declare `claude/channel`",
            ChannelDrop::Refused(refusal) => return refusal.fmt(f),
            ChannelDrop::WrongShape => "its parameters do not have the expected form",
            ChannelDrop::TooLarge => "its content is larger than 64 KB",
            ChannelDrop::NotAccepted => {
                "the conversation ended before its turn, or a hook refused it"
            }
            ChannelDrop::QueueFull => "too many messages wait for the conversation",
            ChannelDrop::TooFast => "the server sends faster than it can be read",
            ChannelDrop::RelayOff => "permission requests are not relayed to channels",
            ChannelDrop::RelayNotDeclared => {
                "the server does not declare `claude/channel/permission`"
            }
            ChannelDrop::UnknownRequest => "it answers no open permission request of this channel",
        })
    }
}

/// What became of the messages of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChannelCounts {
    /// Messages that were passed on to the conversation, and not dropped there.
    pub delivered: u64,
    /// Answers that decided a permission request.
    pub answers: u64,
    /// Messages and answers that were dropped, by the id of the reason.
    pub dropped: BTreeMap<String, u64>,
}

impl ChannelCounts {
    /// Was anything received?
    pub fn is_empty(&self) -> bool {
        self.delivered == 0 && self.answers == 0 && self.dropped.is_empty()
    }

    /// How many messages and answers were dropped.
    pub fn total_dropped(&self) -> u64 {
        self.dropped.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The same, with these messages as dropped and not as delivered.
    pub(super) fn without_unaccepted(mut self, count: u64) -> ChannelCounts {
        if count > 0 {
            self.delivered = self.delivered.saturating_sub(count);
            self.count_dropped(&ChannelDrop::NotAccepted, count);
        }
        self
    }

    /// Counts dropped messages. Returns how many were dropped for this reason before.
    pub(super) fn count_dropped(&mut self, reason: &ChannelDrop, count: u64) -> u64 {
        let total = self.dropped.entry(reason.id().to_owned()).or_default();
        let before = *total;
        *total = total.saturating_add(count);
        before
    }
}

/// `3 delivered, 2 dropped (too large 1, queue full 1)`.
impl fmt::Display for ChannelCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} delivered", self.delivered)?;
        if self.answers > 0 {
            write!(f, ", {} answered", self.answers)?;
        }
        write!(f, ", {} dropped", self.total_dropped())?;
        for (index, (reason, count)) in self.dropped.iter().enumerate() {
            let separator = if index == 0 { " (" } else { ", " };
            write!(f, "{separator}{} {count}", reason.replace('-', " "))?;
        }
        if !self.dropped.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_name_every_reason() {
        let mut counts = ChannelCounts::default();
        assert!(counts.is_empty());
        assert_eq!(counts.to_string(), "0 delivered, 0 dropped");
        counts.delivered = 3;
        assert_eq!(counts.count_dropped(&ChannelDrop::TooLarge, 1), 0);
        assert_eq!(counts.count_dropped(&ChannelDrop::TooLarge, 2), 1);
        counts.count_dropped(&ChannelDrop::Refused(ChannelRefusal::NotSelected), 1);
        assert_eq!(counts.to_string(), "3 delivered, 4 dropped (not selected 1, too large 3)");
        let stored = serde_json::to_string(&counts).expect("JSON");
        assert_eq!(serde_json::from_str::<ChannelCounts>(&stored).expect("counts"), counts);
    }
}

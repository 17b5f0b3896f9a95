//! What the user is told about the channels of a session, once each: which servers send messages into it, and which would but
//! may not.

use std::collections::BTreeSet;

use switchboard::Snapshot;
use switchboard::channel::{ChannelRefusal, ChannelState, ChannelView};
use switchboard::config::display::printable;

/// Remembers what was said.
#[derive(Debug, Default)]
pub struct ChannelNotices {
    told: BTreeSet<(String, &'static str)>,
}

impl ChannelNotices {
    /// The new lines about the servers, without a prefix. Safe for a terminal.
    pub fn new_lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, view) in &snapshot.servers {
            let Some(channel) = &view.channel else { continue };
            let Some(line) = line(&printable(name), channel) else { continue };
            if self.told.insert((name.clone(), channel.state.id())) {
                lines.push(line);
            }
        }
        lines
    }
}

fn line(name: &str, channel: &ChannelView) -> Option<String> {
    let refusal = match &channel.state {
        ChannelState::Registered => {
            return Some(format!("`{name}` may send messages into this conversation"));
        }
        ChannelState::Undeclared => {
            return Some(format!("`{name}` is no channel: it does not declare `claude/channel`"));
        }
        ChannelState::Refused(refusal) => refusal,
    };
    match refusal {
        // A server that the user did not select is worth a line only when it sends something.
        ChannelRefusal::NotSelected | ChannelRefusal::NoSession if channel.counts.is_empty() => {
            None
        }
        ChannelRefusal::NotSelected
        | ChannelRefusal::NoSession
        | ChannelRefusal::Disabled
        | ChannelRefusal::NotListed(_)
        | ChannelRefusal::NotAPlugin
        | ChannelRefusal::DevelopmentForbidden
        | ChannelRefusal::NotConfirmed
        | ChannelRefusal::ModernProtocol
        | ChannelRefusal::Transport(_) => {
            let refusal = printable(&refusal.to_string());
            Some(format!("messages of `{name}` are dropped, its tools work: {refusal}"))
        }
    }
}

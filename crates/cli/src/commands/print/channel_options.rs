//! The options that say which servers send messages into a conversation.

use std::sync::Arc;

use clap::Args;
use switchboard::channel::{ChannelRelay, ChannelSelector};

use crate::invocation::session_flags::ChannelFlags;

/// Options about channels.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct ChannelArgs {
    /// Let these servers send messages into the conversation, where an administrator allows it: plugin:NAME@MARKETPLACE
    #[arg(long, value_name = "CHANNEL", num_args = 1.., value_parser = parse_selector, help_heading = "Conversation")]
    pub channels: Vec<ChannelSelector>,
    /// The same for servers that you develop, after you confirm it: server:NAME or plugin:NAME@MARKETPLACE
    #[arg(long, value_name = "CHANNEL", num_args = 1.., value_parser = parse_selector, hide_short_help = true, help_heading = "Conversation")]
    pub dangerously_load_development_channels: Vec<ChannelSelector>,
    /// Send pending permission requests to the channels too; the first answer counts
    #[arg(long, hide_short_help = true, help_heading = "Conversation")]
    pub channel_permission_relay: bool,
}

fn parse_selector(text: &str) -> Result<ChannelSelector, String> {
    ChannelSelector::parse(text).map_err(|error| error.to_string())
}

impl ChannelArgs {
    /// Is any of these options set?
    pub fn is_any_set(&self) -> bool {
        *self != ChannelArgs::default()
    }

    /// What the options say.
    pub fn flags(&self) -> ChannelFlags {
        ChannelFlags {
            selected: self.channels.clone(),
            development: self.dangerously_load_development_channels.clone(),
            relay: match self.channel_permission_relay {
                true => ChannelRelay::On,
                false => ChannelRelay::Off,
            },
            confirmation: Arc::default(),
        }
    }
}

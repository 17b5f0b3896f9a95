//! Channels: servers of plugins that send messages into a conversation. Which servers may do so is decided here; receiving
//! and delivering messages is left to the host and the conversation.

mod access;
mod selector;

pub use access::{
    ChannelAccess, ChannelPolicy, ChannelRefusal, ChannelRelay, DevelopmentChannels, ServerIdentity,
};
pub use selector::{ChannelSelector, SelectorError};

//! Channels: servers that send messages into a conversation, and that permission requests are relayed to. Which servers may is
//! decided by `config::channel`; what a conversation does with a message is left to its front end.

mod counts;
mod declaration;
mod hub;
mod inbox;
mod intake;
mod message;
mod record;
mod relay;
mod view;

pub use counts::{ChannelCounts, ChannelDrop};
pub use declaration::ChannelDeclaration;
pub use inbox::{ChannelInbox, ChannelMessage, ChannelReceipt};
pub use message::RelayVerdict;
pub use record::ChannelRecord;
pub use relay::{PermissionQuestion, RelayAnswer, RelayedRequest};
pub use switchboard_config::channel::{
    ChannelAccess, ChannelPolicy, ChannelRefusal, ChannelRelay, ChannelSelector,
    DevelopmentChannels, SelectorError, ServerIdentity,
};
pub use view::{ChannelState, ChannelView};

pub(crate) use hub::ChannelHub;
pub(crate) use intake::{ChannelIntake, IntakeChange, IntakeContext, is_channel_method};
pub(crate) use record::CHANNEL_RECORD_TTL;

//! What a conversation does with channels: their messages become turns of the user, clearly marked as what they are, and
//! pending permission requests are sent to them. Which servers are channels is decided by the host.

mod envelope;
mod input_preview;
mod notices;
mod relay_prompt;
mod turn_messages;

pub use envelope::{ReceivedChannelMessage, is_channel_text};
pub use input_preview::input_preview;
pub use notices::ChannelNotices;
pub use relay_prompt::{LocalPrompt, RelayPrompt};
pub use turn_messages::PendingChannelMessage;
pub(crate) use turn_messages::take_for_turn;

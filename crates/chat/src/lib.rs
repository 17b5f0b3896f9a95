//! A conversation between a user, a model and the pool's tools: the agent loop, the model clients and the transcripts.
//! No terminal: a UI sends messages through a [`Conversation`](conversation::handle::Conversation) and receives
//! [`ConversationEvent`](conversation::event::ConversationEvent)s.

pub mod conversation;
pub mod message;
pub mod model;
pub mod system_prompt;
pub mod transcript;

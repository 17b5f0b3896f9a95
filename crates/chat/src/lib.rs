//! A conversation between a person, a model and the pool's tools: the loop, the model clients and the transcript.
//! Knows no terminal: a face says things through [`talk::Talk`] and hears [`happening::Happening`]s.

pub mod conversation;
pub mod message;
pub mod model;
pub mod system_prompt;
pub mod transcript;

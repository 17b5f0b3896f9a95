//! A conversation between a person, a model and the pool's tools: the loop, the model clients and the transcript.
//! Knows no terminal: a face says things through [`talk::Talk`] and hears [`happening::Happening`]s.

mod anthropic;
pub mod attempts;
pub mod briefing;
mod call_words;
pub mod chosen_model;
pub mod chronicle;
mod dialogue;
mod event_flow;
pub mod happening;
pub mod language_model;
pub mod model_client;
mod model_trouble;
pub mod offers;
mod openai_chat;
mod openai_responses;
pub mod rehearsed;
pub mod sampling;
pub mod talk;
pub mod utterance;

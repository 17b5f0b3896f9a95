//! A conversation between a person, a model and the pool's tools: the loop, the model clients and the transcript.
//! Knows no terminal: a face says things through [`talk::Talk`] and hears [`happening::Happening`]s.

mod call_words;
pub mod chronicle;
mod dialogue;
pub mod happening;
pub mod language_model;
pub mod offers;
pub mod talk;
pub mod utterance;

//! A conversation between a person, a model and the pool's tools: the loop, the model clients and the transcript.
//! Knows no terminal: a face says things through [`talk::Talk`] and hears [`happening::Happening`]s.

pub mod happening;
pub mod language_model;
pub mod talk;
pub mod utterance;

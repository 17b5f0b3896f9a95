//! TODO facade

pub(crate) mod attempt_error;
pub mod client;
pub mod config;
pub mod language_model;
pub mod provider;
pub mod retry;
pub mod sampling;
pub mod scripted;
pub(crate) mod sse_stream;

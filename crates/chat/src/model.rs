//! Language models: the trait that the agent loop calls, the HTTP client behind it, its configuration and a scripted model.
//! What a conversation does with a response is left to `conversation`.

pub(crate) mod attempt_error;
pub mod client;
pub mod config;
pub mod fallback;
pub mod language_model;
pub(crate) mod provider;
pub mod retry;
pub mod sampling;
pub mod scripted;
pub(crate) mod sse_stream;

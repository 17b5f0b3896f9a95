//! The audit log: one record per tool call. The `call` module decides what is recorded.

mod chain;
mod feed;
mod files;
pub mod log;
mod record;
mod tail;
pub mod verify;
mod writer;

//! The audit log: one record per tool call. The `call` module decides what is recorded.

mod files;
pub mod log;
mod record;
mod writer;

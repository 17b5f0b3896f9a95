//! The audit log: one record per tool call. The `call` module decides what is recorded.

pub mod log;

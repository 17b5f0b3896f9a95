//! TODO facade

pub mod call_context;
pub mod control;
pub(crate) mod gateway;
pub mod host;
pub(crate) mod in_process;
pub mod language_model;
pub(crate) mod stdio;
pub(crate) mod trace_export;

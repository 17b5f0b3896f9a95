//! TODO facade

pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod spans;
pub(crate) mod trace_context;

//! TODO facade

pub(crate) mod jobs;
pub(crate) mod output_log;

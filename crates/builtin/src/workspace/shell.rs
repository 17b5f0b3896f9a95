//! Shell commands: running them with a timeout, keeping those in the background, and recording their output.

pub(crate) mod command;
pub(crate) mod jobs;
pub(crate) mod output_log;

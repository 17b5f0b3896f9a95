//! Judges a run: the outcome of every call, and whether each fault was recovered from in time.

pub(crate) mod checker;
pub(crate) mod failure_cause;
pub(crate) mod history;
pub(crate) mod report;

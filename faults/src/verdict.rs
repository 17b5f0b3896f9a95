//! TODO facade

pub(crate) mod checker;
pub(crate) mod failure_cause;
pub(crate) mod history;
pub(crate) mod report;

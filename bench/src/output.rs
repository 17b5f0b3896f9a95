//! TODO facade

pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod table;

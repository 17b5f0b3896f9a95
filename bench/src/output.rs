//! How results are shown: tables, pages and pictures.

pub(crate) mod plot;
pub(crate) mod report;
pub(crate) mod table;

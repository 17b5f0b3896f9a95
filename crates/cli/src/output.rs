//! TODO facade

pub mod catalogue_table;
pub mod connection_text;
pub(crate) mod login_text;
pub mod report;
pub mod server_text;
pub mod style;
pub mod table;

//! TODO facade

pub mod choice;
pub mod edit_preview;
pub mod form;
pub mod login;
pub mod permission;
pub mod project_servers;
pub(crate) mod queue;
pub mod sampling;
pub mod url;

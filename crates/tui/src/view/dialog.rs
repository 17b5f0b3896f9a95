//! The dialogs: questions over everything else, one at a time, until they are answered or withdrawn. What an answer leads
//! to is left to who asked; `queue` decides which dialog is shown.

pub mod channels;
mod choice;
pub mod edit_preview;
pub mod form;
pub mod login;
pub mod permission;
pub mod project_servers;
pub mod queue;
pub mod request;
pub mod sampling;
pub mod url;

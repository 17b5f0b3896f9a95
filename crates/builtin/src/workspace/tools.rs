//! The tools of the workspace, one file each. Each has a function `tool` that makes it for a session.

pub(super) mod bash;
pub(super) mod bash_output;
pub(super) mod edit;
mod edit_operation;
pub(super) mod glob;
pub(super) mod grep;
mod grep_search;
pub(super) mod kill_bash;
pub(super) mod ls;
pub(super) mod multi_edit;
pub(super) mod read;
pub(super) mod write;

//! TODO facade

pub(crate) mod bash;
pub(crate) mod bash_output;
pub(crate) mod edit;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod kill_bash;
pub(crate) mod ls;
pub(crate) mod multi_edit;
pub(crate) mod read;
pub(crate) mod write;

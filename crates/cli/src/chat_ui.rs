//! TODO facade

pub(crate) mod conversation;
pub(crate) mod launch;
pub(crate) mod plain;

//! Installed applications: their names, and how to start them.

pub(crate) mod desktop_entry;
pub(crate) mod installed;
pub(crate) mod launch;

//! TODO facade

#[cfg(unix)]
pub mod child;
pub mod command;
pub(crate) mod descendants;
pub(crate) mod watchdog;

//! The commands of `cargo xtask`, one module each.

pub(crate) mod conformance;
pub(crate) mod faults;
pub(crate) mod fuzz;
pub(crate) mod instructions;
pub(crate) mod test;
pub(crate) mod tidy;
pub(crate) mod walk;

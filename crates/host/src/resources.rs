//! TODO facade

pub(crate) mod cache;
pub mod skills;
pub mod subscription;

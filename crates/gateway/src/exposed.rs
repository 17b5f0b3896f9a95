//! TODO facade

pub(crate) mod catalogue;
pub(crate) mod pages;
pub(crate) mod search;

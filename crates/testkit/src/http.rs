//! TODO facade

pub(crate) mod loopback;

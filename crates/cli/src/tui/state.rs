//! TODO facade

pub(crate) mod screen_state;

//! Pictures that are handed out: what part of the screen they show, at what scale, and how they are encoded.

pub(crate) mod area;
pub(crate) mod encode;
pub(crate) mod pixels;

//! What tools do with a page: look at it, act in it, and tell what happened.

pub(crate) mod emulation;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod frame_geometry;
pub(crate) mod keyboard;
pub(crate) mod keys;
pub(crate) mod navigation;
pub(crate) mod page;
pub(crate) mod picture;
pub(crate) mod pointer;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod settle;
pub(crate) mod snapshot;
pub(crate) mod waiting;
pub(crate) mod world;

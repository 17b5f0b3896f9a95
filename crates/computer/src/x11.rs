//! The X server: one module for each part of it that is used. What an action is, and whether it is allowed, is decided
//! by `action` and `grants`.

pub(crate) mod capture;
pub(crate) mod clipboard;
pub(crate) mod display;
pub(crate) mod injector;
pub(crate) mod input_watch;
pub(crate) mod key_map;
pub(crate) mod key_names;
pub(crate) mod monitors;
pub(crate) mod own_terminal;
pub(crate) mod temporary_keys;
pub(crate) mod windows;

//! The state of the screen and the events that change it. Does no I/O and reads no clock: the time comes with each event.

pub mod active_model;
pub mod event;
pub mod prompt_invocation;
pub mod screen_state;

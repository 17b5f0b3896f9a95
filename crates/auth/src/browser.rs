//! TODO facade

pub mod browser_flow;
pub mod loopback_listener;
pub(crate) mod result_page;

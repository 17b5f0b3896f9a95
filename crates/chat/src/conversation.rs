//! TODO facade

pub(crate) mod agent_loop;
pub mod event;
pub mod handle;
pub mod offered_tools;
pub(crate) mod result_content;

//! The MCP host as a library. So far: finding, reading, judging and changing configuration.
//!
//! [`load::load`] answers what is configured and what may run; [`store::change`] edits a file safely.
//! The library reads no environment and knows no home folder: the caller says where things are.

pub mod consent;
pub mod load;
pub mod places;
pub mod read;
pub mod reveal;
pub mod store;

pub use switchboard_config as config;

//! The MCP host as a library: finds, reads, judges and changes configuration, and keeps a connection to every server.
//!
//! [`load::load`] answers what is configured and what may run; [`store::change`] edits a file safely;
//! [`engine::Host`] runs what may run. The library reads no environment and knows no home folder: the caller says
//! where things are.

pub mod address;
mod answers;
pub mod ask;
pub mod audit;
pub mod calling;
pub mod catalogue;
pub mod cause;
pub mod connection;
pub mod consent;
pub mod engine;
pub mod form;
pub mod in_process;
pub mod inheritance;
pub mod load;
pub mod logbook;
pub mod memo;
pub mod places;
pub mod pool;
pub mod read;
pub mod reload;
pub mod reveal;
pub mod store;
mod trouble;
pub mod yielded;

pub use switchboard_config as config;
pub use switchboard_wire as wire;

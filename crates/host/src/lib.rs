//! The MCP host as a library: finds, reads, judges and changes configuration, and keeps a connection to every server.
//!
//! [`load::load`] answers what is configured and what may run; [`store::change`] edits a file safely;
//! [`engine::Host`] runs what may run. The library reads no environment and knows no home folder: the caller says
//! where things are.

pub mod address;
pub mod ask;
pub mod audit;
pub mod built_in;
pub mod calling;
pub mod catalogue;
pub mod cause;
pub mod connection;
pub mod consent;
pub mod counsel;
pub mod engine;
pub mod form;
mod hook_command;
pub mod inheritance;
pub mod inquiry;
pub mod load;
pub mod logbook;
pub mod memo;
pub mod perform;
pub mod pin;
pub mod places;
pub mod pool;
pub mod prepared;
pub mod read;
pub mod rehearsal;
pub mod reload;
pub mod remembered;
pub mod reveal;
pub mod rulebook;
pub mod ruling;
mod shelf;
pub mod store;
pub mod subscription;
mod trouble;
pub mod upkeep;
mod visit;
pub mod yielded;

pub use switchboard_config as config;
pub use switchboard_wire as wire;

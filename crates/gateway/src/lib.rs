//! The front door for programs: serves the pool to clients that come over HTTP.
//!
//! Every request passes [`head_guard::HeadGuard`] before anybody looks at its path. Who it comes from is the affair of
//! `switchboard-auth`, which owns every token.

mod attendant;
mod consenting;
mod directory;
mod gateway;
mod guest;
pub mod head_guard;
mod hearing;
mod http_front;
mod ledger;
mod list_pages;
mod metering;
mod parking;
mod relay;
mod search_tools;
mod stdio_front;
mod token_seal;
mod turn;
mod visiting;
mod waiting_room;

pub use directory::{Names, Terms, ToolsShown, exposing};
pub use gateway::Gateway;
pub use http_front::{Door, PATH};
pub use waiting_room::{Queue, Waiting, WaitingRoom};

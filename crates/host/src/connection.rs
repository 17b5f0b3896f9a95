//! The connection to one server: an actor owns its state, its transport and its catalogue.
//! Readers see it through a [`ServerView`]; callers use its client directly. Which servers there are is left to `engine`.

pub(crate) mod actor;
mod backoff;
mod catalogue_sync;
mod change_stream;
pub(crate) mod context;
mod credentials;
pub mod dedicated;
pub(crate) mod handle;
pub mod in_process;
mod incoming_requests;
mod open;
mod optional_wait;
pub mod resolve;
pub(crate) mod resource_revision;
pub(crate) mod resource_subscriptions;
pub(crate) mod retry_class;
pub mod server_requests;
pub mod state;
pub mod status;
mod suspend_detector;

pub use crate::sources::desired_server::DesiredServer;
pub use status::{ServerView, Status};

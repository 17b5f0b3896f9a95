//! The connection to one server: an actor owns its state, its transport and its catalogue.
//! Readers see it through a [`ServerView`]; callers use its client directly. Which servers there are is left to `engine`.

pub(crate) mod actor;
pub(crate) mod announcement;
mod catalogue_sync;
mod change_stream;
pub(crate) mod context;
mod credentials;
pub(crate) mod dedicated;
pub(crate) mod handle;
pub(crate) mod in_process;
mod incoming_requests;
mod liveness;
mod open;
mod open_connection;
mod optional_wait;
pub(crate) mod resolve;
pub(crate) mod resource_revision;
pub(crate) mod resource_subscriptions;
pub(crate) mod retry_class;
pub(crate) mod server_requests;
mod start_window;
pub(crate) mod state;
pub(crate) mod status;
mod suspend_detector;

pub use context::ServerWatch;
pub use dedicated::DedicatedConnection;
pub use in_process::{ClientIsolation, EmbeddedServer, HostedServers, InProcessServer};
pub use server_requests::{REASON_META_KEY, SamplingFuture, SamplingModel};
pub use state::{MAX_ATTEMPTS, RememberedLists, RetryPolicy};
pub use status::{ServerView, Status};

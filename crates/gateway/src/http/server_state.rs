//! The state that all HTTP connections share.

use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::http::options::HttpOptions;
use crate::http::session_table::SessionTable;
use crate::http::stream_delay::StreamDelay;

/// The state that all HTTP connections share.
#[derive(Debug)]
pub(crate) struct HttpState {
    pub(crate) gateway: Gateway,
    pub(crate) options: HttpOptions,
    pub(crate) sessions: SessionTable,
    pub(crate) stream_delay: StreamDelay,
    /// True after the server was told to stop.
    pub(crate) shutdown: watch::Receiver<bool>,
}

//! The state that all HTTP connections share.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, Response};
use switchboard_auth::resource_server::Authenticator;
use switchboard_wire::jsonrpc::message::RequestId;
use tokio::sync::watch;

use crate::gateway::Gateway;
use crate::http::body::Body;
use crate::http::limits::LimitExceeded;
use crate::http::limits::accounts::{Account, Accounts};
use crate::http::limits::client_account::ClientAccount;
use crate::http::limits::connections::Connections;
use crate::http::options::HttpOptions;
use crate::http::response::{event_stream, over_limit};
use crate::http::revocation::Revocations;
use crate::http::session_table::SessionTable;
use crate::http::stream_delay::StreamDelay;

/// The state that all HTTP connections share.
#[derive(Debug)]
pub(crate) struct HttpState {
    pub(crate) gateway: Gateway,
    pub(crate) options: HttpOptions,
    pub(crate) sessions: SessionTable,
    pub(crate) stream_delay: StreamDelay,
    pub(crate) accounts: Accounts,
    pub(crate) address_accounts: Accounts,
    pub(crate) connections: Connections,
    pub(crate) revocations: Revocations,
    pub(crate) started: Instant,
    /// True after the server was told to stop.
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// Who sent a request, and what its limits are counted for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<str>,
    pub(crate) account: ClientAccount,
}

impl HttpState {
    /// An event stream for a request with these headers. It ends when the credential of the request becomes invalid.
    pub(crate) fn event_stream(
        &self,
        headers: &HeaderMap,
        events: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Response<Body> {
        let events: Pin<Box<dyn Stream<Item = Bytes> + Send>> =
            match self.options.authenticator.as_ref() {
                Authenticator::Disabled(_) => Box::pin(events),
                Authenticator::TokenFile(_) | Authenticator::Jwt(_) => {
                    let credential = self.revocations.credential(headers);
                    let revoked = self.revocations.clone().revoked(credential);
                    Box::pin(events.take_until(Box::pin(revoked)))
                }
            };
        event_stream(Body::Stream(events))
    }

    /// Counts a request that exceeds a limit, and refuses it.
    pub(crate) fn refuse_over_limit(
        &self,
        id: Option<RequestId>,
        account: &Account,
        exceeded: &LimitExceeded,
    ) -> Response<Body> {
        let metrics = &self.gateway.relay.metrics;
        metrics.count_limit(exceeded.limit, &account.principal, self.started.elapsed());
        over_limit(id, exceeded)
    }
}

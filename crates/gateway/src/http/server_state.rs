//! The state that all HTTP connections share.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
use crate::http::limits::client_account::{ClientAccount, ClientReservation};
use crate::http::limits::connections::Connections;
use crate::http::options::{HttpOptions, ReplicaListener, SocketSharing};
use crate::http::replica::Replicas;
use crate::http::response::{event_stream, over_limit};
use crate::http::revocation::Revocations;
use crate::http::session_table::SessionTable;
use crate::http::shutdown::{DrainOptions, StopReason};
use crate::http::stream_delay::StreamDelay;
use crate::telemetry::limit_kind::LimitKind;

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
    /// The other replicas of the gateway.
    pub(crate) replicas: Replicas,
    /// Can other replicas send requests here, and this one to them?
    pub(crate) is_replica: bool,
    /// Does another process accept connections of replicas at the same socket?
    pub(crate) shared_socket: SharedReplicaSocket,
    /// Do replicas keep request rates together?
    pub(crate) shares_rates: bool,
    pub(crate) started: Instant,
    /// True between the order to stop and the shutdown: requests are served, but clients should go elsewhere.
    pub(crate) is_draining: AtomicBool,
    /// True after the server was told to stop.
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// How much longer than its drain a predecessor may take to end.
const PREDECESSOR_EXTRA_TIME: Duration = Duration::from_secs(5);

/// Whether another process accepts connections of replicas at the same socket: while one process replaces another, a
/// connection reaches either of them.
#[derive(Debug)]
pub(crate) struct SharedReplicaSocket {
    is_handed_over: AtomicBool,
    /// When the predecessor has ended.
    predecessor_ends: Option<Instant>,
}

impl SharedReplicaSocket {
    pub(crate) fn new(
        listener: Option<&ReplicaListener>,
        drain: DrainOptions,
    ) -> SharedReplicaSocket {
        let predecessor_ends = match listener.map(|it| it.sharing) {
            Some(SocketSharing::WithPredecessor) => {
                let delay = drain.delay_after(StopReason::HandedOver);
                Some(Instant::now() + delay + drain.timeout + PREDECESSOR_EXTRA_TIME)
            }
            Some(SocketSharing::Alone) | None => None,
        };
        SharedReplicaSocket { is_handed_over: AtomicBool::new(false), predecessor_ends }
    }

    /// Another process has taken the socket over.
    pub(crate) fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::Relaxed);
    }

    /// May a request that is not for this process be for the other one?
    pub(crate) fn has_other_process(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
            || self.predecessor_ends.is_some_and(|it| Instant::now() < it)
    }
}

/// Where a request came from. One that another replica has sent is not sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    FromClient,
    FromReplica,
}

/// Who sent a request, and what its limits are counted for.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<str>,
    pub(crate) account: ClientAccount,
}

impl HttpState {
    /// Was the server told to stop?
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed) || *self.shutdown.borrow()
    }

    /// An event stream for a request with these headers. It ends when the credential of the request becomes invalid.
    pub(crate) fn event_stream(
        &self,
        headers: &HeaderMap,
        events: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Response<Body> {
        let events: Pin<Box<dyn Stream<Item = Bytes> + Send>> =
            match self.options.authenticator.as_ref() {
                Authenticator::Disabled(_) | Authenticator::ClientCertificate => Box::pin(events),
                Authenticator::TokenFile(_) | Authenticator::Jwt(_) => {
                    let credential = self.revocations.credential(headers);
                    let revoked = self.revocations.clone().revoked(credential);
                    Box::pin(events.take_until(Box::pin(revoked)))
                }
            };
        event_stream(Body::Stream(events))
    }

    /// Reserves requests in flight, and takes a token for each; from all replicas together where they share a store.
    pub(crate) async fn start_requests(
        &self,
        account: &ClientAccount,
        number: usize,
    ) -> Result<ClientReservation, LimitExceeded> {
        if self.shares_rates {
            Box::pin(self.take_shared_tokens(account, number)).await?;
        }
        account.start_requests(number)
    }

    /// Reserves a session or a `subscriptions/listen` stream, and takes a token for its request.
    pub(crate) async fn open_session(
        &self,
        account: &ClientAccount,
    ) -> Result<ClientReservation, LimitExceeded> {
        if self.shares_rates {
            Box::pin(self.take_shared_tokens(account, 1)).await?;
        }
        account.open_session()
    }

    async fn take_shared_tokens(
        &self,
        account: &ClientAccount,
        number: usize,
    ) -> Result<(), LimitExceeded> {
        let Some(per_second) = self.options.limits.requests_per_second else { return Ok(()) };
        let shared = &self.gateway.relay.shared;
        let taken = shared.take_tokens(&account.own.principal, (per_second, number)).await;
        taken.map_err(|retry_after| LimitExceeded { limit: LimitKind::RequestRate, retry_after })
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

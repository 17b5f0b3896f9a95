//! Sends a client's request to another replica, and returns its response.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use switchboard_wire::http::plain::{PlainClient, PlainError, PlainResponse};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};
use url::Url;

use super::adoptions::Adoptions;
use super::locations::Locations;
use crate::http::body::Body;
use crate::http::limits::client_account::ClientAccount;
use crate::shared::envelope::{self, Operation, ResponsePart, ResponseReader};
use crate::shared::fleet::StoreStatus;
use crate::shared::shared_state::SharedState;
use crate::shared::store::ReplicaId;

/// The path of requests between replicas.
pub(crate) const REPLICA_PATH: &str = "/replica";
/// How long connecting to a replica may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a replica that is alive may take to accept a request. Its response may take longer.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often is checked whether a replica is alive while it is waited for.
const ALIVE_CHECK: Duration = Duration::from_secs(1);
/// The name of our requests.
const USER_AGENT: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

/// What is needed to reach the other replicas.
#[derive(Debug)]
pub(crate) struct Replicas {
    client: PlainClient,
    pub(crate) locations: Locations,
    pub(crate) adoptions: Adoptions,
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas {
            client: PlainClient::new(USER_AGENT, CONNECT_TIMEOUT),
            locations: Locations::default(),
            adoptions: Adoptions::default(),
        }
    }
}

/// A client's request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    pub(crate) principal: &'a Arc<str>,
    pub(crate) account: &'a ClientAccount,
}

/// Why another replica has not responded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// Nothing listens at its address: its process has ended.
    Gone,
    /// It was not reached. It may be alive.
    Unreachable,
    /// The connection failed after the request was sent: it may have been executed.
    MaybeSent,
    /// It does not have what the request is for.
    NotThere,
}

impl Replicas {
    /// Sends a request to a replica.
    pub(crate) async fn forward(
        &self,
        shared: &SharedState,
        (to, address): (ReplicaId, &str),
        request: ClientRequest<'_>,
    ) -> Result<Response<Body>, ForwardError> {
        let operation = Operation::Respond {
            method: request.method.as_str().to_owned(),
            headers: envelope::header_pairs(request.headers),
            principal: request.principal.to_string(),
            account: request.account.own.principal.to_string(),
        };
        let mut parts = self.send(shared, (to, address), operation, request.body).await?;
        let (status, headers) = match parts.next().await? {
            Some(ResponsePart::Head(status, headers)) => (status, headers),
            Some(ResponsePart::Data(_) | ResponsePart::End) | None => {
                return Err(ForwardError::MaybeSent);
            }
        };
        if status == StatusCode::MISDIRECTED_REQUEST {
            return Err(ForwardError::NotThere);
        }
        debug!(replica = %to, status = status.as_u16(), "request answered by another replica");
        let is_stream = headers.get(header::CONTENT_TYPE).is_some_and(is_event_stream);
        let body = match is_stream {
            true => Body::Stream(Box::pin(stream::unfold(parts, next_data))),
            false => Body::Full(Some(parts.rest().await?).filter(|it| !it.is_empty())),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Sends an operation to a replica, and waits until it is accepted.
    pub(crate) async fn send(
        &self,
        shared: &SharedState,
        (to, address): (ReplicaId, &str),
        operation: Operation,
        body: &Bytes,
    ) -> Result<ResponseParts, ForwardError> {
        let url = Url::parse(&format!("http://{address}{REPLICA_PATH}"));
        let url = url.map_err(|_| ForwardError::Unreachable)?;
        let (sealed, reader) =
            envelope::seal(shared.sealer(), (shared.me().id, to), operation, body);
        let sending = timeout(ACCEPT_TIMEOUT, self.client.post(&url, sealed));
        let accepted = while_alive((shared, to), sending).await;
        let response = match accepted {
            Some(Ok(Ok(response))) => response,
            Some(Ok(Err(error))) => {
                info!(replica = %to, ?error, "another replica was not reached");
                return Err(match error {
                    PlainError::Refused => ForwardError::Gone,
                    PlainError::Unreachable => ForwardError::Unreachable,
                    PlainError::MaybeSent => ForwardError::MaybeSent,
                });
            }
            Some(Err(_)) | None => {
                info!(replica = %to, "another replica does not answer");
                return Err(ForwardError::MaybeSent);
            }
        };
        match response.status() {
            StatusCode::OK => {
                Ok(ResponseParts { response, reader, shared: shared.clone(), replica: to })
            }
            // Another process has the address now.
            StatusCode::MISDIRECTED_REQUEST => Err(ForwardError::Gone),
            status => {
                info!(replica = %to, status = status.as_u16(), "another replica has refused");
                Err(ForwardError::Unreachable)
            }
        }
    }
}

fn is_event_stream(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(b"text/event-stream")
}

/// The parts of a response as they arrive. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct ResponseParts {
    response: PlainResponse,
    reader: ResponseReader,
    shared: SharedState,
    replica: ReplicaId,
}

/// Waits for a replica for as long as it counts as alive; None if it does not any more. Where that is not known, it may.
async fn while_alive<T>(
    (shared, replica): (&SharedState, ReplicaId),
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = sleep(ALIVE_CHECK) => {
                let fleet = shared.fleet();
                let is_known = fleet.store == StoreStatus::Connected;
                if is_known && !fleet.alive.contains_key(&replica) {
                    return None;
                }
            }
        }
    }
}

impl ResponseParts {
    /// The next part; None after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<ResponsePart>, ForwardError> {
        loop {
            match self.reader.next() {
                Ok(Some(ResponsePart::End)) => return Ok(None),
                Ok(Some(part)) => return Ok(Some(part)),
                Ok(None) => {}
                Err(_) => return Err(ForwardError::MaybeSent),
            }
            let chunk = self.response.chunk();
            match while_alive((&self.shared, self.replica), chunk).await {
                Some(Ok(Some(bytes))) => self.reader.push(&bytes),
                // It was cut: the last part is missing.
                Some(Ok(None) | Err(_)) | None => return Err(ForwardError::MaybeSent),
            }
        }
    }

    /// All data that follows.
    pub(crate) async fn rest(&mut self) -> Result<Bytes, ForwardError> {
        let mut all = Vec::new();
        while let Some(part) = self.next().await? {
            match part {
                ResponsePart::Data(bytes) if all.is_empty() => all = bytes.into(),
                ResponsePart::Data(bytes) => all.extend_from_slice(&bytes),
                ResponsePart::Head(..) | ResponsePart::End => return Err(ForwardError::MaybeSent),
            }
        }
        // Read to its end, so that the connection can be used again.
        let _at_its_end = self.response.chunk().await;
        Ok(all.into())
    }
}

/// The next bytes of an event stream. A stream that was cut ends, and the client resumes it.
async fn next_data(mut parts: ResponseParts) -> Option<(Bytes, ResponseParts)> {
    match parts.next().await {
        Ok(Some(ResponsePart::Data(bytes))) => Some((bytes, parts)),
        Ok(Some(ResponsePart::Head(..) | ResponsePart::End) | None) | Err(_) => {
            let _at_its_end = timeout(CONNECT_TIMEOUT, parts.response.chunk()).await;
            None
        }
    }
}

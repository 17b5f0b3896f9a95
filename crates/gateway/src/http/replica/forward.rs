//! Sends a client's request to another replica, and returns its response.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use switchboard_wire::http::plain::{PlainClient, PlainError, PlainResponse};
use switchboard_wire::jsonrpc::message::{Message, RequestId};
use tokio::time::{sleep, timeout};
use tracing::{debug, info};
use url::Url;

use super::adoptions::Adoptions;
use super::locations::Locations;
use crate::http::body::Body;
use crate::http::limits::client_account::ClientAccount;
use crate::http::response::sse_event;
use crate::relay::call_lost;
use crate::shared::envelope::{self, Operation, ResponsePart, ResponseReader};
use crate::shared::fleet::StoreStatus;
use crate::shared::shared_state::SharedState;
use crate::shared::store::ReplicaId;

/// The path of requests between replicas.
pub(crate) const REPLICA_PATH: &str = "/replica";
/// The status of a response that says: another process accepts connections at this address, too, and the request is for
/// that one. It was not run.
pub(crate) const OTHER_PROCESS: StatusCode = StatusCode::TOO_EARLY;
/// How often a request is sent again to reach the other process at an address, and the delay between attempts.
const OTHER_PROCESS_ATTEMPTS: usize = 40;
const OTHER_PROCESS_DELAY: Duration = Duration::from_millis(10);
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
    /// What follows when the event stream of its response is cut.
    pub(crate) at_cut: AtCut<'a>,
}

/// What follows when an event stream of another replica is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AtCut<'a> {
    /// The stream ends, and its client resumes it.
    End,
    /// The request with this id is told as lost: its stream cannot be resumed.
    Lost(&'a RequestId),
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
            true => {
                let last = match request.at_cut {
                    AtCut::End => None,
                    AtCut::Lost(id) => Some(lost_event(id)),
                };
                Body::Stream(Box::pin(stream::unfold(Some((parts, last)), next_data)))
            }
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
        let mut attempts = 0;
        let (response, reader) = loop {
            let (sealed, reader) =
                envelope::seal(shared.sealer(), (shared.me().id, to), &operation, body);
            let response = self.post((shared, to), &url, sealed).await?;
            attempts += 1;
            if response.status() != OTHER_PROCESS || attempts == OTHER_PROCESS_ATTEMPTS {
                break (response, reader);
            }
            sleep(OTHER_PROCESS_DELAY).await;
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

impl Replicas {
    /// Sends a sealed operation once.
    async fn post(
        &self,
        (shared, to): (&SharedState, ReplicaId),
        url: &Url,
        sealed: Bytes,
    ) -> Result<PlainResponse, ForwardError> {
        let sending = timeout(ACCEPT_TIMEOUT, self.client.post(url, sealed));
        match while_alive((shared, to), sending).await {
            Some(Ok(Ok(response))) => Ok(response),
            Some(Ok(Err(error))) => {
                info!(replica = %to, ?error, "another replica was not reached");
                Err(match error {
                    PlainError::Refused => ForwardError::Gone,
                    PlainError::Unreachable => ForwardError::Unreachable,
                    PlainError::MaybeSent => ForwardError::MaybeSent,
                })
            }
            Some(Err(_)) | None => {
                info!(replica = %to, "another replica does not answer");
                Err(ForwardError::MaybeSent)
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

/// The event that tells a client that its request is lost.
fn lost_event(id: &RequestId) -> Bytes {
    sse_event(None, &Message::Response { id: Some(id.clone()), outcome: Err(call_lost()) })
}

/// What is left of an event stream: more events, and what follows when it is cut. None after that.
type EventParts = Option<(ResponseParts, Option<Bytes>)>;

/// The next bytes of an event stream.
async fn next_data(parts: EventParts) -> Option<(Bytes, EventParts)> {
    let (mut parts, at_cut) = parts?;
    match parts.next().await {
        Ok(Some(ResponsePart::Data(bytes))) => Some((bytes, Some((parts, at_cut)))),
        Ok(Some(ResponsePart::Head(..) | ResponsePart::End) | None) => {
            let _at_its_end = timeout(CONNECT_TIMEOUT, parts.response.chunk()).await;
            None
        }
        Err(_) => at_cut.map(|event| (event, None)),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::limits::Limits;
    use crate::http::limits::accounts::Accounts;
    use crate::shared::seal_keys::{SealKeyFiles, test_keys};
    use crate::shared::shared_state::{SessionsWhileAway, StoreChoice};

    fn replica(keys: &SealKeyFiles) -> SharedState {
        let waits = SessionsWhileAway::Refused;
        SharedState::open(keys, StoreChoice::None, "127.0.0.1:1", waits).0
    }

    /// Reads one request and responds with these parts; then the connection breaks.
    async fn respond_once(listener: TcpListener, shared: SharedState, parts: Vec<ResponsePart>) {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        let body = loop {
            stream.read_buf(&mut request).await.expect("a request");
            let text = String::from_utf8_lossy(&request).to_lowercase();
            let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
            let length: usize = length.and_then(|it| it.parse().ok()).expect("a length");
            let start = request.windows(4).position(|it| it == b"\r\n\r\n").expect("an end") + 4;
            if request.len() >= start + length {
                break request[start..start + length].to_vec();
            }
        };
        let receiver = (shared.me().id, shared.exchanges());
        let (_, _, mut sealer) = envelope::open(shared.sealer(), receiver, &body).expect("ours");
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head).await.expect("written");
        for part in parts {
            let sealed = sealer.seal(&part);
            let size = format!("{:x}\r\n", sealed.len());
            let chunk = [size.as_bytes(), &sealed, b"\r\n"].concat();
            stream.write_all(&chunk).await.expect("written");
        }
    }

    async fn check(at_cut: AtCut<'_>, last: Option<ResponsePart>) -> String {
        let folder = tempfile::tempdir().expect("a temp folder");
        let keys = test_keys(folder.path());
        let (sender, receiver) = (replica(&keys), replica(&keys));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        let event = Bytes::from_static(b"data: 1\n\n");
        let parts = [ResponsePart::Head(StatusCode::OK, headers), ResponsePart::Data(event)];
        let parts = parts.into_iter().chain(last).collect();
        let to = (receiver.me().id, &*address);
        let responding = tokio::spawn(respond_once(listener, receiver.clone(), parts));
        let own = Accounts::new(Limits::default()).account("ada");
        let account = ClientAccount { own, address: None };
        let request = ClientRequest {
            method: &Method::POST,
            headers: &HeaderMap::new(),
            body: &Bytes::new(),
            principal: &"ada".into(),
            account: &account,
            at_cut,
        };
        let response = Replicas::default().forward(&sender, to, request).await.expect("a response");
        let Body::Stream(events) = response.into_body() else { panic!("no stream") };
        let all: Vec<Bytes> = events.collect().await;
        responding.await.expect("no panic");
        String::from_utf8(all.concat()).expect("text")
    }

    #[tokio::test]
    async fn a_stream_that_is_cut_tells_a_request_that_cannot_be_resumed_as_lost() {
        let id = RequestId::Number(7);
        let end = || Some(ResponsePart::End);
        assert_eq!(check(AtCut::Lost(&id), end()).await, "data: 1\n\n");
        assert_eq!(check(AtCut::End, None).await, "data: 1\n\n");
        let cut = check(AtCut::Lost(&id), None).await;
        let lost = cut.strip_prefix("data: 1\n\ndata: ").expect("one more event");
        assert!(lost.contains("\"id\":7") && lost.contains("it is not repeated"), "{lost}");
    }
}

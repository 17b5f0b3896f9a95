//! Requests of other replicas: checks their seal, responds to them as to a client's, and seals the response.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_auth::resource_server::RequestHead;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::http::body::Body;
use crate::http::limits::client_account::ClientAccount;
use crate::http::negotiation::read_body;
use crate::http::options::MCP_PATH;
use crate::http::replica::forward::{OTHER_PROCESS, REPLICA_PATH};
use crate::http::response::{refuse, text};
use crate::http::server_state::{Arrival, Caller, HttpState};
use crate::http::shutdown::wait_until_true;
use crate::http::write_timeout::WriteTimeout;
use crate::http::{legacy, post};
use crate::shared::envelope::{
    self, Envelope, EnvelopeError, Operation, ResponsePart, ResponseSealer,
};

/// The most connections from other replicas, unless more connections of clients are allowed: each may need one.
const MIN_MAX_CONNECTIONS: usize = 4096;
/// The most connections at the same time that are told that there are too many. More are closed at once.
const MAX_REFUSED_CONNECTIONS: usize = 1024;
/// How long telling may take.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(2);
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// The response to a connection too many. The sender knows from it that its request was not run.
const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// How long the head of a request may take to arrive. Longer than replicas keep idle connections, so that none is closed at the
/// moment in which it is used again: the sender could not know whether the request had arrived.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(120);
/// How long to wait after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How much larger a sealed request may be than its body.
const ENVELOPE_BYTES: usize = 256 * 1024;

/// How long requests are still accepted after the order to stop: those that are on their way learn that they have not run.
const STOP_DELAY: Duration = Duration::from_millis(300);
/// How long running requests have to end after that.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts requests of other replicas until shortly after `stop` is true.
pub(crate) async fn serve(
    listener: TcpListener,
    state: Arc<HttpState>,
    mut stop: watch::Receiver<bool>,
) {
    let max_connections = state.options.limits.connections.total.max(MIN_MAX_CONNECTIONS);
    let (mut connections, mut refused) = (JoinSet::new(), JoinSet::new());
    let (close, closing) = watch::channel(false);
    let mut stopped = pin!(async {
        wait_until_true(&mut stop).await;
        sleep(STOP_DELAY).await;
    });
    loop {
        while connections.try_join_next().is_some() {}
        while refused.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stopped => break,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < max_connections => {
                connections.spawn(serve_connection(state.clone(), stream, closing.clone()));
            }
            Ok((stream, _)) => {
                warn!("a connection of a replica is refused: too many are open");
                if refused.len() < MAX_REFUSED_CONNECTIONS {
                    refused.spawn(refuse_connection(stream));
                }
            }
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
    drop(listener);
    let _no_connections = close.send(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    let _some_are_slow = timeout(STOP_TIMEOUT, ended).await;
    connections.shutdown().await;
    refused.shutdown().await;
}

/// Tells the sender of a request that it is not run.
async fn refuse_connection(mut stream: TcpStream) {
    let refusing = async {
        stream.write_all(TOO_MANY_CONNECTIONS).await?;
        stream.shutdown().await?;
        // Unread data would reset the connection before the sender has read the response.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _slow_or_gone = timeout(REFUSE_TIMEOUT, refusing).await;
}

async fn serve_connection(
    state: Arc<HttpState>,
    stream: TcpStream,
    mut closing: watch::Receiver<bool>,
) {
    let _nagle_stays_on = stream.set_nodelay(true);
    let write_timeout = state.options.write_timeout;
    let service = service_fn(move |request| {
        let state = state.clone();
        async move {
            let mut response = respond(state.clone(), request).await;
            if state.is_stopping() {
                // So that no request is sent on a connection that is about to be closed.
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, write_timeout)), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _connection_failed = &mut connection => {}
        () = wait_until_true(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            let _connection_failed = connection.await;
        }
    }
}

async fn respond(state: Arc<HttpState>, request: Request<Incoming>) -> Response<Body> {
    if request.method() != Method::POST || request.uri().path() != REPLICA_PATH {
        return text(StatusCode::NOT_FOUND, "not found\n".to_owned());
    }
    let max_bytes = state.options.max_request_bytes + ENVELOPE_BYTES;
    let sealed = match read_body(request.into_body(), max_bytes).await {
        Ok(sealed) => sealed,
        Err(response) => return *response,
    };
    let shared = &state.gateway.relay.shared;
    let receiver = (shared.me().id, shared.exchanges());
    let opened = envelope::open(shared.sealer(), receiver, &sealed);
    let (envelope, body, sealer) = match opened {
        Ok(opened) => opened,
        Err(EnvelopeError::OtherReplica) if state.shared_socket.has_other_process() => {
            return other_process();
        }
        Err(error) => return refuse_envelope(error),
    };
    // The head comes at once: the sender knows then that the request has arrived.
    Response::new(Body::Stream(Box::pin(sealed_response(state, (envelope, body), sealer))))
}

/// The request is for the other process that accepts connections at this socket. It has to come over another connection.
fn other_process() -> Response<Body> {
    let mut response = text(OTHER_PROCESS, "another process at this address is meant\n".to_owned());
    response.headers_mut().insert(header::CONNECTION, CLOSE);
    response
}

fn refuse_envelope(error: EnvelopeError) -> Response<Body> {
    let (status, reason) = match error {
        EnvelopeError::Unsealed => (StatusCode::FORBIDDEN, "not sealed with a key of this replica"),
        EnvelopeError::OtherReplica => {
            (StatusCode::MISDIRECTED_REQUEST, "another replica is meant")
        }
        EnvelopeError::Clock => (StatusCode::CONFLICT, "the clocks of the replicas differ"),
        EnvelopeError::Repeated => (StatusCode::CONFLICT, "the request was received before"),
    };
    warn!(reason, "a request of a replica is refused");
    text(status, format!("{reason}\n"))
}

/// What is left of a response.
enum Stage {
    /// The request runs.
    Running(Arc<HttpState>, Box<(Envelope, Bytes)>),
    Data(Body),
    End,
    Over,
}

fn sealed_response(
    state: Arc<HttpState>,
    request: (Envelope, Bytes),
    sealer: ResponseSealer,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let first = (Stage::Running(state, Box::new(request)), sealer);
    stream::unfold(first, |(stage, mut sealer)| async move {
        let (part, next) = next_part(stage).await?;
        Some((sealer.seal(&part), (next, sealer)))
    })
}

async fn next_part(stage: Stage) -> Option<(ResponsePart, Stage)> {
    match stage {
        Stage::Running(state, request) => {
            let (envelope, body) = *request;
            let response = Box::pin(run(&state, envelope, body)).await;
            let (head, body) = response.into_parts();
            Some((ResponsePart::Head(head.status, head.headers), Stage::Data(body)))
        }
        Stage::Data(Body::Full(Some(bytes))) => Some((ResponsePart::Data(bytes), Stage::End)),
        Stage::Data(Body::Full(None)) | Stage::End => Some((ResponsePart::End, Stage::Over)),
        Stage::Data(Body::Stream(mut events)) => match events.next().await {
            Some(bytes) => Some((ResponsePart::Data(bytes), Stage::Data(Body::Stream(events)))),
            None => Some((ResponsePart::End, Stage::Over)),
        },
        Stage::Over => None,
    }
}

async fn run(state: &HttpState, envelope: Envelope, body: Bytes) -> Response<Body> {
    match envelope.operation {
        Operation::Respond { method, headers, principal, account } => {
            let own = state.accounts.account(&account);
            let account = ClientAccount { own, address: None };
            let caller = Caller { principal: principal.into(), account };
            let headers = envelope::header_map(&headers);
            match method.parse() {
                Ok(method) => respond_to_client(state, &method, (headers, body), caller).await,
                Err(_) => refuse(StatusCode::BAD_REQUEST, "not a method"),
            }
        }
        Operation::Decide { id, decision } => {
            info!(id, "decision of another replica received");
            match state.gateway.decide_approval(id, &decision).await {
                true => text(StatusCode::OK, "decided\n".to_owned()),
                false => text(StatusCode::NOT_FOUND, "not waiting\n".to_owned()),
            }
        }
    }
}

async fn respond_to_client(
    state: &HttpState,
    method: &Method,
    (headers, body): (HeaderMap, Bytes),
    caller: Caller,
) -> Response<Body> {
    if let Err(refused) = check_credential(state, method, &headers).await {
        return *refused;
    }
    match *method {
        Method::POST => {
            post::respond_to(state, (&headers, body), caller, Arrival::FromReplica).await
        }
        Method::GET => legacy::get_stream(state, &headers, &caller, Arrival::FromReplica).await,
        Method::DELETE => {
            legacy::delete_session(state, &headers, &caller, Arrival::FromReplica).await
        }
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE"),
    }
}

/// The sender has authenticated the client. Streams end with the client's credential, so that this replica must know it.
async fn check_credential(
    state: &HttpState,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), Box<Response<Body>>> {
    let credential = state.revocations.credential(headers);
    if state.revocations.is_valid(&credential) {
        return Ok(());
    }
    let uri = Uri::from_static(MCP_PATH);
    let head = RequestHead { headers, method, uri: &uri };
    let verified = state.options.authenticator.authenticate(head).await;
    match verified.and_then(|it| state.revocations.check(&it)) {
        Ok(()) => Ok(()),
        Err(error) => Err(Box::new(refuse(error.status(), &error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::http::plain::PlainClient;
    use url::Url;

    use super::*;

    #[tokio::test]
    async fn a_request_on_a_connection_too_many_is_known_not_to_have_run() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let refusing = tokio::spawn(async move {
            refuse_connection(listener.accept().await.expect("a connection").0).await;
        });
        let url = Url::parse(&format!("http://{address}{REPLICA_PATH}")).expect("a URL");
        let client = PlainClient::new("test", Duration::from_secs(10));
        // More than the buffers of a connection hold.
        let response = client.post(&url, vec![b'x'; 8 << 20].into()).await;
        assert_eq!(response.map(|it| it.status()), Ok(StatusCode::SERVICE_UNAVAILABLE));
        refusing.await.expect("no panic");
    }
}

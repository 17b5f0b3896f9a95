//! A request of a modern client, which has no session: checks its headers, runs it, and responds with JSON or with an
//! event stream.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Response, StatusCode};
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::downstream::client::Client;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::downstream::request_context::RequestContext;
use crate::http::body::Body;
use crate::http::limits::client_account::ClientReservation;
use crate::http::response::{
    KEEPALIVE_INTERVAL, rpc_error, rpc_response, sse_event, sse_keepalive, store_away,
};
use crate::http::server_state::{Caller, HttpState};
use crate::http::shutdown::wait_until_true;
use crate::json::empty_object;
use crate::method::Method;
use crate::multi_round_trip::modern_request;
use crate::multi_round_trip::modern_request::MultiRoundTrip;
use crate::multi_round_trip::pending::{self, PendingRequest, Step};
use crate::relay::is_store_away;
use crate::subscriptions::ListenStream;

/// Responds to a modern request.
pub(crate) async fn respond(
    state: &HttpState,
    (id, method): (RequestId, Method),
    (params, meta): (RawObject, RequestMeta),
    headers: &HeaderMap,
    caller: Caller,
) -> Response<Body> {
    let checked = request_meta::check_version_header(headers, &meta)
        .and_then(|()| meta.validate_modern())
        .and_then(|()| request_meta::check_method_headers(headers, method.as_str(), &params))
        .and_then(|()| check_param_headers(state, &method, &params, headers));
    if let Err(error) = checked {
        return rpc_error(Some(id), error, StatusCode::BAD_REQUEST);
    }
    // Two requests may come from two programs with the same credentials.
    const NO_SESSION: Option<u64> = None;
    let sender = (caller.principal, caller.account.own.principal.clone());
    let client = modern_request::client_from_meta(sender, &meta, NO_SESSION);
    if method == Method::Discover {
        let result = state.gateway.relay.discover(&client.principal);
        return modern_response(id, Ok(result));
    }
    if method == Method::SubscriptionsListen {
        let slot = match state.open_session(&caller.account).await {
            Ok(slot) => slot,
            Err(exceeded) => {
                return state.refuse_over_limit(Some(id), &caller.account.own, &exceeded);
            }
        };
        return listen((state, headers), (&client, slot), id, &params).await;
    }
    let in_flight = match state.start_requests(&caller.account, 1).await {
        Ok(in_flight) => in_flight,
        Err(exceeded) => return state.refuse_over_limit(Some(id), &caller.account.own, &exceeded),
    };
    let (channel, inbox) = pending::channel();
    let context = Arc::new(RequestContext::new(client, channel));
    let request = InboundRequest::new(id.clone(), method, (params, meta), context);
    match state.gateway.multi_round_trip.start_or_resume(request, inbox).await {
        Ok(pending) => run((state, headers), (pending, in_flight), id).await,
        Err(error) => modern_response(id, Err(error)),
    }
}

/// Responds to a request of a client of an older version that has no session. Servers cannot send it requests.
pub(crate) async fn respond_stateless(
    state: &HttpState,
    (id, method): (RequestId, Method),
    (params, meta): (RawObject, RequestMeta),
    headers: &HeaderMap,
    caller: Caller,
) -> Response<Body> {
    if matches!(method, Method::Ping) {
        return rpc_response(id, Ok(empty_object()), StatusCode::OK);
    }
    if matches!(method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) {
        let error =
            server::invalid_params("this server offers no sessions, which subscriptions need");
        return rpc_error(Some(id), error, StatusCode::BAD_REQUEST);
    }
    let in_flight = match state.start_requests(&caller.account, 1).await {
        Ok(in_flight) => in_flight,
        Err(exceeded) => return state.refuse_over_limit(Some(id), &caller.account.own, &exceeded),
    };
    const NO_CAPABILITIES: Option<&Payload> = None;
    let client = Client::new(caller.principal, Era::Legacy, NO_CAPABILITIES)
        .with_account(caller.account.own.principal.clone())
        .without_session();
    let (channel, inbox) = pending::channel();
    let context = Arc::new(RequestContext::new(Arc::new(client), channel));
    let request = InboundRequest::new(id.clone(), method, (params, meta), context);
    match state.gateway.multi_round_trip.start_or_resume(request, inbox).await {
        Ok(pending) => run((state, headers), (pending, in_flight), id).await,
        Err(error) => rpc_response(id, Err(error), StatusCode::OK),
    }
}

/// Checks the headers that repeat a tool's arguments.
fn check_param_headers(
    state: &HttpState,
    method: &Method,
    params: &RawObject,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    if *method != Method::ToolsCall {
        return Ok(());
    }
    let catalogue = state.gateway.relay.catalogue();
    let tool = params.get_string("name").and_then(|it| catalogue.tools.get(&it).cloned());
    let Some(tool) = tool.filter(|it| !it.param_headers.is_empty()) else { return Ok(()) };
    let none = empty_object();
    tool.param_headers.check(params.get("arguments").unwrap_or(&none), headers)
}

/// Runs a request. The response is JSON if the result comes soon and without notifications before it, else an event
/// stream.
async fn run(
    (state, headers): (&HttpState, &HeaderMap),
    (mut pending, in_flight): (PendingRequest, ClientReservation),
    id: RequestId,
) -> Response<Body> {
    let multi_round_trip = &state.gateway.multi_round_trip;
    let first = tokio::select! {
        biased;
        step = pending.next() => match step {
            Step::Notification(message) => Some(message),
            Step::InputRequired(requests) => {
                let outcome = multi_round_trip.suspend(pending, &requests).await;
                return modern_response(id, outcome);
            }
            Step::Complete(outcome) => return modern_response(id, outcome),
        },
        // The stream's head tells the client that the request is running.
        () = state.stream_delay.wait() => None,
    };
    let events = ModernEventStream {
        multi_round_trip: multi_round_trip.clone(),
        pending: Some(pending),
        id,
        first,
        _in_flight: in_flight,
    };
    let body = stream::unfold(events, |mut events| async move {
        let bytes = events.next().await?;
        Some((bytes, events))
    });
    state.event_stream(headers, body)
}

/// The event stream of a request. Dropping it cancels the request.
struct ModernEventStream {
    multi_round_trip: MultiRoundTrip,
    pending: Option<PendingRequest>,
    id: RequestId,
    first: Option<Message>,
    _in_flight: ClientReservation,
}

impl ModernEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(sse_event(None, &first));
        }
        let pending = self.pending.as_mut()?;
        let step = tokio::select! {
            step = pending.next() => step,
            () = sleep(KEEPALIVE_INTERVAL) => return Some(sse_keepalive()),
        };
        let outcome = match step {
            Step::Notification(message) => return Some(sse_event(None, &message)),
            Step::InputRequired(requests) => {
                self.multi_round_trip.suspend(self.pending.take()?, &requests).await
            }
            Step::Complete(outcome) => {
                self.pending = None;
                outcome
            }
        };
        Some(sse_event(None, &Message::Response { id: Some(self.id.clone()), outcome }))
    }
}

/// Runs `subscriptions/listen`.
async fn listen(
    (state, headers): (&HttpState, &HeaderMap),
    (client, slot): (&Client, ClientReservation),
    id: RequestId,
    params: &RawObject,
) -> Response<Body> {
    let opened = ListenStream::open(&state.gateway.relay, client, &id, params).await;
    let (stream, first) = match opened {
        Ok(opened) => opened,
        Err(error) => return modern_response(id, Err(error)),
    };
    let events = ListenEventStream {
        stream,
        queued: VecDeque::from([sse_event(None, &first)]),
        open_request: Some(id),
        shutdown: state.shutdown.clone(),
        _slot: slot,
    };
    let body = stream::unfold(events, |mut events| async move {
        let bytes = events.next().await?;
        Some((bytes, events))
    });
    state.event_stream(headers, body)
}

/// The event stream of `subscriptions/listen`. Ends with a response when the server shuts down.
struct ListenEventStream {
    stream: ListenStream,
    queued: VecDeque<Bytes>,
    /// The request's id, until its response is queued.
    open_request: Option<RequestId>,
    shutdown: watch::Receiver<bool>,
    /// The stream counts until it ends.
    _slot: ClientReservation,
}

impl ListenEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.queued.is_empty() {
            let id = self.open_request.clone()?;
            let is_over = tokio::select! {
                messages = self.stream.next() => match messages {
                    Some(messages) => {
                        self.queued.extend(messages.iter().map(|it| sse_event(None, it)));
                        false
                    }
                    None => true,
                },
                () = wait_until_true(&mut self.shutdown) => true,
                () = sleep(KEEPALIVE_INTERVAL) => {
                    self.queued.push_back(sse_keepalive());
                    false
                }
            };
            if is_over {
                self.open_request = None;
                let outcome = self.stream.final_result();
                let last = Message::Response { id: Some(id), outcome };
                self.queued.push_back(sse_event(None, &last));
            }
        }
        self.queued.pop_front()
    }
}

pub(crate) fn modern_response(id: RequestId, outcome: Outcome) -> Response<Body> {
    let status = match &outcome {
        Ok(_) => StatusCode::OK,
        Err(error) if is_store_away(error) => return store_away(Some(id)),
        Err(error) => {
            StatusCode::from_u16(request_meta::http_status(error)).unwrap_or(StatusCode::OK)
        }
    };
    rpc_response(id, outcome, status)
}

#[cfg(test)]
mod tests {
    use http::header;
    use switchboard_wire::jsonrpc::message::{self, Messages};

    use super::*;
    use crate::relay::{invalid_request_state, store_away};

    #[test]
    fn an_error_of_a_server_with_a_code_of_ours_is_passed_on_and_not_told_as_not_run() {
        let check = |outcome: Outcome| {
            let response = modern_response(RequestId::Number(1), outcome);
            (response.status().as_u16(), response.headers().contains_key(header::RETRY_AFTER))
        };
        assert_eq!(check(Err(store_away())), (503, true));
        // As they arrive: cut out of the server's message.
        for (code, data) in [(-32010, "{}"), (-32029, "{\"retryAfterSeconds\":5}")] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m","data": {data}}}}}"#
            );
            let parsed = message::parse(&text.into()).expect("a message");
            let Messages::One(Message::Response { outcome, .. }) = parsed else { panic!("{code}") };
            assert_eq!(check(outcome), (200, false), "{code}");
        }
        assert!(!check(Err(invalid_request_state())).1);
    }
}

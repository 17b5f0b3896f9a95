//! One POST and everything that its response carries.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::fast_path::{Handoff, HandoffResponse};
use super::post::{Post, PostKind, RequestLifetime};
use super::resume::Resume;
use super::{Completion, ExchangeUpdate, SESSION_ID_HEADER};
use crate::http::body::{
    ContentKind, content_kind, drain, not_mcp_error, not_mcp_error_with_body, read_body,
    status_error, status_error_with_body,
};
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::http::send::{Endpoint, Via};
use crate::http::sse_decoder::{SseEvent, SseStream};
use crate::jsonrpc::message;
use crate::jsonrpc::message::{Message, Messages, Payload, RequestId};
use crate::protocol::errors::code;
use crate::transport::{MalformedInput, TransportEvent};
use crate::transport_error::TransportError;

/// How long the server may take to accept a notification or a response.
const ONE_WAY_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of an error response is read to find a JSON-RPC error in it.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// How long a stream may go on after its response, so that its connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Runs an exchange to completion.
pub(crate) async fn run(
    endpoint: Arc<Endpoint>,
    post: Post,
    update_sender: mpsc::Sender<ExchangeUpdate>,
) -> Completion {
    let load = post.load();
    let Post { kind, headers, body } = post;
    let url = Cow::Borrowed(&endpoint.target.url);
    let mut request = HttpRequest { method: Method::POST, url, headers, body };
    let event = match &kind {
        PostKind::Initialize(id) => {
            let exchange = RequestExchange {
                id,
                lifetime: RequestLifetime::Session,
                update_sender: &update_sender,
            };
            let delivery = exchange.send_initialize(&endpoint, &mut request).await;
            exchange.to_event(delivery)
        }
        PostKind::Request(id, lifetime) => {
            let exchange =
                RequestExchange { id, lifetime: *lifetime, update_sender: &update_sender };
            let delivery = exchange.send(&endpoint, &mut request).await;
            exchange.to_event(delivery)
        }
        PostKind::Initialized | PostKind::OneWay => {
            let outcome =
                match timeout(ONE_WAY_TIMEOUT, send_one_way(&endpoint, &mut request)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(TransportError::Timeout(ONE_WAY_TIMEOUT)),
                };
            outcome.err().map(|error| TransportEvent::DeliveryFailed { id: None, error })
        }
    };
    Completion::Exchange { kind, load, event }
}

/// Continues a request from the fast path.
pub(crate) async fn continue_handoff(
    endpoint: Arc<Endpoint>,
    handoff: Handoff,
    update_sender: mpsc::Sender<ExchangeUpdate>,
) -> Completion {
    let Handoff { id, lifetime, load, headers: sent, response } = handoff;
    let exchange = RequestExchange { id: &id, lifetime, update_sender: &update_sender };
    let delivery = match response {
        HandoffResponse::Unread(response) => {
            exchange.read_response(&endpoint, &sent, response, SessionReport::None).await
        }
        HandoffResponse::Read(response, body) => {
            exchange.read_body(&response, &body, SessionReport::None).await
        }
    };
    let event = exchange.to_event(delivery);
    Completion::Exchange { kind: PostKind::Request(id, lifetime), load, event }
}

/// Sends a notification or response. The body of a success response is ignored.
async fn send_one_way(
    endpoint: &Endpoint,
    request: &mut HttpRequest<'_>,
) -> Result<(), TransportError> {
    let response = endpoint.send(request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    if content_kind(response.headers()) != ContentKind::EventStream {
        drain(response).await;
    }
    Ok(())
}

/// A request, and the channel for its response and events.
struct RequestExchange<'a> {
    id: &'a RequestId,
    lifetime: RequestLifetime,
    update_sender: &'a mpsc::Sender<ExchangeUpdate>,
}

/// How a request was answered.
enum ResponseDelivery {
    Message(Message),
    /// The response was reported before the end of its stream.
    Delivered,
    /// The server accepted the request and responds on another stream.
    OutOfBand,
}

impl RequestExchange<'_> {
    fn to_event(
        &self,
        delivery: Result<ResponseDelivery, TransportError>,
    ) -> Option<TransportEvent> {
        match delivery {
            Ok(ResponseDelivery::Message(message)) => Some(TransportEvent::Message(message)),
            Ok(ResponseDelivery::Delivered | ResponseDelivery::OutOfBand) => None,
            Err(error) => Some(TransportEvent::DeliveryFailed { id: Some(self.id.clone()), error }),
        }
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        request: &mut HttpRequest<'_>,
    ) -> Result<ResponseDelivery, TransportError> {
        let response = endpoint.send(request, Via::Http).await?;
        self.read_response(endpoint, &request.headers, response, SessionReport::None).await
    }

    async fn send_initialize(
        &self,
        endpoint: &Endpoint,
        request: &mut HttpRequest<'_>,
    ) -> Result<ResponseDelivery, TransportError> {
        let response = endpoint.send(request, Via::Http).await?;
        let mut session = response.headers().get(SESSION_ID_HEADER).cloned();
        if let Some(session) = &mut session {
            session.set_sensitive(true);
            // If the stream of this response breaks, it is resumed within the session.
            request.headers.insert(SESSION_ID_HEADER, session.clone());
        }
        self.read_response(
            endpoint,
            &request.headers,
            response,
            SessionReport::Initialize { session },
        )
        .await
    }

    async fn read_response(
        &self,
        endpoint: &Endpoint,
        sent: &HeaderMap,
        mut response: HttpResponse,
        report: SessionReport,
    ) -> Result<ResponseDelivery, TransportError> {
        let status = response.status();
        if !status.is_success() {
            return self.read_error_response(response).await;
        }
        match content_kind(response.headers()) {
            ContentKind::EventStream => {
                let limit = endpoint.target.max_message_size;
                let events = SseStream::new(response, limit);
                self.read_stream(endpoint, sent, events, report).await
            }
            ContentKind::Json | ContentKind::Missing => {
                let body = read_body(&mut response, endpoint.target.max_message_size).await?;
                self.read_body(&response, &body, report).await
            }
            ContentKind::Other if is_empty_success(status) => {
                drain(response).await;
                self.accepted_without_body()
            }
            ContentKind::Other => Err(not_mcp_error(response).await),
        }
    }

    async fn read_body(
        &self,
        response: &HttpResponse,
        body: &Bytes,
        report: SessionReport,
    ) -> Result<ResponseDelivery, TransportError> {
        if body.is_empty() && is_empty_success(response.status()) {
            return self.accepted_without_body();
        }
        let Ok(messages) = message::parse(body) else {
            return Err(not_mcp_error_with_body(response.headers(), body));
        };
        match self.dispatch(messages).await {
            Some(response_message) => {
                report.send(&response_message, self.update_sender).await;
                Ok(ResponseDelivery::Message(response_message))
            }
            None => Err(TransportError::IncompleteResponse),
        }
    }

    /// The server accepted the request without a body.
    fn accepted_without_body(&self) -> Result<ResponseDelivery, TransportError> {
        match self.lifetime {
            RequestLifetime::Stream => Err(TransportError::IncompleteResponse),
            RequestLifetime::Session => Ok(ResponseDelivery::OutOfBand),
        }
    }

    /// Some servers send a JSON-RPC error together with an error status.
    async fn read_error_response(
        &self,
        mut response: HttpResponse,
    ) -> Result<ResponseDelivery, TransportError> {
        let status = response.status();
        // These statuses are about authorization and the endpoint; the body does not answer the request.
        let is_about_access = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED
        );
        if is_about_access || content_kind(response.headers()) != ContentKind::Json {
            return Err(status_error(response).await);
        }
        let body = read_body(&mut response, MAX_ERROR_BODY).await.unwrap_or_default();
        if let Ok(Messages::One(message)) = message::parse(&body)
            && let Message::Response { outcome: Err(error), .. } = &message
            // A 404 with another error code is about the endpoint, not about the method.
            && (status != StatusCode::NOT_FOUND || error.code == code::METHOD_NOT_FOUND)
            && let Ok(response_message) = self.match_response(message)
        {
            return Ok(ResponseDelivery::Message(response_message));
        }
        Err(status_error_with_body(status.as_u16(), response.headers(), &body))
    }

    /// Reads a stream up to the response, and resumes it if it breaks.
    async fn read_stream(
        &self,
        endpoint: &Endpoint,
        sent: &HeaderMap,
        mut events: SseStream,
        report: SessionReport,
    ) -> Result<ResponseDelivery, TransportError> {
        let mut resume = Resume::default();
        loop {
            while let Some(event) = end_on_disconnect(events.next().await)? {
                resume.reset();
                if let Some(response_message) = self.on_event(event).await {
                    report.send(&response_message, self.update_sender).await;
                    self.emit(TransportEvent::Message(response_message)).await;
                    let rest = drain(events.into_response());
                    let _stream_goes_on = timeout(DRAIN_TIMEOUT, rest).await;
                    return Ok(ResponseDelivery::Delivered);
                }
            }
            resume.update(&events);
            events = match self.lifetime {
                RequestLifetime::Stream => return Err(TransportError::IncompleteResponse),
                RequestLifetime::Session => resume.reopen(endpoint, sent).await?,
            };
        }
    }

    /// Reports the messages of an event, except for the response, which is returned.
    async fn on_event(&self, event: SseEvent) -> Option<Message> {
        if event.data.is_empty() || !event.is_message() {
            return None;
        }
        match message::parse(&event.data) {
            Ok(messages) => self.dispatch(messages).await,
            Err(error) => {
                let malformed = MalformedInput::new(error, &event.data);
                self.emit(TransportEvent::Malformed(malformed)).await;
                None
            }
        }
    }

    async fn dispatch(&self, messages: Messages) -> Option<Message> {
        let parts = match messages {
            Messages::One(message) => match self.match_response(message) {
                Ok(response_message) => return Some(response_message),
                Err(other) => vec![Ok(*other)],
            },
            Messages::Batch(parts) => parts,
        };
        let mut response_message = None;
        for part in parts {
            match part.map(|message| self.match_response(message)) {
                Ok(Ok(message)) => response_message = Some(message),
                Ok(Err(other)) => self.emit(self.related(*other)).await,
                Err(error) => self.emit(TransportEvent::Malformed(error.into())).await,
            }
        }
        response_message
    }

    /// Returns the message if it is the response. An error without an id can only answer this request.
    fn match_response(&self, message: Message) -> Result<Message, Box<Message>> {
        match message {
            Message::Response { id: Some(id), outcome } if id == *self.id => {
                Ok(Message::Response { id: Some(id), outcome })
            }
            Message::Response { id: None, outcome: Err(error) } => {
                Ok(Message::Response { id: Some(self.id.clone()), outcome: Err(error) })
            }
            Message::Response { .. } | Message::Request { .. } | Message::Notification { .. } => {
                Err(Box::new(message))
            }
        }
    }

    fn related(&self, message: Message) -> TransportEvent {
        TransportEvent::RelatedMessage { request_id: self.id.clone(), message }
    }

    async fn emit(&self, event: TransportEvent) {
        let _transport_gone = self.update_sender.send(ExchangeUpdate::Event(event)).await;
    }
}

fn is_empty_success(status: StatusCode) -> bool {
    matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
}

/// Treats a broken stream as one that ended: either way there is no response. A stream that exceeds the size limit
/// is not resumed.
fn end_on_disconnect(
    next: Result<Option<SseEvent>, TransportError>,
) -> Result<Option<SseEvent>, TransportError> {
    match next {
        Err(TransportError::IncompleteResponse) => Ok(None),
        Ok(_) | Err(_) => next,
    }
}

/// The report about a response.
enum SessionReport {
    None,
    Initialize { session: Option<HeaderValue> },
}

impl SessionReport {
    async fn send(self, response_message: &Message, update_sender: &mpsc::Sender<ExchangeUpdate>) {
        let SessionReport::Initialize { session } = self else { return };
        let Message::Response { outcome: Ok(result), .. } = response_message else { return };
        let _transport_gone = update_sender
            .send(ExchangeUpdate::SessionStarted { session, version: negotiated_version(result) })
            .await;
    }
}

fn negotiated_version(result: &Payload) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct InitializeResult {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    /// A version is a date of ten characters.
    const MAX_VERSION_LENGTH: usize = 64;
    let initialized: InitializeResult = result.decode().ok()?;
    let version = initialized.version;
    (version.len() <= MAX_VERSION_LENGTH).then(|| HeaderValue::from_str(&version).ok()).flatten()
}

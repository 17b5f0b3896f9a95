//! Event streams that are opened with a GET, and resumption of broken ones with `Last-Event-ID`.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::sleep;
use tracing::debug;

use super::LAST_EVENT_ID_HEADER;
use crate::backoff::Backoff;
use crate::http::body::{ContentKind, content_kind};
use crate::http::request::HttpRequest;
use crate::http::send::{Endpoint, Via};
use crate::http::sse_decoder::SseStream;
use crate::transport_error::TransportError;

/// The default delay before a broken stream is resumed, and the longest. The server may set another with `retry:`.
pub(crate) const DEFAULT_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// How many attempts to resume may fail, and how many may bring an empty stream. Servers may close a stream and
/// have the client reconnect until the response is ready, so the second limit is higher.
const MAX_FAILURES: u32 = 4;
const MAX_EMPTY_STREAMS: u32 = 1000;

/// The position at which a broken stream is resumed.
#[derive(Default)]
pub(crate) struct Resume {
    last_id: Option<HeaderValue>,
    retry: Option<Duration>,
    empty_streams: u32,
}

impl Resume {
    pub(crate) fn update(&mut self, events: &SseStream) {
        if let Some(id) = events.last_id() {
            self.last_id = HeaderValue::from_bytes(id).ok();
        }
        self.retry = events.retry().or(self.retry);
    }

    /// Resets the count of empty streams, after an event arrived.
    pub(crate) fn reset(&mut self) {
        self.empty_streams = 0;
    }

    /// Resumes the stream after the delay that the server asks for.
    pub(crate) async fn reopen(
        &mut self,
        endpoint: &Endpoint,
        sent: &HeaderMap,
    ) -> Result<SseStream, TransportError> {
        let last_id = self.last_id.clone().ok_or(TransportError::IncompleteResponse)?;
        self.empty_streams += 1;
        if self.empty_streams > MAX_EMPTY_STREAMS {
            return Err(TransportError::IncompleteResponse);
        }
        let mut delay = self.retry.unwrap_or(DEFAULT_RETRY).min(MAX_RETRY);
        // A server may ask for no delay at all. After a failure the delays start at the default.
        let mut backoff = Backoff::new((delay * 2).clamp(DEFAULT_RETRY, MAX_RETRY), MAX_RETRY);
        for attempt in 0..MAX_FAILURES {
            sleep(delay).await;
            debug!(attempt, "request retried: resuming its event stream");
            delay = backoff.next_delay();
            match open_get_stream(endpoint, sent, Some(last_id.clone())).await {
                Ok(GetResponse::Stream(events)) => return Ok(*events),
                Ok(GetResponse::Refused(_)) => return Err(TransportError::IncompleteResponse),
                Err(_) => {}
            }
        }
        Err(TransportError::IncompleteResponse)
    }
}

/// The response to a GET.
pub(crate) enum GetResponse {
    Stream(Box<SseStream>),
    Refused(StatusCode),
}

/// Opens a stream with a GET, after the given event.
pub(crate) async fn open_get_stream(
    endpoint: &Endpoint,
    base_headers: &HeaderMap,
    last_id: Option<HeaderValue>,
) -> Result<GetResponse, TransportError> {
    let mut headers = base_headers.clone();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last_id) = last_id {
        headers.insert(LAST_EVENT_ID_HEADER, last_id);
    }
    let url = Cow::Borrowed(&endpoint.target.url);
    let mut request = HttpRequest { method: Method::GET, url, headers, body: Bytes::new() };
    let response = endpoint.send(&mut request, Via::Http).await?;
    let status = response.status();
    match content_kind(response.headers()) {
        ContentKind::EventStream if status.is_success() => {
            let events = SseStream::new(response, endpoint.target.max_message_size);
            Ok(GetResponse::Stream(Box::new(events)))
        }
        ContentKind::EventStream
        | ContentKind::Json
        | ContentKind::Missing
        | ContentKind::Other => Ok(GetResponse::Refused(status)),
    }
}

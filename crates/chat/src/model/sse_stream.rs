//! The event stream of a response, with limits on its size and on the time between events.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value as Json;
use switchboard::wire::http::sse_decoder::{EventTooLarge, SseDecoder};
use tokio::time::timeout;

use crate::model::attempt_error::AttemptError;

/// The largest event, in bytes.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// The largest response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// The data that ends the streams of some services.
const DONE: &[u8] = b"[DONE]";

/// An event stream.
pub(crate) struct SseStream {
    response: Response,
    decoder: SseDecoder,
    bytes_read: usize,
    idle_timeout: Duration,
}

impl SseStream {
    pub(crate) fn new(response: Response, idle_timeout: Duration) -> SseStream {
        SseStream {
            response,
            decoder: SseDecoder::new(MAX_EVENT_BYTES),
            bytes_read: 0,
            idle_timeout,
        }
    }

    /// The data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Json>, AttemptError> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) if event.data.is_empty() => continue,
                Some(Ok(event)) if event.data.trim_ascii() == DONE => return Ok(None),
                Some(Ok(event)) => {
                    let json = serde_json::from_slice(&event.data);
                    return json
                        .map(Some)
                        .map_err(|_| AttemptError::invalid_response("an event that is not JSON"));
                }
                Some(Err(EventTooLarge)) => {
                    return Err(AttemptError::invalid_response("an event that is too large"));
                }
                None => {}
            }
            let chunk = match timeout(self.idle_timeout, self.response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => {
                    return Err(AttemptError::stream_interrupted(&root_cause(&error)));
                }
                Err(_) => {
                    let seconds = self.idle_timeout.as_secs_f64();
                    return Err(AttemptError::stream_interrupted(&format!(
                        "nothing came for {seconds} s"
                    )));
                }
            };
            let Some(chunk) = chunk else { return Ok(None) };
            self.bytes_read = self.bytes_read.saturating_add(chunk.len());
            if self.bytes_read > MAX_RESPONSE_BYTES {
                return Err(AttemptError::invalid_response("a response that is too large"));
            }
            self.decoder.feed(chunk);
        }
    }
}

/// The innermost cause; the outer ones only say that the request failed.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

//! The stream of events that a model's answer comes as: bounded in size, and not silent for longer than is agreed.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value as Json;
use switchboard::wire::http::sse_decoder::{EventTooLarge, SseDecoder};
use tokio::time::timeout;

use crate::model::attempt_error::AttemptError;

/// The largest event.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes of one answer.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;
/// What ends the streams of some services.
const DONE: &[u8] = b"[DONE]";

/// A stream of events.
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

    /// The next event's data. None where the stream ends.
    pub(crate) async fn next(&mut self) -> Result<Option<Json>, AttemptError> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) if event.data.is_empty() => continue,
                Some(Ok(event)) if event.data.trim_ascii() == DONE => return Ok(None),
                Some(Ok(event)) => {
                    let json = serde_json::from_slice(&event.data);
                    return json
                        .map(Some)
                        .map_err(|_| AttemptError::invalid_response("an event that is no JSON"));
                }
                Some(Err(EventTooLarge)) => {
                    return Err(AttemptError::invalid_response("an event without end"));
                }
                None => {}
            }
            let piece = match timeout(self.idle_timeout, self.response.chunk()).await {
                Ok(Ok(piece)) => piece,
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
            let Some(piece) = piece else { return Ok(None) };
            self.bytes_read = self.bytes_read.saturating_add(piece.len());
            if self.bytes_read > MAX_RESPONSE_BYTES {
                return Err(AttemptError::invalid_response("an answer without end"));
            }
            self.decoder.feed(piece);
        }
    }
}

/// The innermost cause: the outer ones only say that a request failed, and where.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

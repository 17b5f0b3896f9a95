//! The stream of events that a model's answer comes as: bounded in size, and not silent for longer than is agreed.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value as Json;
use switchboard::wire::events::{Decoder, TooLarge};
use tokio::time::timeout;

use crate::model_trouble::Trouble;

/// The largest event.
const LARGEST_EVENT: usize = 16 * 1024 * 1024;
/// The most bytes of one answer.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// What ends the streams of some services.
const DONE: &[u8] = b"[DONE]";

/// A stream of events.
pub(crate) struct EventFlow {
    response: Response,
    decoder: Decoder,
    read: usize,
    idle: Duration,
}

impl EventFlow {
    pub(crate) fn new(response: Response, idle: Duration) -> EventFlow {
        EventFlow { response, decoder: Decoder::new(LARGEST_EVENT), read: 0, idle }
    }

    /// The next event's data. None where the stream ends.
    pub(crate) async fn next(&mut self) -> Result<Option<Json>, Trouble> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) if event.data.is_empty() => continue,
                Some(Ok(event)) if event.data.trim_ascii() == DONE => return Ok(None),
                Some(Ok(event)) => {
                    let json = serde_json::from_slice(&event.data);
                    return json
                        .map(Some)
                        .map_err(|_| Trouble::senseless("an event that is no JSON"));
                }
                Some(Err(TooLarge)) => return Err(Trouble::senseless("an event without end")),
                None => {}
            }
            let piece = match timeout(self.idle, self.response.chunk()).await {
                Ok(Ok(piece)) => piece,
                Ok(Err(error)) => return Err(Trouble::broken_off(&cause(&error))),
                Err(_) => {
                    let seconds = self.idle.as_secs_f64();
                    return Err(Trouble::broken_off(&format!("nothing came for {seconds} s")));
                }
            };
            let Some(piece) = piece else { return Ok(None) };
            self.read = self.read.saturating_add(piece.len());
            if self.read > LARGEST_ANSWER {
                return Err(Trouble::senseless("an answer without end"));
            }
            self.decoder.feed(piece);
        }
    }
}

/// The innermost cause: the outer ones only say that a request failed, and where.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

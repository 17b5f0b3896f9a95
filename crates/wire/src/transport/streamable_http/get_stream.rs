//! The stream on which a server speaks by itself: opened after the session began, and again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::resume::{DEFAULT_RETRY, GetResponse, open_get_stream};
use super::{Completion, ExchangeUpdate};
use crate::http::send::Endpoint;
use crate::http::sse_decoder::SseStream;
use crate::transport::TransportEvent;
use crate::transport_error::TransportError;

/// The longest wait before a lost stream is asked for again, and the shortest.
const MAX_DELAY: Duration = Duration::from_secs(30);
const MIN_DELAY: Duration = Duration::from_millis(100);
/// From the shortest wait it takes this many to the longest.
const MAX_DOUBLINGS: u32 = 9;

/// Listens until the server does not want it any more.
pub(crate) async fn run(
    endpoint: Arc<Endpoint>,
    base_headers: HeaderMap,
    update_sender: mpsc::Sender<ExchangeUpdate>,
) -> Completion {
    let mut last_id = None;
    let mut retry = DEFAULT_RETRY;
    let mut failures = 0;
    let mut was_open = false;
    loop {
        match open_get_stream(&endpoint, &base_headers, last_id.clone()).await {
            Ok(GetResponse::Stream(mut events)) => {
                was_open = true;
                let opened = Instant::now();
                let stream_end = read_events(&mut events, &update_sender).await;
                if let Some(id) = events.last_id() {
                    last_id = HeaderValue::from_bytes(id).ok();
                }
                if let Some(server_retry) = events.retry() {
                    retry = server_retry.clamp(MIN_DELAY, MAX_DELAY);
                }
                match stream_end {
                    StreamEnd::HadEvents => failures = 0,
                    StreamEnd::Empty if opened.elapsed() >= MAX_DELAY => failures = 0,
                    StreamEnd::Empty => {}
                    StreamEnd::TooLarge => return Completion::GetStream,
                }
            }
            // A server that was there may be starting again; one that never had such a stream has none.
            Ok(GetResponse::Refused(status)) if was_open && status.is_server_error() => {}
            Ok(GetResponse::Refused(_)) => return Completion::GetStream,
            Err(TransportError::CrossOriginRedirect { .. }) => return Completion::GetStream,
            Err(_) => {}
        }
        sleep(retry.saturating_mul(1 << failures).min(MAX_DELAY)).await;
        failures = (failures + 1).min(MAX_DOUBLINGS);
    }
}

/// What a stream was like.
enum StreamEnd {
    Empty,
    HadEvents,
    /// More than we take. It would come again.
    TooLarge,
}

async fn read_events(
    events: &mut SseStream,
    update_sender: &mpsc::Sender<ExchangeUpdate>,
) -> StreamEnd {
    let mut stream_end = StreamEnd::Empty;
    loop {
        match events.next().await {
            Ok(Some(event)) => {
                stream_end = StreamEnd::HadEvents;
                for event in TransportEvent::from_sse(&event) {
                    let _transport_gone = update_sender.send(ExchangeUpdate::Event(event)).await;
                }
            }
            Err(TransportError::TooLarge { .. }) => return StreamEnd::TooLarge,
            Ok(None) | Err(_) => return stream_end,
        }
    }
}

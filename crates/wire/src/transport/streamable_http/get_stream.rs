//! The stream for messages that belong to no request: opened after the handshake, and reopened with backoff when it
//! breaks.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::resume::{DEFAULT_RETRY, GetResponse, open_get_stream};
use super::{Completion, ExchangeUpdate};
use crate::backoff::Backoff;
use crate::http::send::Endpoint;
use crate::http::sse_decoder::SseStream;
use crate::transport::TransportEvent;
use crate::transport_error::TransportError;

/// The longest and the shortest delay before a broken stream is reopened.
const MAX_DELAY: Duration = Duration::from_secs(30);
const MIN_DELAY: Duration = Duration::from_millis(100);

/// Reads the stream, and reopens it until the server does not offer it.
pub(crate) async fn run(
    endpoint: Arc<Endpoint>,
    base_headers: HeaderMap,
    update_sender: mpsc::Sender<ExchangeUpdate>,
) -> Completion {
    let mut last_id = None;
    let mut backoff = Backoff::new(DEFAULT_RETRY, MAX_DELAY);
    let mut was_open = false;
    loop {
        match open_get_stream(&endpoint, &base_headers, last_id.clone()).await {
            Ok(GetResponse::Stream(mut events)) => {
                was_open = true;
                debug!("GET stream opened");
                let opened = Instant::now();
                let stream_end = read_events(&mut events, &update_sender).await;
                if let Some(id) = events.last_id() {
                    last_id = HeaderValue::from_bytes(id).ok();
                }
                if let Some(server_retry) = events.retry() {
                    backoff.set_initial(server_retry.clamp(MIN_DELAY, MAX_DELAY));
                }
                match stream_end {
                    StreamEnd::HadEvents => backoff.reset(),
                    StreamEnd::Empty => backoff.reset_if_lasted(opened.elapsed()),
                    StreamEnd::TooLarge => return Completion::GetStream,
                }
            }
            // A server that offered the stream may be restarting; one that never did has none.
            Ok(GetResponse::Refused(status)) if was_open && status.is_server_error() => {}
            Ok(GetResponse::Refused(_)) => return Completion::GetStream,
            Err(TransportError::CrossOriginRedirect { .. }) => return Completion::GetStream,
            Err(error) => debug!(error = error.log_label(), "GET stream failed"),
        }
        let delay = backoff.next_delay();
        debug!(?delay, "reopening the GET stream");
        sleep(delay).await;
    }
}

/// How a stream ended.
enum StreamEnd {
    Empty,
    HadEvents,
    /// An event exceeds the size limit. It would come again.
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

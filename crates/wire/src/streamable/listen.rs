//! Streams that are asked for with a GET, and where a lost one goes on.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::sleep;

use super::{Context, LAST_EVENT};
use crate::events::Events;
use crate::fault::Fault;
use crate::network::{Kind, Request, Via, kind_of};

/// How long to wait before a lost stream is asked for, unless the server says otherwise, and at most.
pub(super) const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How often a lost stream is asked for in vain. Servers may close a stream and have us come back until the
/// answer is there, so one that opens and says nothing may do so more often than one that fails.
const FAILURES: u32 = 4;
const EMPTY_STREAMS: u32 = 1000;

/// Where a lost stream goes on.
#[derive(Default)]
pub(super) struct Resume {
    last_id: Option<HeaderValue>,
    retry: Option<Duration>,
    empty_streams: u32,
}

impl Resume {
    pub(super) fn remember(&mut self, events: &Events) {
        if let Some(id) = events.last_id() {
            self.last_id = HeaderValue::from_bytes(id).ok();
        }
        self.retry = events.retry().or(self.retry);
    }

    /// Something came, so coming back was not in vain.
    pub(super) fn goes_on(&mut self) {
        self.empty_streams = 0;
    }

    /// Asks for the rest, not before the server wants to be asked.
    pub(super) async fn reopen(
        &mut self,
        context: &Context,
        sent: &HeaderMap,
    ) -> Result<Events, Fault> {
        let last_id = self.last_id.clone().ok_or(Fault::CutShort)?;
        self.empty_streams += 1;
        if self.empty_streams > EMPTY_STREAMS {
            return Err(Fault::CutShort);
        }
        let mut wait = self.retry.unwrap_or(RETRY).min(LONGEST_RETRY);
        for _ in 0..FAILURES {
            sleep(wait).await;
            // The server would be asked without end if it said that there is no need to wait.
            wait = (wait * 2).clamp(RETRY, LONGEST_RETRY);
            match listen(context, sent, Some(last_id.clone())).await {
                Ok(Listening::To(events)) => return Ok(*events),
                Ok(Listening::Refused(_)) => return Err(Fault::CutShort),
                Err(_) => {}
            }
        }
        Err(Fault::CutShort)
    }
}

/// Whether the server lets us listen.
pub(super) enum Listening {
    To(Box<Events>),
    Refused(StatusCode),
}

/// Opens a stream with a GET, from where another was lost.
pub(super) async fn listen(
    context: &Context,
    prepared: &HeaderMap,
    last_id: Option<HeaderValue>,
) -> Result<Listening, Fault> {
    let mut headers = prepared.clone();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last_id) = last_id {
        headers.insert(LAST_EVENT, last_id);
    }
    let url = Cow::Borrowed(&context.target.url);
    let mut request = Request { method: Method::GET, url, headers, body: Bytes::new() };
    let response = context.target.send(&context.network, &mut request, Via::Http).await?;
    let status = response.status();
    match kind_of(response.headers()) {
        Kind::Events if status.is_success() => {
            let events = Events::new(response, context.target.largest_message);
            Ok(Listening::To(Box::new(events)))
        }
        Kind::Events | Kind::Json | Kind::Unnamed | Kind::Other => Ok(Listening::Refused(status)),
    }
}

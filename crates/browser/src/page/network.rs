//! Requests of one tab.

use std::collections::HashMap;
use std::time::Instant;

use serde::Deserialize;
use serde_json::Map;
use serde_json::Value as Json;

use crate::cdp::message::{Event, SessionId};
use crate::page::ring::RingBuffer;
use crate::shown_text::cut;

/// How many requests are kept.
const MAX_REQUESTS: usize = 300;
/// The longest URL, in characters.
const MAX_URL: usize = 2000;
/// How many headers of a message are kept, and the longest value.
const MAX_HEADERS: usize = 60;
const MAX_HEADER: usize = 500;

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestOutcome {
    Pending,
    /// Its bytes on the network.
    Finished(u64),
    Failed(String),
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) session: SessionId,
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) kind: String,
    pub(crate) request_headers: Vec<(String, String)>,
    pub(crate) has_body: bool,
    pub(crate) status: Option<u16>,
    pub(crate) mime_type: String,
    pub(crate) response_headers: Vec<(String, String)>,
    pub(crate) outcome: RequestOutcome,
    pub(crate) started: Instant,
    pub(crate) took_ms: Option<u128>,
}

/// The requests of one tab.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) list: RingBuffer<Request>,
    /// Numbers in the list of requests under way, by their ids.
    under_way: HashMap<String, u64>,
    /// The status of the newest main document.
    pub(crate) document_status: Option<(String, u16)>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests {
            list: RingBuffer::new(MAX_REQUESTS),
            under_way: HashMap::new(),
            document_status: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WillBeSent {
    request_id: String,
    request: SentRequest,
    #[serde(rename = "type")]
    kind: Option<String>,
    redirect_response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentRequest {
    url: String,
    method: String,
    headers: Map<String, Json>,
    #[serde(default)]
    has_post_data: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseEvent {
    request_id: String,
    loader_id: String,
    #[serde(rename = "type")]
    kind: String,
    response: Response,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    status: u16,
    headers: Map<String, Json>,
    mime_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoadEnd {
    request_id: String,
    encoded_data_length: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoadFailure {
    request_id: String,
    error_text: String,
    blocked_reason: Option<String>,
}

impl Requests {
    /// Takes an event of the network; returns whether it was one.
    pub(crate) fn on_event(&mut self, session: &SessionId, event: &Event<'_>) -> bool {
        match event.method {
            "Network.requestWillBeSent" => {
                if let Some(it) = event.decode() {
                    self.will_be_sent(session, it);
                }
            }
            "Network.responseReceived" => {
                if let Some(it) = event.decode() {
                    self.received(it);
                }
            }
            "Network.loadingFinished" => {
                if let Some(it) = event.decode::<LoadEnd>() {
                    // Sizes are numbers of JavaScript; the conversion saturates.
                    let bytes = it.encoded_data_length as u64;
                    self.end(&it.request_id, RequestOutcome::Finished(bytes));
                }
            }
            "Network.loadingFailed" => {
                if let Some(it) = event.decode::<LoadFailure>() {
                    let reason = it.blocked_reason.map(|it| format!(" ({it})"));
                    let error = format!("{}{}", it.error_text, reason.unwrap_or_default());
                    self.end(&it.request_id, RequestOutcome::Failed(cut(&error, 200)));
                }
            }
            _ => return event.method.starts_with("Network."),
        }
        true
    }

    fn will_be_sent(&mut self, session: &SessionId, sent: WillBeSent) {
        // A redirect has the id of the request that it answers.
        if let (Some(number), Some(response)) =
            (self.under_way.remove(&sent.request_id), sent.redirect_response)
            && let Some(request) = self.list.get_mut(number)
        {
            request.answer(response);
            request.end(RequestOutcome::Finished(0));
        }
        if self.under_way.len() > 4 * MAX_REQUESTS {
            self.under_way.clear();
        }
        let request = Request {
            id: sent.request_id.clone(),
            session: session.clone(),
            method: cut(&sent.request.method, 20),
            url: cut(&sent.request.url, MAX_URL),
            kind: sent.kind.unwrap_or_else(|| "Other".to_owned()),
            request_headers: headers(sent.request.headers),
            has_body: sent.request.has_post_data,
            status: None,
            mime_type: String::new(),
            response_headers: Vec::new(),
            outcome: RequestOutcome::Pending,
            started: Instant::now(),
            took_ms: None,
        };
        let number = self.list.push(request);
        self.under_way.insert(sent.request_id, number);
    }

    fn received(&mut self, received: ResponseEvent) {
        if received.kind == "Document" && received.request_id == received.loader_id {
            self.document_status = Some((received.loader_id, received.response.status));
        }
        let number = self.under_way.get(&received.request_id).copied();
        if let Some(request) = number.and_then(|it| self.list.get_mut(it)) {
            request.answer(received.response);
        }
    }

    fn end(&mut self, id: &str, outcome: RequestOutcome) {
        let number = self.under_way.remove(id);
        if let Some(request) = number.and_then(|it| self.list.get_mut(it)) {
            request.end(outcome);
        }
    }

    /// How many requests for data, scripts or documents that began after a number are under way.
    pub(crate) fn under_way_since(&self, number: u64) -> usize {
        let counts = |it: &u64| {
            let kind = self.list.get(*it).map(|it| it.kind.as_str());
            *it > number
                && matches!(kind, Some("XHR" | "Fetch" | "Script" | "Stylesheet" | "Document"))
        };
        self.under_way.values().filter(|it| counts(it)).count()
    }

    /// How many requests of any kind, except endless ones, are under way.
    pub(crate) fn under_way(&self) -> usize {
        let is_endless = |it: &u64| {
            let kind = self.list.get(*it).map(|it| it.kind.as_str());
            matches!(kind, None | Some("WebSocket" | "EventSource" | "Media" | "Ping"))
        };
        self.under_way.values().filter(|it| !is_endless(it)).count()
    }

    /// Forgets requests of a session that is gone.
    pub(crate) fn end_session(&mut self, session: &str) {
        let list = &self.list;
        self.under_way.retain(|_, it| list.get(*it).is_some_and(|it| &*it.session != session));
    }
}

impl Request {
    fn answer(&mut self, response: Response) {
        self.status = Some(response.status);
        self.mime_type = cut(&response.mime_type, 100);
        self.response_headers = headers(response.headers);
    }

    fn end(&mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
        self.took_ms = Some(self.started.elapsed().as_millis());
    }
}

fn headers(headers: Map<String, Json>) -> Vec<(String, String)> {
    let text = |it: &Json| match it {
        Json::String(text) => cut(text, MAX_HEADER),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            cut(&it.to_string(), MAX_HEADER)
        }
    };
    headers.iter().take(MAX_HEADERS).map(|(name, value)| (cut(name, 100), text(value))).collect()
}

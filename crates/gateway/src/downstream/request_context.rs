//! A server's way back to the client of a request: forwards notifications, and sends the server's requests to the
//! client where the client declares the capability.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;
use switchboard::connection::server_requests::REASON_META_KEY;
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{CallOwner, Propagation};

use crate::downstream::channel::{ClientChannel, ClientResponse, NotifyOutcome};
use crate::downstream::client::Client;
use crate::json::payload;

/// The method of log messages.
const LOG_MESSAGE: &str = "notifications/message";
/// Notifications about a server. The host handles them; they do not belong to a call.
const SERVER_WIDE: [&str; 6] = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/cancelled",
    "notifications/subscriptions/acknowledged",
];

/// The way back to the client of one request, or of a session outside its requests.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) client: Arc<Client>,
    pub(crate) channel: Arc<dyn ClientChannel>,
    /// Has the client's user approved this call?
    is_approved: AtomicBool,
    /// Requests to the client that have no response yet.
    open_requests: AtomicUsize,
}

/// Counts a request to the client until it is dropped.
struct OpenRequestGuard<'a>(&'a AtomicUsize);

impl<'a> OpenRequestGuard<'a> {
    fn new(open: &'a AtomicUsize) -> OpenRequestGuard<'a> {
        open.fetch_add(1, Ordering::Relaxed);
        OpenRequestGuard(open)
    }
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RequestContext {
    pub(crate) fn new(client: Arc<Client>, channel: Arc<dyn ClientChannel>) -> RequestContext {
        RequestContext {
            client,
            channel,
            is_approved: AtomicBool::new(false),
            open_requests: AtomicUsize::new(0),
        }
    }

    /// Makes the context for messages outside of requests. It is the client's session context for as long as it lives.
    pub(crate) fn for_session(
        client: Arc<Client>,
        channel: Arc<dyn ClientChannel>,
    ) -> Arc<RequestContext> {
        let context = Arc::new(RequestContext::new(client, channel));
        let handler: Arc<dyn CallOwner> = context.clone();
        let channel = Arc::downgrade(&context.channel);
        context.client.set_session_context(Arc::downgrade(&handler), channel);
        context
    }

    /// Records that the client's user approved the call.
    pub(crate) fn approve(&self) {
        self.is_approved.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.is_approved.load(Ordering::Relaxed)
    }

    /// Sends a notification outside of any request, where the client has a session.
    fn notify_outside_request(&self, method: &str, params: Option<&Payload>) {
        if let Some(channel) = self.client.session_channel() {
            channel.notify(Cow::Owned(method.to_owned()), params.cloned());
        }
    }

    /// Why the request cannot be sent to the client.
    fn unsupported(&self, method: &str, params: Option<&Payload>) -> Option<Unsupported> {
        let capabilities = self.client.capabilities();
        let is_supported = match method {
            "elicitation/create" => {
                let is_supported = if is_url_mode(params) {
                    capabilities.url_elicitation
                } else {
                    capabilities.form_elicitation
                };
                return (!is_supported).then_some(Unsupported::Elicitation);
            }
            "sampling/createMessage" => capabilities.sampling,
            "roots/list" => capabilities.roots,
            _ => false,
        };
        (!is_supported).then_some(Unsupported::Method)
    }
}

enum Unsupported {
    Elicitation,
    Method,
}

impl RequestHandler for RequestContext {
    fn respond<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            match self.unsupported(method, params.as_ref()) {
                None => {
                    let _waiting = OpenRequestGuard::new(&self.open_requests);
                    self.channel.request(method, params).await
                }
                Some(Unsupported::Elicitation) => {
                    let reason = "the client does not support this elicitation";
                    Ok(payload(&json!({"action": "decline", "_meta": {REASON_META_KEY: reason}})))
                }
                Some(Unsupported::Method) => {
                    let method: String = method.chars().take(100).collect();
                    let message = format!("the client does not support `{method}`");
                    Err(RpcError { code: -32601, message, data: None })
                }
            }
        })
    }
}

impl CallOwner for RequestContext {
    fn principal(&self) -> u64 {
        self.client.principal_key
    }

    fn has_pending_request(&self) -> bool {
        self.open_requests.load(Ordering::Relaxed) > 0
    }

    fn on_notification(&self, method: &str, params: Option<&Payload>) -> Propagation {
        if SERVER_WIDE.contains(&method) {
            return Propagation::Continue;
        }
        if method != LOG_MESSAGE || self.client.wants_log(&level(params)) {
            let outcome = self.channel.notify(Cow::Owned(method.to_owned()), params.cloned());
            if outcome == NotifyOutcome::RequestEnded {
                self.notify_outside_request(method, params);
            }
        }
        // The host waits for the end of a URL elicitation as well.
        if method == "notifications/elicitation/complete" {
            Propagation::Continue
        } else {
            Propagation::Stop
        }
    }
}

fn level(params: Option<&Payload>) -> String {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default)]
        level: String,
    }
    params.and_then(|it| it.decode::<Params>().ok()).map(|it| it.level).unwrap_or_default()
}

fn is_url_mode(params: Option<&Payload>) -> bool {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default)]
        mode: String,
    }
    params.and_then(|it| it.decode::<Params>().ok()).is_some_and(|it| it.mode == "url")
}

//! A server's way back to the client of a request: forwards notifications, and sends the server's requests to the
//! client where the client declares the capability.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;
use switchboard::connection::REASON_META_KEY;
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{CallOwner, Propagation};
use tracing::{debug, info};

use crate::downstream::approvals::Approvals;
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
    /// Who has approved this call, as bits of [`Approvals`].
    approvals: AtomicU8,
    /// Requests to the client that have no response yet.
    open_requests: AtomicUsize,
    /// The session of the connection that the request uses alone, or [`NO_LEASE`].
    leased_session: AtomicU64,
}

/// The request uses no connection alone.
const NO_LEASE: u64 = 0;

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
            approvals: AtomicU8::new(Approvals::default().to_bits()),
            open_requests: AtomicUsize::new(0),
            leased_session: AtomicU64::new(NO_LEASE),
        }
    }

    /// Sets the session of the connection that the request uses alone.
    pub(crate) fn set_leased_session(&self, session: u64) {
        self.leased_session.store(session, Ordering::Relaxed);
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

    /// Records who approved the call.
    pub(crate) fn add_approvals(&self, approvals: Approvals) {
        self.approvals.fetch_or(approvals.to_bits(), Ordering::Relaxed);
    }

    /// Who has approved the call.
    pub(crate) fn approvals(&self) -> Approvals {
        Approvals::from_bits(self.approvals.load(Ordering::Relaxed))
    }

    /// Sends a notification outside of any request, where the client has a session.
    fn notify_outside_request(&self, method: &str, params: Option<&Payload>) {
        if let Some(channel) = self.client.session_channel() {
            channel.notify(Cow::Owned(method.to_owned()), params.cloned());
        }
    }

    /// Why the request cannot be sent to the client.
    fn unsupported(&self, method: &str, params: Option<&Payload>) -> Option<UnsupportedFeature> {
        let capabilities = self.client.capabilities();
        let is_supported = match method {
            "elicitation/create" => {
                let is_supported = if is_url_mode(params) {
                    capabilities.url_elicitation
                } else {
                    capabilities.form_elicitation
                };
                return (!is_supported).then_some(UnsupportedFeature::Elicitation);
            }
            "sampling/createMessage" => capabilities.sampling,
            "roots/list" => capabilities.roots,
            _ => false,
        };
        (!is_supported).then_some(UnsupportedFeature::Method)
    }
}

enum UnsupportedFeature {
    Elicitation,
    Method,
}

impl RequestHandler for RequestContext {
    fn respond<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            let principal = &*self.client.principal;
            match self.unsupported(method, params.as_ref()) {
                None => {
                    info!(principal, method, "request of a server sent to the client");
                    let _waiting = OpenRequestGuard::new(&self.open_requests);
                    self.channel.request(method, params).await
                }
                Some(UnsupportedFeature::Elicitation) => {
                    debug!(principal, method, "request of a server not supported by the client");
                    let reason = "the client does not support this elicitation";
                    Ok(payload(&json!({"action": "decline", "_meta": {REASON_META_KEY: reason}})))
                }
                Some(UnsupportedFeature::Method) => {
                    debug!(principal, method, "request of a server not supported by the client");
                    let method: String = method.chars().take(100).collect();
                    let message = format!("the client does not support `{method}`");
                    Err(RpcError { code: -32601, message, data: None })
                }
            }
        })
    }
}

impl CallOwner for RequestContext {
    fn session(&self) -> u64 {
        match self.leased_session.load(Ordering::Relaxed) {
            NO_LEASE => self.client.session,
            leased => leased,
        }
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

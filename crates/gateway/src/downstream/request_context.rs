//! Stands for a client while a server works for it: passes on what the server says, and puts its questions to the
//! client, where the client can answer such questions.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;
use switchboard::connection::server_requests::REASON_META_KEY;
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::{Message, Payload, RpcError};
use switchboard_wire::peer::{CallOwner, Propagation};
use tokio::sync::mpsc::error::TrySendError;

use crate::downstream::client::Client;

/// What the method of log messages is called.
const LOG_MESSAGE: &str = "notifications/message";
/// Notifications that are about a server, and not about a call.
const SERVER_WIDE: [&str; 6] = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/cancelled",
    "notifications/subscriptions/acknowledged",
];

/// The way to a client while one of its requests is worked on.
pub(crate) trait ClientChannel: fmt::Debug + Send + Sync {
    /// Says something about the request, before its answer. Must not wait.
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome;

    /// Asks the client something. Takes as long as people take.
    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a>;
}

/// What became of something that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyOutcome {
    /// It is on its way, or there was no room for it.
    Sent,
    /// The request is over.
    RequestEnded,
}

impl NotifyOutcome {
    /// What became of a message for a channel.
    pub(crate) fn from_send(sent: Result<(), TrySendError<Message>>) -> NotifyOutcome {
        match sent {
            Ok(()) | Err(TrySendError::Full(_)) => NotifyOutcome::Sent,
            Err(TrySendError::Closed(_)) => NotifyOutcome::RequestEnded,
        }
    }
}

/// An answer of a client that is being waited for.
pub(crate) type ClientResponse<'a> =
    Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>>;

/// One request's.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) client: Arc<Client>,
    pub(crate) channel: Arc<dyn ClientChannel>,
    /// Has somebody agreed to this very call?
    is_approved: AtomicBool,
    /// How many questions wait for the client.
    open_requests: AtomicUsize,
}

/// Counts a question for as long as it waits.
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

    pub(crate) fn approve(&self) {
        self.is_approved.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_approved(&self) -> bool {
        self.is_approved.load(Ordering::Relaxed)
    }

    /// Says it outside of any request, where the client can be spoken to at any time.
    fn notify_outside_request(&self, method: &str, params: Option<&Payload>) {
        if let Some(channel) = self.client.session_channel() {
            channel.notify(Cow::Owned(method.to_owned()), params.cloned());
        }
    }

    /// Why the client is not asked this.
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
                    let reason = "the client cannot ask anybody this";
                    let answer = json!({"action": "decline", "_meta": {REASON_META_KEY: reason}});
                    Ok(Payload::from_json(answer.to_string().into()))
                }
                Some(Unsupported::Method) => {
                    let method: String = method.chars().take(100).collect();
                    let message = format!("the client does not answer `{method}`");
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
        // Where somebody was sent to a page, the host waits for the news as well.
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

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
use switchboard::counsel::REASON;
use switchboard_wire::client::Respond;
use switchboard_wire::message::{Message, Payload, RemoteError};
use switchboard_wire::peer::{Attend, Heed};
use tokio::sync::mpsc::error::TrySendError;

use crate::guest::Guest;

/// What the method of log messages is called.
const LOG: &str = "notifications/message";
/// Notifications that are about a server, and not about a call.
const OF_THE_SERVER: [&str; 6] = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/cancelled",
    "notifications/subscriptions/acknowledged",
];

/// The way to a client while one of its requests is worked on.
pub(crate) trait Outlet: fmt::Debug + Send + Sync {
    /// Says something about the request, before its answer. Must not wait.
    fn say(&self, method: Cow<'static, str>, params: Option<Payload>) -> Said;

    /// Asks the client something. Takes as long as people take.
    fn ask<'a>(&'a self, method: &'a str, params: Option<Payload>) -> Asking<'a>;
}

/// What became of something that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is on its way, or there was no room for it.
    Sent,
    /// The request is over.
    TooLate,
}

impl Said {
    /// What became of a message for a channel.
    pub(crate) fn of(sent: Result<(), TrySendError<Message>>) -> Said {
        match sent {
            Ok(()) | Err(TrySendError::Full(_)) => Said::Sent,
            Err(TrySendError::Closed(_)) => Said::TooLate,
        }
    }
}

/// An answer of a client that is being waited for.
pub(crate) type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>>;

/// One request's.
#[derive(Debug)]
pub(crate) struct Attendant {
    pub(crate) guest: Arc<Guest>,
    pub(crate) outlet: Arc<dyn Outlet>,
    /// Has somebody agreed to this very call?
    has_leave: AtomicBool,
    /// How many questions wait for the client.
    open: AtomicUsize,
}

/// Counts a question for as long as it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn count(open: &'a AtomicUsize) -> Waiting<'a> {
        open.fetch_add(1, Ordering::Relaxed);
        Waiting(open)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Attendant {
    pub(crate) fn new(guest: Arc<Guest>, outlet: Arc<dyn Outlet>) -> Attendant {
        Attendant { guest, outlet, has_leave: AtomicBool::new(false), open: AtomicUsize::new(0) }
    }

    pub(crate) fn give_leave(&self) {
        self.has_leave.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_leave(&self) -> bool {
        self.has_leave.load(Ordering::Relaxed)
    }

    /// Says it outside of any request, where the client can be spoken to at any time.
    fn say_outside(&self, method: &str, params: Option<&Payload>) {
        if let Some(owner) = self.guest.owner_outlet() {
            owner.say(Cow::Owned(method.to_owned()), params.cloned());
        }
    }

    /// Why the client is not asked this.
    fn obstacle(&self, method: &str, params: Option<&Payload>) -> Option<Obstacle> {
        let can = self.guest.can();
        let is_able = match method {
            "elicitation/create" => {
                let able = if is_page(params) { can.pages } else { can.forms };
                return (!able).then_some(Obstacle::NoElicitation);
            }
            "sampling/createMessage" => can.sampling,
            "roots/list" => can.roots,
            _ => false,
        };
        (!is_able).then_some(Obstacle::Unknown)
    }
}

enum Obstacle {
    NoElicitation,
    Unknown,
}

impl Respond for Attendant {
    fn respond<'a>(&'a self, method: &'a str, params: Option<Payload>) -> Asking<'a> {
        Box::pin(async move {
            match self.obstacle(method, params.as_ref()) {
                None => {
                    let _waiting = Waiting::count(&self.open);
                    self.outlet.ask(method, params).await
                }
                Some(Obstacle::NoElicitation) => {
                    let reason = "the client cannot ask anybody this";
                    let answer = json!({"action": "decline", "_meta": {REASON: reason}});
                    Ok(Payload::from_json(answer.to_string().into()))
                }
                Some(Obstacle::Unknown) => {
                    let method: String = method.chars().take(100).collect();
                    let message = format!("the client does not answer `{method}`");
                    Err(RemoteError { code: -32601, message, data: None })
                }
            }
        })
    }
}

impl Attend for Attendant {
    fn party(&self) -> u64 {
        self.guest.party
    }

    fn waits(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    fn hear(&self, method: &str, params: Option<&Payload>) -> Heed {
        if OF_THE_SERVER.contains(&method) {
            return Heed::Left;
        }
        if method != LOG || self.guest.wants(&level(params)) {
            let said = self.outlet.say(Cow::Owned(method.to_owned()), params.cloned());
            if said == Said::TooLate {
                self.say_outside(method, params);
            }
        }
        // Where somebody was sent to a page, the host waits for the news as well.
        if method == "notifications/elicitation/complete" { Heed::Left } else { Heed::Taken }
    }
}

fn level(params: Option<&Payload>) -> String {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        level: String,
    }
    params.and_then(|it| it.decode::<Said>().ok()).map(|it| it.level).unwrap_or_default()
}

fn is_page(params: Option<&Payload>) -> bool {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        mode: String,
    }
    params.and_then(|it| it.decode::<Said>().ok()).is_some_and(|it| it.mode == "url")
}

//! One call: what is asked, how long it may take, and what happens when nobody waits for it any more.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::{CallError, Command, Departure, Peer, Sent};
use crate::fault::Fault;
use crate::link::{LinkEnd, Outgoing};
use crate::message::{Id, Message, Payload, RemoteError};

/// Progress that finds no room is dropped: the next one says more anyway.
const PROGRESS: usize = 16;

/// A call to be made. Await it; dropping it unfinished tells the other side to stop.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Call {
    peer: Peer,
    number: u64,
    method: Cow<'static, str>,
    params: Option<Payload>,
    headers: Option<Box<HeaderMap>>,
    patience: Patience,
    listener: Option<mpsc::Sender<Progress>>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// As long as the connection lives.
    Endless,
    /// This long.
    Within(Duration),
    /// This long after the last sign of progress.
    SinceProgress(Duration),
}

/// A sign of progress, as the other side sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress(pub Payload);

/// What the task keeps of a call until its answer comes.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Answered>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
}

/// How a call ended, seen from the task.
#[derive(Debug)]
pub(super) enum Answered {
    Outcome(Result<Payload, RemoteError>),
    Lost(Fault),
    Ended(LinkEnd),
}

impl Call {
    pub(super) fn new(peer: Peer, number: u64, method: Cow<'static, str>) -> Call {
        let patience = Patience::Endless;
        Call { peer, number, method, params: None, headers: None, patience, listener: None }
    }

    /// The call's number, which is also the progress token to put into its parameters.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The parameters.
    pub fn params(mut self, params: Payload) -> Call {
        self.params = Some(params);
        self
    }

    /// What is said beside the call, where the transport has headers.
    pub fn headers(mut self, headers: HeaderMap) -> Call {
        self.headers = Some(Box::new(headers));
        self
    }

    /// Gives up after this long.
    pub fn within(mut self, patience: Duration) -> Call {
        self.patience = Patience::Within(patience);
        self
    }

    /// Gives up when nothing was heard for this long; every sign of progress begins the wait anew.
    pub fn within_of_progress(mut self, patience: Duration) -> Call {
        self.patience = Patience::SinceProgress(patience);
        self
    }

    /// Also hands signs of progress to somebody.
    pub fn progress_to(mut self, listener: mpsc::Sender<Progress>) -> Call {
        self.listener = Some(listener);
        self
    }

    async fn run(self) -> Result<Payload, CallError> {
        let Call { peer, number, method, params, headers, patience, listener } = self;
        // Before the channel, so that on leaving the channel closes first: a question that the task has not
        // taken yet is then never sent.
        let mut guard = Guard { peer: &peer, number, reason: Some("the caller is gone") };
        let (answer, mut answered) = oneshot::channel();
        let wants_progress = listener.is_some() || matches!(patience, Patience::SinceProgress(_));
        let (progress, mut signs) = match wants_progress {
            true => {
                let (sender, receiver) = mpsc::channel(PROGRESS);
                (Some(sender), Some(receiver))
            }
            false => (None, None),
        };
        let message = Message::Request { id: Id::Number(number), method, params };
        let waiting = Waiting { answer, progress };
        let outgoing = Outgoing { message, headers };
        let command = Command::Ask { number, outgoing, waiting };
        let began = Instant::now();
        let sent = match patience.limit() {
            None => peer.0.commands.send(command).await.map_err(|_| ()),
            Some(limit) => tokio::select! {
                sent = peer.0.commands.send(command) => sent.map_err(|_| ()),
                () = sleep_until(began + limit) => {
                    guard.reason = None;
                    return Err(CallError::Timeout(limit));
                }
            },
        };
        if sent.is_err() {
            guard.reason = None;
            return Err(CallError::Ended { how: peer.how_it_ended(), sent: Sent::No });
        }
        let mut last_sign = began;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut answered => break outcome,
                Some(sign) = next_sign(&mut signs) => {
                    last_sign = Instant::now();
                    if let Some(listener) = &listener {
                        let _no_room_or_nobody = listener.try_send(sign);
                    }
                }
                limit = patience.run_out(began, last_sign) => {
                    guard.reason = Some("no answer came in time");
                    return Err(CallError::Timeout(limit));
                }
            }
        };
        guard.reason = None;
        match outcome {
            Ok(Answered::Outcome(outcome)) => outcome.map_err(CallError::from),
            Ok(Answered::Lost(fault)) => Err(CallError::Lost(fault)),
            Ok(Answered::Ended(how)) => Err(CallError::Ended { how, sent: Sent::Maybe }),
            Err(_) => Err(CallError::Ended { how: peer.how_it_ended(), sent: Sent::Maybe }),
        }
    }
}

async fn next_sign(signs: &mut Option<mpsc::Receiver<Progress>>) -> Option<Progress> {
    match signs {
        Some(signs) => match signs.recv().await {
            Some(sign) => Some(sign),
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

impl Patience {
    fn limit(self) -> Option<Duration> {
        match self {
            Patience::Endless => None,
            Patience::Within(limit) | Patience::SinceProgress(limit) => Some(limit),
        }
    }

    /// Comes back when there is none left.
    async fn run_out(self, began: Instant, last_sign: Instant) -> Duration {
        match self {
            Patience::Endless => std::future::pending().await,
            Patience::Within(limit) => {
                sleep_until(began + limit).await;
                limit
            }
            Patience::SinceProgress(limit) => {
                sleep_until(last_sign + limit).await;
                limit
            }
        }
    }
}

/// Tells the task when a call is over before its answer came, for whatever reason.
struct Guard<'p> {
    peer: &'p Peer,
    number: u64,
    reason: Option<&'static str>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(reason) = self.reason {
            let leaving = Departure::Caller { number: self.number, reason };
            let _connection_over = self.peer.0.leaving.send(leaving);
        }
    }
}

impl IntoFuture for Call {
    type Output = Result<Payload, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

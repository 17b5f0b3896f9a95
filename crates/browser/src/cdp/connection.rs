//! The connection to a browser: one task owns the channel, matches answers to calls and hands events to a sink.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::debug;

use crate::cdp::channel::{Channel, ChannelMessage};
use crate::cdp::message::{BrowserMessage, Command, Event, ProtocolError};

/// How long a command may take unless its caller says otherwise.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How many commands may wait to be sent.
const MAX_QUEUED: usize = 256;

/// Why a command has no result.
#[derive(Debug, Clone, Error)]
pub(crate) enum CdpError {
    #[error("the connection to the browser has ended")]
    Closed,
    #[error("the page was closed or has crashed")]
    SessionEnded,
    #[error("the browser did not answer `{method}` within {} s", .limit.as_secs_f32())]
    Timeout { method: &'static str, limit: Duration },
    #[error("the browser refused `{method}`: {error}")]
    Refused { method: &'static str, error: ProtocolError },
    #[error("the browser's answer to `{method}` was not understood")]
    Unreadable { method: &'static str },
    #[error("the browser's answer to `{method}` was too long")]
    TooLong { method: &'static str },
}

/// What receives events, in their order, on the task of the connection. It must not block.
pub(crate) trait EventSink: Send + 'static {
    /// An event. Commands that it pushes are sent without waiting for their results.
    fn on_event(&mut self, event: &Event<'_>, commands: &mut CommandList);

    /// The connection has ended.
    fn on_end(&mut self);
}

/// Commands whose results nothing waits for.
#[derive(Debug, Default)]
pub(crate) struct CommandList(Vec<(Option<String>, &'static str, Json)>);

impl CommandList {
    /// Adds a command for a session.
    pub(crate) fn push(&mut self, session: Option<&str>, method: &'static str, params: Json) {
        self.0.push((session.map(str::to_owned), method, params));
    }
}

type Answer = Result<Box<RawValue>, CdpError>;

struct QueuedCommand {
    id: u64,
    text: String,
    session: Option<Arc<str>>,
    answer: Option<oneshot::Sender<Answer>>,
    method: &'static str,
}

/// A handle to the connection. The task ends when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Cdp {
    next_id: Arc<AtomicU64>,
    outgoing: mpsc::Sender<QueuedCommand>,
    ended: watch::Receiver<bool>,
}

impl Cdp {
    /// Starts the task.
    pub(crate) fn spawn(channel: Channel, sink: impl EventSink) -> (Cdp, JoinHandle<()>) {
        let (outgoing, queue) = mpsc::channel(MAX_QUEUED);
        let (end, ended) = watch::channel(false);
        let next_id = Arc::new(AtomicU64::new(1));
        let ids = next_id.clone();
        let task = tokio::spawn(async move {
            let mut sink = sink;
            let driver = Driver { channel, queue, pending: HashMap::new(), ids };
            driver.run(&mut sink).await;
            sink.on_end();
            end.send_replace(true);
        });
        (Cdp { next_id, outgoing, ended }, task)
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Sends a command and waits for its result. Dropping the future forgets the result.
    pub(crate) async fn call(
        &self,
        session: Option<&Arc<str>>,
        method: &'static str,
        params: impl Serialize,
    ) -> Answer {
        self.call_within(session, method, params, CALL_TIMEOUT).await
    }

    /// The same, with a limit of its own.
    pub(crate) async fn call_within(
        &self,
        session: Option<&Arc<str>>,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Answer {
        let (answer, received) = oneshot::channel();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let text = encode(id, method, params, session.map(|it| &**it))?;
        let outgoing =
            QueuedCommand { id, text, session: session.cloned(), answer: Some(answer), method };
        let exchange = async {
            self.outgoing.send(outgoing).await.map_err(|_| CdpError::Closed)?;
            received.await.map_err(|_| CdpError::Closed)?
        };
        timeout(limit, exchange).await.unwrap_or(Err(CdpError::Timeout { method, limit }))
    }

    /// A command's result, decoded.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        session: Option<&Arc<str>>,
        method: &'static str,
        params: impl Serialize,
    ) -> Result<T, CdpError> {
        let result = self.call(session, method, params).await?;
        serde_json::from_str(result.get()).map_err(|_| CdpError::Unreadable { method })
    }

    /// Sends a command without waiting for its result.
    pub(crate) fn post(
        &self,
        session: Option<&Arc<str>>,
        method: &'static str,
        params: impl Serialize,
    ) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if let Ok(text) = encode(id, method, params, session.map(|it| &**it)) {
            let outgoing = QueuedCommand { id, text, session: None, answer: None, method };
            let _full_or_ended = self.outgoing.try_send(outgoing);
        }
    }
}

fn encode(
    id: u64,
    method: &'static str,
    params: impl Serialize,
    session: Option<&str>,
) -> Result<String, CdpError> {
    let command = Command { id, method, params, session };
    serde_json::to_string(&command).map_err(|_| CdpError::Unreadable { method })
}

struct PendingCall {
    session: Option<Arc<str>>,
    answer: oneshot::Sender<Answer>,
    method: &'static str,
}

struct Driver {
    channel: Channel,
    queue: mpsc::Receiver<QueuedCommand>,
    pending: HashMap<u64, PendingCall>,
    ids: Arc<AtomicU64>,
}

impl Driver {
    /// Runs until the browser or every handle is gone.
    async fn run(mut self, sink: &mut impl EventSink) {
        loop {
            tokio::select! {
                outgoing = self.queue.recv() => {
                    let Some(outgoing) = outgoing else { return };
                    if self.send(outgoing).await.is_err() {
                        return;
                    }
                }
                message = self.channel.next() => match message {
                    Ok(Some(ChannelMessage::TooLong(start))) => self.too_long(&start),
                    Ok(Some(ChannelMessage::Whole(message))) => {
                        if self.receive(&message, sink).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        debug!(cause = %error, "the connection to the browser failed");
                        return;
                    }
                },
            }
        }
    }

    async fn send(&mut self, outgoing: QueuedCommand) -> std::io::Result<()> {
        let QueuedCommand { id, text, session, answer, method } = outgoing;
        if let Some(answer) = answer {
            // Callers that gave up leave their entry until the answer arrives.
            if self.pending.len() > 2 * MAX_QUEUED {
                self.pending.retain(|_, it| !it.answer.is_closed());
            }
            self.pending.insert(id, PendingCall { session, answer, method });
        }
        self.channel.send(text).await
    }

    async fn receive(&mut self, message: &[u8], sink: &mut impl EventSink) -> std::io::Result<()> {
        let Ok(incoming) = serde_json::from_slice::<BrowserMessage<'_>>(message) else {
            debug!(bytes = message.len(), "a message of the browser was not understood");
            return Ok(());
        };
        if let Some(id) = incoming.id {
            if let Some(call) = self.pending.remove(&id) {
                let answer = match (incoming.result, incoming.error) {
                    (_, Some(error)) => Err(CdpError::Refused { method: call.method, error }),
                    (Some(result), None) => Ok(result.to_owned()),
                    (None, None) => Err(CdpError::Unreadable { method: call.method }),
                };
                let _caller_left = call.answer.send(answer);
            }
            return Ok(());
        }
        let (Some(method), Some(params)) = (&incoming.method, incoming.params) else {
            return Ok(());
        };
        let event = Event { session: incoming.session.as_deref(), method, params: params.get() };
        self.fail_calls_of_ended_session(&event);
        let mut posted = CommandList::default();
        sink.on_event(&event, &mut posted);
        for (session, method, params) in posted.0 {
            let id = self.ids.fetch_add(1, Ordering::Relaxed);
            if let Ok(text) = encode(id, method, params, session.as_deref()) {
                self.channel.send(text).await?;
            }
        }
        Ok(())
    }

    /// A message that was dropped: the command that it answered fails.
    fn too_long(&mut self, start: &[u8]) {
        debug!("a message of the browser was too long");
        let digits = start.strip_prefix(br#"{"id":"#).unwrap_or_default();
        let end = digits.iter().position(|it| !it.is_ascii_digit()).unwrap_or_default();
        let id = std::str::from_utf8(&digits[..end]).ok().and_then(|it| it.parse::<u64>().ok());
        if let Some(call) = id.and_then(|it| self.pending.remove(&it)) {
            let _caller_left = call.answer.send(Err(CdpError::TooLong { method: call.method }));
        }
    }

    /// Calls to a page that is gone or has crashed would wait for nothing.
    fn fail_calls_of_ended_session(&mut self, event: &Event<'_>) {
        #[derive(serde::Deserialize)]
        struct SessionEnd {
            #[serde(rename = "sessionId")]
            session: String,
        }
        let ended = match event.method {
            "Target.detachedFromTarget" => event.decode::<SessionEnd>().map(|it| it.session),
            "Inspector.targetCrashed" => event.session.map(str::to_owned),
            _ => None,
        };
        let Some(ended) = ended else { return };
        let is_of_ended = |call: &PendingCall| call.session.as_deref() == Some(&*ended);
        let ids: Vec<u64> =
            self.pending.iter().filter(|(_, it)| is_of_ended(it)).map(|(id, _)| *id).collect();
        for call in ids.iter().filter_map(|id| self.pending.remove(id)) {
            let _caller_left = call.answer.send(Err(CdpError::SessionEnded));
        }
    }
}

//! The task behind a peer: owns the link and the calls that wait.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::behalf::{Behalf, Heed};
use super::call::{Answered, Progress};
use super::register::{How, Register, Speech};
use super::{Command, Departure, Event, IncomingRequest, Open, Statistics};
use crate::link::{Arrival, Link, LinkEnd};
use crate::message::{Id, Message, Payload, RemoteError};

/// While more than this waits to be written, callers wait too.
const HIGH_WATER: usize = 1024 * 1024;

/// While more than this waits, our own answers to floods are dropped.
const FLOOD: usize = 2 * HIGH_WATER;
/// How long the last messages may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);
/// What comes to the task from outside.
pub(super) struct Inlets {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) answers: mpsc::Receiver<Message>,
    pub(super) departures: mpsc::UnboundedReceiver<Departure>,
}

/// Where the task tells what happens.
pub(super) struct Outlets {
    pub(super) events: mpsc::Sender<Event>,
    /// For answers to the other side's questions.
    pub(super) answers: mpsc::Sender<Message>,
    /// How many of its questions wait.
    pub(super) open: Arc<AtomicUsize>,
    pub(super) ended: watch::Sender<Option<LinkEnd>>,
}

pub(super) struct Driver<L> {
    link: L,
    register: Arc<Register>,
    outlets: Outlets,
    statistics: Statistics,
}

impl<L: Link> Driver<L> {
    pub(super) fn new(link: L, register: Arc<Register>, outlets: Outlets) -> Driver<L> {
        Driver { link, register, outlets, statistics: Statistics::default() }
    }

    pub(super) async fn run(mut self, inlets: Inlets) -> Statistics {
        let Inlets { mut commands, mut answers, mut departures } = inlets;
        let how = loop {
            let has_room = self.link.queued() < HIGH_WATER;
            // Calls may wait for our answers, so answers do not wait behind calls.
            let has_room_for_answers = self.link.queued() < FLOOD;
            tokio::select! {
                command = commands.recv(), if has_room => match command {
                    Some(command) => {
                        self.obey(command);
                        self.obey_more(&mut commands);
                    }
                    // Nobody holds a handle any more.
                    None => break self.leave().await,
                },
                Some(answer) = answers.recv(), if has_room_for_answers => {
                    self.link.push(answer.into());
                }
                Some(departure) = departures.recv() => match departure {
                    Departure::Caller { number, reason } => self.abandon(number, reason),
                    Departure::Everybody => {
                        self.obey_more(&mut commands);
                        while let Ok(answer) = answers.try_recv() {
                            self.link.push(answer.into());
                        }
                        break self.leave().await;
                    }
                },
                arrival = self.link.next() => match arrival {
                    Ok(Arrival::Message(message)) => self.receive(message, None),
                    Ok(Arrival::Amid { id, message }) => self.receive(message, Some(&id)),
                    Ok(Arrival::Lost { id, fault }) => self.settle(id, Answered::Lost(fault)),
                    Ok(Arrival::Garbage(_)) => self.statistics.garbage += 1,
                    Err(how) => break how,
                },
            }
        };
        self.outlets.ended.send_replace(Some(how.clone()));
        commands.close();
        for waiting in self.register.drain() {
            let _caller_left = waiting.answer.send(Answered::Ended(how.clone()));
        }
        self.statistics
    }

    /// What was said last still leaves.
    async fn leave(&mut self) -> LinkEnd {
        let _other_side_slow = timeout(FAREWELL, self.link.farewell()).await;
        LinkEnd::Closed
    }

    /// Takes what else is there at once, so that many messages leave in one write.
    fn obey_more(&mut self, commands: &mut mpsc::Receiver<Command>) {
        while self.link.queued() < HIGH_WATER {
            match commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(_) => return,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Ask { number, outgoing, waiting } => {
                if waiting.answer.is_closed() {
                    return;
                }
                self.register.add(number, waiting);
                self.link.push(outgoing);
            }
            Command::Send(message) => self.link.push(message.into()),
        }
    }

    /// Only a call that still waits is cancelled: an answer may have crossed the caller's leaving.
    fn abandon(&mut self, number: u64, reason: &str) {
        if self.register.end(number, How::CalledOff).is_none() {
            return;
        }
        let params = json!({"requestId": number, "reason": reason});
        let params = Payload::from_json(params.to_string().into());
        let method = Cow::Borrowed("notifications/cancelled");
        self.link.push(Message::Notification { method, params: Some(params) }.into());
    }

    fn receive(&mut self, message: Message, amid: Option<&Id>) {
        match message {
            Message::Answer { id, outcome } => self.settle(id, Answered::Outcome(outcome)),
            Message::Notification { method, params } => self.hear(method, params, amid),
            Message::Request { id, method, params } => {
                let behalf = self.register.behalf(amid, Speech::Asks);
                self.be_asked(id, method, params, behalf);
            }
        }
    }

    fn settle(&mut self, id: Option<Id>, answered: Answered) {
        let waiting = match id {
            Some(Id::Number(number)) => self.register.end(number, How::Answered),
            Some(Id::Other(_)) | None => None,
        };
        match (waiting, answered) {
            (Some(waiting), answered) => {
                let _caller_left = waiting.answer.send(answered);
            }
            (None, Answered::Lost(_)) => self.statistics.undelivered += 1,
            (None, Answered::Outcome(_) | Answered::Ended(_)) => self.statistics.stray_answers += 1,
        }
    }

    fn hear(&mut self, method: Cow<'static, str>, params: Option<Payload>, amid: Option<&Id>) {
        if method == "notifications/progress"
            && let Some(params) = &params
            && let Some(number) = progress_token(params)
            && let Some(listener) = self.register.look(number, |it| it.progress.clone())
        {
            if let Some(progress) = listener {
                let _no_room = progress.try_send(Progress(params.clone()));
            }
            return;
        }
        if let Behalf::One(attendant) = self.register.behalf(amid, Speech::Says)
            && attendant.hear(&method, params.as_ref()) == Heed::Taken
        {
            return;
        }
        if self.outlets.events.try_send(Event::Notification { method, params }).is_err() {
            self.statistics.dropped_notifications += 1;
        }
    }

    fn be_asked(
        &mut self,
        id: Id,
        method: Cow<'static, str>,
        params: Option<Payload>,
        behalf: Behalf,
    ) {
        if method == "ping" {
            let outcome = Ok(Payload::from_json(bytes::Bytes::from_static(b"{}")));
            self.reply(id, outcome);
            return;
        }
        let answer = Some(self.outlets.answers.clone());
        let _open = Open::count(&self.outlets.open);
        let request = IncomingRequest { id, method, params, behalf, answer, _open };
        let Err(error) = self.outlets.events.try_send(Event::Request(request)) else { return };
        self.statistics.refused_requests += 1;
        let message = match &error {
            TrySendError::Full(_) => "too many questions are waiting",
            TrySendError::Closed(_) => "nobody answers questions here",
        };
        if let Event::Request(mut request) = error.into_inner() {
            request.answer = None;
            let error = RemoteError { code: -32603, message: message.to_owned(), data: None };
            self.reply(request.id.clone(), Err(error));
        }
    }

    /// Answers without anybody's doing. A side that asks and does not read gets no more of these: callers can
    /// be made to wait, a flood of questions cannot.
    fn reply(&mut self, id: Id, outcome: Result<Payload, RemoteError>) {
        if self.link.queued() < FLOOD {
            self.link.push(Message::Answer { id: Some(id), outcome }.into());
        } else {
            self.statistics.dropped_answers += 1;
        }
    }
}

/// The number of the call that progress belongs to. Servers give the token back as they got it, some as text.
fn progress_token(params: &Payload) -> Option<u64> {
    #[derive(Deserialize)]
    struct Token<'a> {
        #[serde(borrow, rename = "progressToken")]
        token: &'a RawValue,
    }
    let parsed: Token<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    parsed.token.get().trim_matches('"').parse().ok()
}

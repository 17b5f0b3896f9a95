//! One call: what is asked, how long it may take, and what happens when nobody waits for it any more.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use tokio::sync::mpsc::error::{SendError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep};

use super::behalf::Attend;
use super::register::How;
use super::{CallError, Command, Departure, Peer, Sent};
use crate::fault::Fault;
use crate::link::{LinkEnd, Outgoing, Shortly};
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
    attendant: Option<Arc<dyn Attend>>,
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
    /// This long, not counting what the other side waits for us.
    OfItsOwn(Duration),
}

/// A sign of progress, as the other side sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress(pub Payload);

/// What the task keeps of a call until its answer comes.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Answered>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    pub(super) attendant: Option<Arc<dyn Attend>>,
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
        let (params, headers, listener, attendant) = (None, None, None, None);
        Call { peer, number, method, params, headers, patience, listener, attendant }
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

    /// Gives up when nothing was heard for this long; every sign of progress begins the wait anew, and it does not
    /// end while the other side waits for an answer of ours.
    pub fn within_of_progress(mut self, patience: Duration) -> Call {
        self.patience = Patience::SinceProgress(patience);
        self
    }

    /// Gives up after this long, but not while the other side waits for an answer of ours.
    pub fn within_of_its_own(mut self, patience: Duration) -> Call {
        self.patience = Patience::OfItsOwn(patience);
        self
    }

    /// Who hears what the other side says and answers what it asks on account of this call.
    pub fn attended_by(mut self, attendant: Arc<dyn Attend>) -> Call {
        self.attendant = Some(attendant);
        self
    }

    /// Also hands signs of progress to somebody.
    pub fn progress_to(mut self, listener: mpsc::Sender<Progress>) -> Call {
        self.listener = Some(listener);
        self
    }
}

impl IntoFuture for Call {
    type Output = Result<Payload, CallError>;
    type IntoFuture = Calling;

    fn into_future(self) -> Calling {
        let Call { peer, number, method, params, headers, patience, listener, attendant } = self;
        let (answer, answered) = oneshot::channel();
        let wants_progress = listener.is_some() || matches!(patience, Patience::SinceProgress(_));
        let (progress, signs) = match wants_progress {
            true => {
                let (sender, receiver) = mpsc::channel(PROGRESS);
                (Some(sender), Some(receiver))
            }
            false => (None, None),
        };
        let message = Message::Request { id: Id::Number(number), method, params };
        let waiting = Waiting { answer, progress, attendant };
        let stage = Stage::New(Outgoing { message, headers }, waiting);
        Calling { peer, number, stage, answered, patience, alarm: None, signs, listener }
    }
}

/// A call under way. Dropping it unfinished tells the other side to stop.
///
/// It is written out, not an `async` block in a box: most calls wait for one thing only, their answer.
#[derive(Debug)]
#[must_use = "a call does nothing until it is awaited"]
pub struct Calling {
    peer: Peer,
    number: u64,
    stage: Stage,
    answered: oneshot::Receiver<Answered>,
    patience: Patience,
    /// Rings when there is no patience left. Set when the call is first polled, where there is a limit.
    alarm: Option<Pin<Box<Sleep>>>,
    signs: Option<mpsc::Receiver<Progress>>,
    listener: Option<mpsc::Sender<Progress>>,
}

/// How far a call has come.
enum Stage {
    /// Nobody has heard of it.
    New(Outgoing, Waiting),
    /// It goes past the task; this is where it is asked and answered.
    Short(BoxFuture<'static, Shortly>),
    /// The task has no room for it yet.
    Queueing(Pin<Box<dyn Future<Output = Result<(), SendError<Command>>> + Send>>),
    /// The task has it, or will.
    Asked,
    /// It has ended.
    Over,
}

impl Future for Calling {
    type Output = Result<Payload, CallError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        loop {
            match &mut call.stage {
                Stage::New(..) => call.ask()?,
                Stage::Short(asked) => match asked.as_mut().poll(task) {
                    Poll::Ready(Shortly::HandedOver) => call.stage = Stage::Asked,
                    Poll::Ready(Shortly::Answered(outcome)) => {
                        call.settle();
                        return Poll::Ready(outcome.map_err(CallError::from));
                    }
                    Poll::Ready(Shortly::Lost(fault)) => {
                        call.settle();
                        return Poll::Ready(Err(CallError::Lost(fault)));
                    }
                    // The connection may end meanwhile.
                    Poll::Pending => return call.poll_answered(task),
                },
                Stage::Queueing(sending) => match sending.as_mut().poll(task) {
                    Poll::Ready(Ok(())) => call.stage = Stage::Asked,
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(call.never_left())),
                    Poll::Pending => return call.poll_alarm(task),
                },
                Stage::Asked => return call.poll_answered(task),
                Stage::Over => panic!("a call that has ended was polled again"),
            }
        }
    }
}

impl Calling {
    fn ask(&mut self) -> Result<(), CallError> {
        let Stage::New(outgoing, waiting) = mem::replace(&mut self.stage, Stage::Asked) else {
            return Ok(());
        };
        self.alarm = self.patience.limit().map(|limit| Box::pin(sleep(limit)));
        let shared = &self.peer.0;
        let number = self.number;
        let asked = match &shared.shortcut {
            Some(shortcut) => shortcut.clone().ask(outgoing),
            None => Err(outgoing),
        };
        let outgoing = match asked {
            Ok(asked) => {
                shared.register.add(number, waiting);
                self.stage = Stage::Short(asked);
                // The task closes this before it tells everybody who is in the register.
                if shared.commands.is_closed() {
                    self.settle();
                    return Err(self.never_left());
                }
                return Ok(());
            }
            Err(outgoing) => outgoing,
        };
        match shared.commands.try_send(Command::Ask { number, outgoing, waiting }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(command)) => {
                let commands = self.peer.0.commands.clone();
                let sending = async move { commands.send(command).await };
                self.stage = Stage::Queueing(Box::pin(sending));
                Ok(())
            }
            Err(TrySendError::Closed(_)) => Err(self.never_left()),
        }
    }

    /// The call has its answer, and the task did not see it.
    fn settle(&mut self) {
        self.stage = Stage::Over;
        let _the_other_end_of_ours = self.peer.0.register.end(self.number, How::Answered);
    }

    fn poll_answered(&mut self, task: &mut Context<'_>) -> Poll<Result<Payload, CallError>> {
        if let Poll::Ready(answered) = Pin::new(&mut self.answered).poll(task) {
            // What was said before the answer may come with it.
            self.hear_signs(task);
            self.stage = Stage::Over;
            return Poll::Ready(self.outcome(answered.ok()));
        }
        self.hear_signs(task);
        self.poll_alarm(task)
    }

    fn never_left(&mut self) -> CallError {
        self.stage = Stage::Over;
        CallError::Ended { how: self.peer.how_it_ended(), sent: Sent::No }
    }

    fn outcome(&self, answered: Option<Answered>) -> Result<Payload, CallError> {
        match answered {
            Some(Answered::Outcome(outcome)) => outcome.map_err(CallError::from),
            Some(Answered::Lost(fault)) => Err(CallError::Lost(fault)),
            Some(Answered::Ended(how)) => Err(CallError::Ended { how, sent: Sent::Maybe }),
            None => Err(CallError::Ended { how: self.peer.how_it_ended(), sent: Sent::Maybe }),
        }
    }

    /// Passes signs of progress on; the alarm is set anew where that is the agreement.
    fn hear_signs(&mut self, task: &mut Context<'_>) {
        while let Some(signs) = &mut self.signs
            && let Poll::Ready(sign) = signs.poll_recv(task)
        {
            let Some(sign) = sign else {
                self.signs = None;
                return;
            };
            if let (Patience::SinceProgress(limit), Some(alarm)) = (self.patience, &mut self.alarm)
            {
                alarm.as_mut().reset(Instant::now() + limit);
            }
            if let Some(listener) = &self.listener {
                let _no_room_or_nobody = listener.try_send(sign);
            }
        }
    }

    fn poll_alarm(&mut self, task: &mut Context<'_>) -> Poll<Result<Payload, CallError>> {
        let (Some(alarm), Some(limit)) = (&mut self.alarm, self.patience.limit()) else {
            return Poll::Pending;
        };
        while alarm.as_mut().poll(task).is_ready() {
            // The other side asked us something on its way, and people take as long as people take.
            if matches!(self.patience, Patience::Within(_)) || !self.peer.is_asked() {
                return self.give_up(limit);
            }
            alarm.as_mut().reset(Instant::now() + limit);
        }
        Poll::Pending
    }

    fn give_up(&mut self, limit: Duration) -> Poll<Result<Payload, CallError>> {
        self.abandon("no answer came in time");
        Poll::Ready(Err(CallError::Timeout(limit)))
    }

    /// Tells the task that nobody waits any more. The channel closes first: a question that the task has not
    /// taken yet is then never sent.
    fn abandon(&mut self, reason: &'static str) {
        if let Stage::Asked | Stage::Short(_) = mem::replace(&mut self.stage, Stage::Over) {
            self.answered.close();
            let departure = Departure::Caller { number: self.number, reason };
            let _connection_over = self.peer.0.departures.send(departure);
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.abandon("the caller is gone");
    }
}

/// Prints no parameters.
impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::New(..) => "New",
            Stage::Short(_) => "Short",
            Stage::Queueing(_) => "Queueing",
            Stage::Asked => "Asked",
            Stage::Over => "Over",
        })
    }
}

impl Patience {
    fn limit(self) -> Option<Duration> {
        match self {
            Patience::Endless => None,
            Patience::Within(limit)
            | Patience::SinceProgress(limit)
            | Patience::OfItsOwn(limit) => Some(limit),
        }
    }
}

//! One question of a modern client, worked on until it is answered or somebody has to be asked something first. Then
//! the work is parked: it goes on from where it was when the client comes back with the answers.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard_wire::asked::Members;
use switchboard_wire::message::{Message, Payload, RemoteError};
use switchboard_wire::reception;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::attendant::{Asking, Outlet, Said};
use crate::relay::{Asked, Relay};

/// How many messages may wait to be sent. One that finds no room is left out.
const NOTES: usize = 256;
/// How many questions may wait to be put.
const QUESTIONS: usize = 16;

/// Questions that come this close together are asked together.
const TOGETHER: Duration = Duration::from_millis(40);

/// An answer, or why there is none.
pub(crate) type Outcome = Result<Payload, RemoteError>;

/// Work on a question.
pub(crate) struct Turn {
    work: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    finished: Option<Outcome>,
    notes: mpsc::Receiver<Message>,
    questions: mpsc::Receiver<Inquiry>,
    open: Vec<Open>,
    asked_so_far: usize,
    /// Is the client to be told again what it has not answered?
    is_unanswered: bool,
    /// What it is about: the answers must come with the same question.
    pub(crate) about: String,
    pub(crate) principal: Arc<str>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.about)
    }
}

/// A question on its way to the client.
#[derive(Debug)]
struct Inquiry {
    method: String,
    params: Option<Payload>,
    reply: oneshot::Sender<Outcome>,
}

/// A question that the client has been asked.
#[derive(Debug)]
struct Open {
    name: String,
    inquiry: Inquiry,
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Something is said meanwhile.
    Told(Message),
    /// Something is asked. The questions, by name, as the client is told.
    Asked(Json),
    /// It is over.
    Done(Outcome),
}

impl Turn {
    /// Begins to work. Nothing happens until somebody asks for the next step.
    pub(crate) fn begin(
        relay: Arc<Relay>,
        (principal, about): (Arc<str>, String),
        asked: impl FnOnce(Arc<dyn Outlet>) -> Asked,
    ) -> Turn {
        let (say, notes) = mpsc::channel(NOTES);
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let asked = asked(Arc::new(TurnOutlet { say, ask }));
        let work = Box::pin(async move { relay.answer(asked).await });
        let (finished, open, asked_so_far) = (None, Vec::new(), 0);
        Turn {
            work,
            finished,
            notes,
            questions,
            open,
            asked_so_far,
            is_unanswered: false,
            about,
            principal,
        }
    }

    /// One whose result is there already.
    pub(crate) fn over(principal: Arc<str>, result: Payload) -> Turn {
        let (notes, questions) = (mpsc::channel(1).1, mpsc::channel(1).1);
        let (finished, open, about) = (Some(Ok(result)), Vec::new(), String::new());
        let work = Box::pin(std::future::pending());
        let (asked_so_far, is_unanswered) = (0, false);
        Turn {
            work,
            finished,
            notes,
            questions,
            open,
            asked_so_far,
            is_unanswered,
            about,
            principal,
        }
    }

    /// The next step. May be dropped and asked again. What is said comes before the answer.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(outcome) = self.finished.take() {
            return self.done(outcome);
        }
        if std::mem::take(&mut self.is_unanswered) {
            return Step::Asked(self.requests());
        }
        tokio::select! {
            biased;
            Some(note) = self.notes.recv() => Step::Told(note),
            Some(inquiry) = self.questions.recv() => {
                self.note(inquiry);
                self.more_questions().await;
                Step::Asked(self.requests())
            }
            outcome = &mut self.work => self.done(outcome),
        }
    }

    /// Servers may ask several things at once, each by itself; the client is to hear of them together.
    async fn more_questions(&mut self) {
        while self.open.len() < QUESTIONS {
            tokio::select! {
                biased;
                inquiry = self.questions.recv() => match inquiry {
                    Some(inquiry) => self.note(inquiry),
                    None => return,
                },
                outcome = &mut self.work => {
                    self.finished = Some(outcome);
                    return;
                }
                () = sleep(TOGETHER) => return,
            }
        }
    }

    fn done(&mut self, outcome: Outcome) -> Step {
        match self.notes.try_recv() {
            Ok(note) => {
                self.finished = Some(outcome);
                Step::Told(note)
            }
            Err(_) => Step::Done(outcome),
        }
    }

    /// Gives back an outcome that somebody took and could not use.
    pub(crate) fn put_back(&mut self, outcome: Option<Outcome>) {
        self.finished = outcome.or(self.finished.take());
    }

    fn note(&mut self, inquiry: Inquiry) {
        self.asked_so_far += 1;
        self.open.push(Open { name: format!("question-{}", self.asked_so_far), inquiry });
    }

    /// The questions that wait for the client.
    pub(crate) fn requests(&self) -> Json {
        let request = |open: &Open| {
            let mut request = json!({"method": open.inquiry.method});
            if let Some(params) = &open.inquiry.params {
                request["params"] = params.decode().unwrap_or_default();
            }
            (open.name.clone(), request)
        };
        let asked = self.open.iter().filter(|it| !it.inquiry.reply.is_closed());
        Json::Object(asked.map(request).collect::<Map<String, Json>>())
    }

    /// Hands the client's answers to whoever asked. Questions that nobody waits for any more are forgotten.
    pub(crate) fn answer(&mut self, responses: Option<&Payload>) -> Result<(), RemoteError> {
        let responses = Members::read(responses)
            .ok_or_else(|| reception::invalid("`inputResponses` is no object"))?;
        let mut still = Vec::new();
        for open in self.open.drain(..) {
            match responses.get(&open.name) {
                Some(response) => {
                    let _no_longer_wanted = open.inquiry.reply.send(Ok(response.clone()));
                }
                None if open.inquiry.reply.is_closed() => {}
                None => still.push(open),
            }
        }
        self.open = still;
        self.is_unanswered = !self.open.is_empty();
        Ok(())
    }
}

/// The way to a client that cannot be asked while it waits.
#[derive(Debug)]
struct TurnOutlet {
    say: mpsc::Sender<Message>,
    ask: mpsc::Sender<Inquiry>,
}

impl Outlet for TurnOutlet {
    fn say(&self, method: Cow<'static, str>, params: Option<Payload>) -> Said {
        Said::of(self.say.try_send(Message::Notification { method, params }))
    }

    fn ask<'a>(&'a self, method: &'a str, params: Option<Payload>) -> Asking<'a> {
        Box::pin(async move {
            let gone = || reception::failed("the client is gone");
            let (reply, answer) = oneshot::channel();
            let inquiry = Inquiry { method: method.to_owned(), params, reply };
            self.ask.send(inquiry).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }
}

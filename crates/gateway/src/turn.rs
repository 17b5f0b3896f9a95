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
use crate::visiting::About;

/// How many messages may wait to be sent. One that finds no room is left out.
const NOTES: usize = 256;
/// How many questions may wait to be put.
const QUESTIONS: usize = 16;

/// Questions that come this close together are asked together.
const TOGETHER: Duration = Duration::from_millis(40);

/// An answer, or why there is none.
pub(crate) type Outcome = Result<Payload, RemoteError>;

type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Work on a question.
pub(crate) struct Turn {
    work: Work,
    finished: Option<Outcome>,
    notes: mpsc::Receiver<Message>,
    questions: mpsc::Receiver<Inquiry>,
    open: Vec<Open>,
    asked_so_far: usize,
    /// Has the client yet to be asked what is open?
    is_unasked: bool,
    /// What it is about: the answers must come with the same question.
    pub(crate) about: About,
    pub(crate) principal: Arc<str>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.about.method)
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
        (principal, about): (Arc<str>, About),
        asked: impl FnOnce(Arc<dyn Outlet>) -> Asked,
    ) -> Turn {
        let (say, notes) = mpsc::channel(NOTES);
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let asked = asked(Arc::new(TurnOutlet { say, ask }));
        let work = Box::pin(async move { relay.answer(asked).await });
        Turn::of(work, (notes, questions), (principal, about))
    }

    /// One whose result is there already.
    pub(crate) fn over(principal: Arc<str>, result: Payload) -> Turn {
        let heard = (mpsc::channel(1).1, mpsc::channel(1).1);
        let work = Box::pin(std::future::ready(Ok(result)));
        Turn::of(work, heard, (principal, About::default()))
    }

    fn of(
        work: Work,
        (notes, questions): (mpsc::Receiver<Message>, mpsc::Receiver<Inquiry>),
        (principal, about): (Arc<str>, About),
    ) -> Turn {
        Turn {
            work,
            finished: None,
            notes,
            questions,
            open: Vec::new(),
            asked_so_far: 0,
            is_unasked: false,
            about,
            principal,
        }
    }

    /// The next step. May be dropped and asked again. What is said comes before the answer.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(outcome) = self.finished.take() {
            return self.done(outcome);
        }
        if !self.is_unasked {
            tokio::select! {
                biased;
                Some(note) = self.notes.recv() => return Step::Told(note),
                Some(inquiry) = self.questions.recv() => self.note(inquiry),
                outcome = &mut self.work => return self.done(outcome),
            }
        }
        // Whoever drops this here and asks again is asked the same, since nothing says yet that the client was.
        self.more_questions().await;
        self.is_unasked = false;
        Step::Asked(self.requests())
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
        self.is_unasked = true;
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
    pub(crate) fn answer(&mut self, responses: &Members) {
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
        self.is_unasked = !self.open.is_empty();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that asks one thing and gives the answer, and one more question beside it a little later.
    fn asking() -> Turn {
        let (say, notes) = mpsc::channel(NOTES);
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let outlet = TurnOutlet { say, ask };
        let work = Box::pin(async move {
            let later = async {
                sleep(TOGETHER / 2).await;
                outlet.ask("roots/list", None).await
            };
            let (first, _second) = tokio::join!(outlet.ask("elicitation/create", None), later);
            first
        });
        Turn::of(work, (notes, questions), ("ada".into(), About::default()))
    }

    fn names(step: Step) -> Vec<String> {
        match step {
            Step::Asked(requests) => {
                requests.as_object().into_iter().flatten().map(|it| it.0.clone()).collect()
            }
            Step::Told(_) | Step::Done(_) => panic!("it asks: {step:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_away_while_questions_gather_is_asked_all_the_same() {
        let mut turn = asking();
        let looked_away = tokio::time::timeout(TOGETHER / 4, turn.next()).await;
        assert!(looked_away.is_err(), "questions are still being gathered");
        assert_eq!(names(turn.next().await), ["question-1", "question-2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_answered_is_asked_again_and_then_it_is_done() {
        let mut turn = asking();
        assert_eq!(names(turn.next().await), ["question-1", "question-2"]);
        let answers = |text: &'static str| {
            let text = Payload::from_json(bytes::Bytes::from_static(text.as_bytes()));
            Members::read(Some(&text)).expect("an object")
        };
        turn.answer(&answers(r#"{"question-2": {}, "question-9": {}}"#));
        assert_eq!(names(turn.next().await), ["question-1"]);
        turn.answer(&answers(r#"{"question-1": {"action": "accept"}}"#));
        let Step::Done(Ok(answer)) = turn.next().await else { panic!("it is done") };
        assert_eq!(answer.as_bytes().as_ref(), br#"{"action": "accept"}"#);
    }
}

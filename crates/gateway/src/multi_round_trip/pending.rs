//! One question of a modern client, worked on until it is answered or somebody has to be asked something first. Then
//! the work is parked: it goes on from where it was when the client comes back with the answers.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard_wire::jsonrpc::message::{Message, Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::downstream::request_context::{ClientChannel, ClientResponse, NotifyOutcome};
use crate::multi_round_trip::modern_request::OriginalRequest;
use crate::relay::{InboundRequest, Relay};

/// How many messages may wait to be sent. One that finds no room is left out.
const NOTIFICATION_CAPACITY: usize = 256;
/// How many questions may wait to be put.
const INPUT_CAPACITY: usize = 16;

/// Questions that come this close together are asked together.
const INPUT_BATCH_DELAY: Duration = Duration::from_millis(40);

/// An answer, or why there is none.
pub(crate) type Outcome = Result<Payload, RpcError>;

type OutcomeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Work on a question.
pub(crate) struct PendingRequest {
    work: OutcomeFuture,
    finished: Option<Outcome>,
    notifications: mpsc::Receiver<Message>,
    input_requests: mpsc::Receiver<InputRequest>,
    open_inputs: Vec<OpenInput>,
    input_count: usize,
    /// Has the client yet to be asked what is open?
    has_unsent_inputs: bool,
    /// What it is about: the answers must come with the same question.
    pub(crate) original: OriginalRequest,
    pub(crate) principal: Arc<str>,
}

impl fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.original.method)
    }
}

/// A question on its way to the client.
#[derive(Debug)]
struct InputRequest {
    method: String,
    params: Option<Payload>,
    reply: oneshot::Sender<Outcome>,
}

/// A question that the client has been asked.
#[derive(Debug)]
struct OpenInput {
    name: String,
    request: InputRequest,
}

/// What happens next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Something is said meanwhile.
    Notification(Message),
    /// Something is asked. The questions, by name, as the client is told.
    InputRequired(Json),
    /// It is over.
    Complete(Outcome),
}

impl PendingRequest {
    /// Begins to work. Nothing happens until somebody asks for the next step.
    pub(crate) fn start(
        relay: Arc<Relay>,
        (principal, original): (Arc<str>, OriginalRequest),
        inbound: impl FnOnce(Arc<dyn ClientChannel>) -> InboundRequest,
    ) -> PendingRequest {
        let (say, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
        let (ask, inputs) = mpsc::channel(INPUT_CAPACITY);
        let inbound =
            inbound(Arc::new(MultiRoundTripChannel { notifications: say, input_requests: ask }));
        let work = Box::pin(async move { relay.respond(inbound).await });
        PendingRequest::new(work, (notifications, inputs), (principal, original))
    }

    /// One whose result is there already.
    pub(crate) fn completed(principal: Arc<str>, result: Payload) -> PendingRequest {
        let receivers = (mpsc::channel(1).1, mpsc::channel(1).1);
        let work = Box::pin(std::future::ready(Ok(result)));
        PendingRequest::new(work, receivers, (principal, OriginalRequest::default()))
    }

    fn new(
        work: OutcomeFuture,
        (notifications, input_requests): (mpsc::Receiver<Message>, mpsc::Receiver<InputRequest>),
        (principal, original): (Arc<str>, OriginalRequest),
    ) -> PendingRequest {
        PendingRequest {
            work,
            finished: None,
            notifications,
            input_requests,
            open_inputs: Vec::new(),
            input_count: 0,
            has_unsent_inputs: false,
            original,
            principal,
        }
    }

    /// The next step. May be dropped and asked again. What is said comes before the answer.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(outcome) = self.finished.take() {
            return self.complete(outcome);
        }
        if !self.has_unsent_inputs {
            tokio::select! {
                biased;
                Some(note) = self.notifications.recv() => return Step::Notification(note),
                Some(input) = self.input_requests.recv() => self.add_input(input),
                outcome = &mut self.work => return self.complete(outcome),
            }
        }
        // Whoever drops this here and asks again is asked the same, since nothing says yet that the client was.
        self.collect_inputs().await;
        self.has_unsent_inputs = false;
        Step::InputRequired(self.input_requests())
    }

    /// Servers may ask several things at once, each by itself; the client is to hear of them together.
    async fn collect_inputs(&mut self) {
        while self.open_inputs.len() < INPUT_CAPACITY {
            tokio::select! {
                biased;
                input = self.input_requests.recv() => match input {
                    Some(input) => self.add_input(input),
                    None => return,
                },
                outcome = &mut self.work => {
                    self.finished = Some(outcome);
                    return;
                }
                () = sleep(INPUT_BATCH_DELAY) => return,
            }
        }
    }

    fn complete(&mut self, outcome: Outcome) -> Step {
        match self.notifications.try_recv() {
            Ok(note) => {
                self.finished = Some(outcome);
                Step::Notification(note)
            }
            Err(_) => Step::Complete(outcome),
        }
    }

    /// Gives back an outcome that somebody took and could not use.
    pub(crate) fn restore_outcome(&mut self, outcome: Option<Outcome>) {
        self.finished = outcome.or(self.finished.take());
    }

    fn add_input(&mut self, input: InputRequest) {
        self.input_count += 1;
        self.has_unsent_inputs = true;
        self.open_inputs
            .push(OpenInput { name: format!("question-{}", self.input_count), request: input });
    }

    /// The questions that wait for the client.
    pub(crate) fn input_requests(&self) -> Json {
        let request = |open: &OpenInput| {
            let mut request = json!({"method": open.request.method});
            if let Some(params) = &open.request.params {
                request["params"] = params.decode().unwrap_or_default();
            }
            (open.name.clone(), request)
        };
        let inbound = self.open_inputs.iter().filter(|it| !it.request.reply.is_closed());
        Json::Object(inbound.map(request).collect::<Map<String, Json>>())
    }

    /// Hands the client's answers to whoever asked. Questions that nobody waits for any more are forgotten.
    pub(crate) fn submit_responses(&mut self, responses: &RawObject) {
        let mut unanswered = Vec::new();
        for open in self.open_inputs.drain(..) {
            match responses.get(&open.name) {
                Some(response) => {
                    let _withdrawn = open.request.reply.send(Ok(response.clone()));
                }
                None if open.request.reply.is_closed() => {}
                None => unanswered.push(open),
            }
        }
        self.open_inputs = unanswered;
        self.has_unsent_inputs = !self.open_inputs.is_empty();
    }
}

/// The way to a client that cannot be asked while it waits.
#[derive(Debug)]
struct MultiRoundTripChannel {
    notifications: mpsc::Sender<Message>,
    input_requests: mpsc::Sender<InputRequest>,
}

impl ClientChannel for MultiRoundTripChannel {
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome {
        NotifyOutcome::from_send(
            self.notifications.try_send(Message::Notification { method, params }),
        )
    }

    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            let gone = || server::internal_error("the client is gone");
            let (reply, answer) = oneshot::channel();
            let input = InputRequest { method: method.to_owned(), params, reply };
            self.input_requests.send(input).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that asks one thing and gives the answer, and one more question beside it a little later.
    fn asking() -> PendingRequest {
        let (say, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
        let (ask, inputs) = mpsc::channel(INPUT_CAPACITY);
        let channel = MultiRoundTripChannel { notifications: say, input_requests: ask };
        let work = Box::pin(async move {
            let later = async {
                sleep(INPUT_BATCH_DELAY / 2).await;
                channel.request("roots/list", None).await
            };
            let (first, _second) = tokio::join!(channel.request("elicitation/create", None), later);
            first
        });
        PendingRequest::new(
            work,
            (notifications, inputs),
            ("ada".into(), OriginalRequest::default()),
        )
    }

    fn names(step: Step) -> Vec<String> {
        match step {
            Step::InputRequired(requests) => {
                requests.as_object().into_iter().flatten().map(|it| it.0.clone()).collect()
            }
            Step::Notification(_) | Step::Complete(_) => panic!("it asks: {step:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_away_while_questions_gather_is_asked_all_the_same() {
        let mut pending = asking();
        let dropped = tokio::time::timeout(INPUT_BATCH_DELAY / 4, pending.next()).await;
        assert!(dropped.is_err(), "questions are still being gathered");
        assert_eq!(names(pending.next().await), ["question-1", "question-2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_answered_is_asked_again_and_then_it_is_done() {
        let mut pending = asking();
        assert_eq!(names(pending.next().await), ["question-1", "question-2"]);
        let answers = |text: &'static str| {
            let text = Payload::from_json(bytes::Bytes::from_static(text.as_bytes()));
            RawObject::parse(Some(&text)).expect("an object")
        };
        pending.submit_responses(&answers(r#"{"question-2": {}, "question-9": {}}"#));
        assert_eq!(names(pending.next().await), ["question-1"]);
        pending.submit_responses(&answers(r#"{"question-1": {"action": "accept"}}"#));
        let Step::Complete(Ok(answer)) = pending.next().await else { panic!("it is done") };
        assert_eq!(answer.as_bytes().as_ref(), br#"{"action": "accept"}"#);
    }
}

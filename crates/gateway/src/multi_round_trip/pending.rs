//! One request of a modern client while it runs. When a server sends requests to the client, the step is
//! [`Step::InputRequired`]: the front suspends the request, and it continues once the client has sent its responses.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard_wire::jsonrpc::message::{Message, Payload};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::downstream::channel::{ClientChannel, ClientResponse, NotifyOutcome};
use crate::downstream::request::{InboundRequest, Outcome, OutcomeFuture};
use crate::relay::Relay;

/// The capacity of the queue of notifications. Those that find it full are dropped.
const NOTIFICATION_CAPACITY: usize = 256;
/// The capacity of the queue of input requests.
const INPUT_CAPACITY: usize = 16;

/// Input requests within this time of each other go to the client together.
const INPUT_BATCH_DELAY: Duration = Duration::from_millis(40);

/// A running request.
pub(crate) struct PendingRequest {
    work: OutcomeFuture,
    finished: Option<Outcome>,
    inbox: Inbox,
    open_inputs: Vec<OpenInput>,
    input_count: usize,
    /// Are there input requests that the client has not received?
    has_unsent_inputs: bool,
    /// The request. Input must come with the same request again.
    request: Arc<InboundRequest>,
}

impl fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingRequest({})", self.request.method.as_str())
    }
}

/// The messages for the client of a request, from a channel made with [`channel`].
#[derive(Debug)]
pub(crate) struct Inbox {
    notifications: mpsc::Receiver<Message>,
    input_requests: mpsc::Receiver<InputRequest>,
}

/// A channel for one request of a modern client, and the inbox that collects its messages.
pub(crate) fn channel() -> (Arc<dyn ClientChannel>, Inbox) {
    let (notification_sender, notifications) = mpsc::channel(NOTIFICATION_CAPACITY);
    let (input_sender, input_requests) = mpsc::channel(INPUT_CAPACITY);
    let channel =
        MultiRoundTripChannel { notifications: notification_sender, input_requests: input_sender };
    (Arc::new(channel), Inbox { notifications, input_requests })
}

/// A server's request to the client.
#[derive(Debug)]
struct InputRequest {
    method: String,
    params: Option<Payload>,
    reply: oneshot::Sender<Outcome>,
}

/// An input request that waits for the client's response.
#[derive(Debug)]
struct OpenInput {
    name: String,
    request: InputRequest,
}

/// The next event of a running request.
#[derive(Debug)]
pub(crate) enum Step {
    /// A notification for the client.
    Notification(Message),
    /// Input requests for the client, by name.
    InputRequired(Json),
    /// The request has ended.
    Complete(Outcome),
}

impl PendingRequest {
    /// Prepares a request whose channel has this inbox. Nothing runs until [`PendingRequest::next`] is polled.
    pub(crate) fn start(
        relay: Arc<Relay>,
        request: Arc<InboundRequest>,
        inbox: Inbox,
    ) -> PendingRequest {
        let relayed = request.clone();
        let work = Box::pin(async move { relay.respond(&relayed).await });
        PendingRequest::new(work, request, inbox)
    }

    fn new(work: OutcomeFuture, request: Arc<InboundRequest>, inbox: Inbox) -> PendingRequest {
        PendingRequest {
            work,
            finished: None,
            inbox,
            open_inputs: Vec::new(),
            input_count: 0,
            has_unsent_inputs: false,
            request,
        }
    }

    /// The request that runs.
    pub(crate) fn request(&self) -> &Arc<InboundRequest> {
        &self.request
    }

    /// The next event. Cancel-safe. All notifications come before the result.
    pub(crate) async fn next(&mut self) -> Step {
        if let Some(outcome) = self.finished.take() {
            return self.complete(outcome);
        }
        if !self.has_unsent_inputs {
            tokio::select! {
                biased;
                Some(note) = self.inbox.notifications.recv() => return Step::Notification(note),
                Some(input) = self.inbox.input_requests.recv() => self.add_input(input),
                outcome = &mut self.work => return self.complete(outcome),
            }
        }
        // If the caller drops the future here, the flag makes the next call return the same requests.
        self.collect_inputs().await;
        self.has_unsent_inputs = false;
        Step::InputRequired(self.input_requests())
    }

    /// Collects input requests that servers send at the same time, so that the client gets them together.
    async fn collect_inputs(&mut self) {
        while self.open_inputs.len() < INPUT_CAPACITY {
            tokio::select! {
                biased;
                input = self.inbox.input_requests.recv() => match input {
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
        match self.inbox.notifications.try_recv() {
            Ok(note) => {
                self.finished = Some(outcome);
                Step::Notification(note)
            }
            Err(_) => Step::Complete(outcome),
        }
    }

    /// Puts an outcome back that was taken but not used.
    pub(crate) fn restore_outcome(&mut self, outcome: Option<Outcome>) {
        self.finished = outcome.or(self.finished.take());
    }

    fn add_input(&mut self, input: InputRequest) {
        self.input_count += 1;
        self.has_unsent_inputs = true;
        self.open_inputs
            .push(OpenInput { name: format!("question-{}", self.input_count), request: input });
    }

    /// The open input requests, by name.
    pub(crate) fn input_requests(&self) -> Json {
        let request = |open: &OpenInput| {
            let mut request = json!({"method": open.request.method});
            if let Some(params) = &open.request.params {
                request["params"] = params.decode().unwrap_or_default();
            }
            (open.name.clone(), request)
        };
        let open = self.open_inputs.iter().filter(|it| !it.request.reply.is_closed());
        Json::Object(open.map(request).collect::<Map<String, Json>>())
    }

    /// Passes the client's responses to the servers. Requests that servers have withdrawn are dropped.
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

/// The channel to a modern client, which receives no requests while it waits.
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
            let gone = || server::internal_error("the client has disconnected");
            let (reply, response) = oneshot::channel();
            let input = InputRequest { method: method.to_owned(), params, reply };
            self.input_requests.send(input).await.map_err(|_| gone())?;
            response.await.map_err(|_| gone())?
        })
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::RequestId;
    use switchboard_wire::protocol::era::Era;
    use switchboard_wire::protocol::request_meta::RequestMeta;

    use super::*;
    use crate::downstream::client::Client;
    use crate::downstream::request_context::RequestContext;
    use crate::method::Method;

    /// Work that sends one input request and returns its response, with a second request a little later.
    fn requesting() -> PendingRequest {
        let (channel, inbox) = channel();
        let client = Arc::new(Client::new("ada".into(), Era::Modern, None));
        let context = Arc::new(RequestContext::new(client, channel.clone()));
        let params = (RawObject::default(), RequestMeta::default());
        let request = InboundRequest::new(RequestId::Number(1), Method::ToolsCall, params, context);
        let work = Box::pin(async move {
            let later = async {
                sleep(INPUT_BATCH_DELAY / 2).await;
                channel.request("roots/list", None).await
            };
            let (first, _second) = tokio::join!(channel.request("elicitation/create", None), later);
            first
        });
        PendingRequest::new(work, Arc::new(request), inbox)
    }

    fn names(step: Step) -> Vec<String> {
        match step {
            Step::InputRequired(requests) => {
                requests.as_object().into_iter().flatten().map(|it| it.0.clone()).collect()
            }
            Step::Notification(_) | Step::Complete(_) => panic!("no input required: {step:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn input_requests_survive_a_dropped_step() {
        let mut pending = requesting();
        let dropped = tokio::time::timeout(INPUT_BATCH_DELAY / 4, pending.next()).await;
        assert!(dropped.is_err(), "requests are still being collected");
        assert_eq!(names(pending.next().await), ["question-1", "question-2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_a_response_are_sent_again_until_all_have_one() {
        let mut pending = requesting();
        assert_eq!(names(pending.next().await), ["question-1", "question-2"]);
        let responses = |text: &'static str| {
            let text = Payload::from_json(bytes::Bytes::from_static(text.as_bytes()));
            RawObject::parse(Some(&text)).expect("an object")
        };
        pending.submit_responses(&responses(r#"{"question-2": {}, "question-9": {}}"#));
        assert_eq!(names(pending.next().await), ["question-1"]);
        pending.submit_responses(&responses(r#"{"question-1": {"action": "accept"}}"#));
        let Step::Complete(Ok(result)) = pending.next().await else { panic!("not complete") };
        assert_eq!(result.as_bytes().as_ref(), br#"{"action": "accept"}"#);
    }
}

//! One POST and everything that comes back on account of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::listen::Resume;
use super::post::{Lifetime, Post, Purpose};
use super::shortcut::{Back, Handed};
use super::{Context, Done, SESSION, Said};
use crate::era::code;
use crate::events::{Event, Events};
use crate::fault::Fault;
use crate::link::Arrival;
use crate::message::{self, Id, Message, Messages, Payload};
use crate::network::{
    Kind, Received, Request, Via, body_of, kind_of, let_go, refusal, refusal_with, stranger,
    stranger_with,
};

/// How long something that wants no answer may take to be accepted.
const TELLING: Duration = Duration::from_secs(60);
/// The most that is read of a refusal to find an error of the protocol in it.
const REFUSAL: usize = 64 * 1024;
/// How long a stream may go on after its answer, so that its connection can be used again.
const AFTER_ANSWER: Duration = Duration::from_millis(100);

/// Runs an exchange to its end.
pub(super) async fn run(context: Arc<Context>, post: Post, say: mpsc::Sender<Said>) -> Done {
    let load = post.load();
    let Post { purpose, headers, body } = post;
    let url = Cow::Borrowed(&context.target.url);
    let mut request = Request { method: Method::POST, url, headers, body };
    let arrival = match &purpose {
        Purpose::Initialize(id) => {
            let question = Question { id, lifetime: Lifetime::OfItsSession, say: &say };
            let asked = question.ask_to_begin(&context, &mut request).await;
            question.outcome(asked)
        }
        Purpose::Ask(id, lifetime) => {
            let question = Question { id, lifetime: *lifetime, say: &say };
            let asked = question.ask(&context, &mut request).await;
            question.outcome(asked)
        }
        Purpose::Initialized | Purpose::Tell => {
            let told = match timeout(TELLING, tell(&context, &mut request)).await {
                Ok(told) => told,
                Err(_) => Err(Fault::Silent(TELLING)),
            };
            told.err().map(|fault| Arrival::Lost { id: None, fault })
        }
    };
    Done::Exchange { purpose, load, arrival }
}

/// Goes on with a question that was asked past the link.
pub(super) async fn go_on(context: Arc<Context>, handed: Handed, say: mpsc::Sender<Said>) -> Done {
    let Handed { id, lifetime, load, sent, back } = handed;
    let question = Question { id: &id, lifetime, say: &say };
    let asked = match back {
        Back::Unread(response) => question.read(&context, &sent, response, Lesson::Known).await,
        Back::Read(response, body) => question.read_body(&response, &body, Lesson::Known).await,
    };
    let arrival = question.outcome(asked);
    Done::Exchange { purpose: Purpose::Ask(id, lifetime), load, arrival }
}

/// Sends what wants no answer. What comes back with a success is for nobody.
async fn tell(context: &Context, request: &mut Request<'_>) -> Result<(), Fault> {
    let response = context.target.send(&context.network, request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    if kind_of(response.headers()) != Kind::Events {
        let_go(response).await;
    }
    Ok(())
}

/// A question and whom to tell what comes back.
struct Question<'a> {
    id: &'a Id,
    lifetime: Lifetime,
    say: &'a mpsc::Sender<Said>,
}

/// How a question was answered.
enum Answered {
    With(Message),
    /// The answer went ahead of the end of its stream.
    Already,
    /// The server took it, and will answer elsewhere.
    Elsewhere,
}

impl Question<'_> {
    fn outcome(&self, asked: Result<Answered, Fault>) -> Option<Arrival> {
        match asked {
            Ok(Answered::With(message)) => Some(Arrival::Message(message)),
            Ok(Answered::Already | Answered::Elsewhere) => None,
            Err(fault) => Some(Arrival::Lost { id: Some(self.id.clone()), fault }),
        }
    }

    async fn ask(&self, context: &Context, request: &mut Request<'_>) -> Result<Answered, Fault> {
        let response = context.target.send(&context.network, request, Via::Http).await?;
        self.read(context, &request.headers, response, Lesson::Known).await
    }

    async fn ask_to_begin(
        &self,
        context: &Context,
        request: &mut Request<'_>,
    ) -> Result<Answered, Fault> {
        let response = context.target.send(&context.network, request, Via::Http).await?;
        let mut session = response.headers().get(SESSION).cloned();
        if let Some(session) = &mut session {
            session.set_sensitive(true);
            // Should the answer's stream be lost, it is asked for within the session.
            request.headers.insert(SESSION, session.clone());
        }
        self.read(context, &request.headers, response, Lesson::New { session }).await
    }

    async fn read(
        &self,
        context: &Context,
        sent: &HeaderMap,
        mut response: Received,
        lesson: Lesson,
    ) -> Result<Answered, Fault> {
        let status = response.status();
        if !status.is_success() {
            return self.read_refusal(response).await;
        }
        match kind_of(response.headers()) {
            Kind::Events => {
                let limit = context.target.largest_message;
                let events = Events::new(response, limit);
                self.read_events(context, sent, events, lesson).await
            }
            Kind::Json | Kind::Unnamed => {
                let body = body_of(&mut response, context.target.largest_message).await?;
                self.read_body(&response, &body, lesson).await
            }
            Kind::Other if is_empty_success(status) => {
                let_go(response).await;
                self.elsewhere()
            }
            Kind::Other => Err(stranger(response).await),
        }
    }

    async fn read_body(
        &self,
        response: &Received,
        body: &Bytes,
        lesson: Lesson,
    ) -> Result<Answered, Fault> {
        if body.is_empty() && is_empty_success(response.status()) {
            return self.elsewhere();
        }
        let Ok(messages) = message::parse(body) else {
            return Err(stranger_with(response.headers(), body));
        };
        match self.sort(messages).await {
            Some(answer) => {
                lesson.learn(&answer, self.say).await;
                Ok(Answered::With(answer))
            }
            None => Err(Fault::CutShort),
        }
    }

    /// The server took the question without a word.
    fn elsewhere(&self) -> Result<Answered, Fault> {
        match self.lifetime {
            Lifetime::OfItsStream => Err(Fault::CutShort),
            Lifetime::OfItsSession => Ok(Answered::Elsewhere),
        }
    }

    /// Some servers refuse with a status and say why as the protocol would.
    async fn read_refusal(&self, mut response: Received) -> Result<Answered, Fault> {
        let status = response.status();
        // These are about who we are and where we are; what the body says is no answer to the question.
        let is_about_us = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED
        );
        if is_about_us || kind_of(response.headers()) != Kind::Json {
            return Err(refusal(response).await);
        }
        let body = body_of(&mut response, REFUSAL).await.unwrap_or_default();
        if let Ok(Messages::One(message)) = message::parse(&body)
            && let Message::Answer { outcome: Err(error), .. } = &message
            // Not there is the method, or else what we talk to.
            && (status != StatusCode::NOT_FOUND || error.code == code::METHOD_NOT_FOUND)
            && let Ok(answer) = self.take(message)
        {
            return Ok(Answered::With(answer));
        }
        Err(refusal_with(status.as_u16(), response.headers(), &body))
    }

    /// Reads a stream to its answer, and asks for the rest of it where it is lost.
    async fn read_events(
        &self,
        context: &Context,
        sent: &HeaderMap,
        mut events: Events,
        lesson: Lesson,
    ) -> Result<Answered, Fault> {
        let mut resume = Resume::default();
        loop {
            while let Some(event) = or_lost(events.next().await)? {
                resume.goes_on();
                if let Some(answer) = self.receive(event).await {
                    lesson.learn(&answer, self.say).await;
                    self.tell(Arrival::Message(answer)).await;
                    let rest = let_go(events.into_response());
                    let _goes_on_without_us = timeout(AFTER_ANSWER, rest).await;
                    return Ok(Answered::Already);
                }
            }
            resume.remember(&events);
            events = match self.lifetime {
                Lifetime::OfItsStream => return Err(Fault::CutShort),
                Lifetime::OfItsSession => resume.reopen(context, sent).await?,
            };
        }
    }

    /// Passes on what an event holds, except for the answer, which comes back.
    async fn receive(&self, event: Event) -> Option<Message> {
        if event.data.is_empty() || !event.is_message() {
            return None;
        }
        match message::parse(&event.data) {
            Ok(messages) => self.sort(messages).await,
            Err(malformed) => {
                self.tell(Arrival::Garbage(malformed)).await;
                None
            }
        }
    }

    async fn sort(&self, messages: Messages) -> Option<Message> {
        let parts = match messages {
            Messages::One(message) => match self.take(message) {
                Ok(answer) => return Some(answer),
                Err(other) => vec![Ok(*other)],
            },
            Messages::Batch(parts) => parts,
        };
        let mut answer = None;
        for part in parts {
            match part.map(|message| self.take(message)) {
                Ok(Ok(message)) => answer = Some(message),
                Ok(Err(other)) => self.tell(self.amid(*other)).await,
                Err(malformed) => self.tell(Arrival::Garbage(malformed)).await,
            }
        }
        answer
    }

    /// Is it the answer? An error that names no question can only be about the one that was asked.
    fn take(&self, message: Message) -> Result<Message, Box<Message>> {
        match message {
            Message::Answer { id: Some(id), outcome } if id == *self.id => {
                Ok(Message::Answer { id: Some(id), outcome })
            }
            Message::Answer { id: None, outcome: Err(error) } => {
                Ok(Message::Answer { id: Some(self.id.clone()), outcome: Err(error) })
            }
            Message::Answer { .. } | Message::Request { .. } | Message::Notification { .. } => {
                Err(Box::new(message))
            }
        }
    }

    fn amid(&self, message: Message) -> Arrival {
        Arrival::Amid { id: self.id.clone(), message }
    }

    async fn tell(&self, arrival: Arrival) {
        let _link_gone = self.say.send(Said::Arrival(arrival)).await;
    }
}

fn is_empty_success(status: StatusCode) -> bool {
    matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
}

/// A stream that broke is one that ended: what matters is that there is no answer. One that holds too much
/// is not asked for again.
fn or_lost(next: Result<Option<Event>, Fault>) -> Result<Option<Event>, Fault> {
    match next {
        Err(Fault::CutShort) => Ok(None),
        Ok(_) | Err(_) => next,
    }
}

/// What an answer is to teach.
enum Lesson {
    Known,
    New { session: Option<HeaderValue> },
}

impl Lesson {
    async fn learn(self, answer: &Message, say: &mpsc::Sender<Said>) {
        let Lesson::New { session } = self else { return };
        let Message::Answer { outcome: Ok(result), .. } = answer else { return };
        let _link_gone = say.send(Said::Learned { session, version: version(result) }).await;
    }
}

fn version(result: &Payload) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct Initialized {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    /// A date is ten.
    const LONGEST: usize = 64;
    let initialized: Initialized = result.decode().ok()?;
    let version = initialized.version;
    (version.len() <= LONGEST).then(|| HeaderValue::from_str(&version).ok()).flatten()
}

//! One question to one server: connects where nothing is connected, mends what broke, and asks again only where
//! that is safe.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_auth::scopes::StepUps;
use switchboard_wire::client::{Guise, Request};
use switchboard_wire::fault::Fault;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::peer::{Attend, CallError, Progress, Sent};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::calling::Permit;
use crate::connection::{Handle, Live, Status, View};
use crate::engine::Host;
use crate::lane::Lane;
use crate::trouble;

/// The most that one question is asked, however often it is not heard.
const ATTEMPTS: usize = 3;
/// The method that needs a permit.
pub(crate) const TOOL_CALL: &str = "tools/call";

/// A question.
#[derive(Debug, Clone)]
pub struct Question {
    /// The method.
    pub method: Cow<'static, str>,
    /// Its parameters.
    pub params: Option<Payload>,
    /// May it be asked twice?
    pub repeat: Repeat,
    /// How long the server may take; signs of progress begin the wait anew.
    pub patience: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Arguments that are repeated in headers.
    pub mirrored: Option<HeaderMap>,
    /// For whom it is asked, where that is not us.
    pub behest: Option<Behest>,
}

/// For whom a question is asked: a client of ours, behind which there are people and a model of its own.
#[derive(Debug, Clone)]
pub struct Behest {
    /// Hears what the server says meanwhile, and answers what it asks.
    pub attendant: Arc<dyn Attend>,
    /// What the server is told of the client.
    pub guise: Guise,
    /// What becomes of a result that is a question.
    pub asked_back: AskedBack,
    /// The connection to use, where it is not the one for everybody.
    pub lane: Option<Lane>,
}

/// What becomes of a result that is a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBack {
    /// The attendant answers it, and the server is asked again.
    Answered,
    /// It is the result.
    PassedOn,
}

/// May a question be asked twice?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing, or nothing more the second time.
    Harmless,
    /// It may do something each time.
    Harmful,
}

impl Question {
    /// A question that changes nothing.
    pub fn harmless(method: impl Into<Cow<'static, str>>, patience: Duration) -> Question {
        Question {
            method: method.into(),
            params: None,
            repeat: Repeat::Harmless,
            patience,
            progress: None,
            mirrored: None,
            behest: None,
        }
    }

    /// The same, for somebody else.
    pub fn for_whom(mut self, behest: Behest) -> Question {
        self.behest = Some(behest);
        self
    }
}

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Tools are called in another way.
    #[error("a tool is not asked but called, with `Host::call`: a call needs leave")]
    WantsPermit,
    /// There is no such server.
    #[error("there is no server `{0}`")]
    NoServer(String),
    /// The server is not connected; the view says why.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<View>),
    /// The server answered with an error.
    #[error(transparent)]
    Refused(RemoteError),
    /// No answer came in time.
    #[error("`{server}` did not answer within {} s", .after.as_secs_f64())]
    Timeout {
        /// The server.
        server: String,
        /// How long we waited.
        after: Duration,
    },
    /// The answer is larger than we take. The server did what it was asked, so it is not asked again.
    #[error(
        "`{server}` answered with more than {} MB, which is more than is taken; it has done what was asked",
        .limit / (1024 * 1024)
    )]
    TooLarge {
        /// The server.
        server: String,
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// The server wants a page visited first, and nobody did.
    #[error("`{server}` wants a page visited first: {reason}")]
    NotVisited {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The connection broke. Whether the server did what it was asked is not known, so it was not asked again.
    #[error(
        "the connection to `{server}` broke before the answer came; it may have done what was asked, so it was not asked again"
    )]
    Interrupted {
        /// The server.
        server: String,
        /// What broke.
        #[source]
        error: CallError,
    },
    /// The connection broke, was made anew, and broke again.
    #[error("the connection to `{server}` broke before the answer came")]
    Broken {
        /// The server.
        server: String,
        /// What broke.
        #[source]
        error: CallError,
    },
}

impl Host {
    /// Asks one server anything but to run a tool: that is what [`Host::call`] is for.
    pub async fn ask(&self, server: &str, question: Question) -> Result<Payload, AskError> {
        match question.method == TOOL_CALL {
            true => Err(AskError::WantsPermit),
            false => self.put_after_visits(server, question).await,
        }
    }

    /// Asks one server anything but to run a tool, for somebody else. What the server wants visited first is theirs to
    /// visit.
    pub async fn ask_on_behalf(
        &self,
        server: &str,
        question: Question,
    ) -> Result<Payload, AskError> {
        match question.method == TOOL_CALL {
            true => Err(AskError::WantsPermit),
            false => self.put(server, question).await,
        }
    }

    /// Has a tool run for somebody else, with leave.
    pub(crate) async fn put_permitted(
        &self,
        _leave: Permit,
        server: &str,
        question: Question,
    ) -> Result<Payload, AskError> {
        self.put(server, question).await
    }

    /// Asks one server anything, with leave.
    pub(crate) async fn ask_permitted(
        &self,
        _leave: Permit,
        server: &str,
        question: Question,
    ) -> Result<Payload, AskError> {
        self.put_after_visits(server, question).await
    }

    /// Asks one server, whatever it wants visited first.
    pub(crate) async fn put(
        &self,
        server: &str,
        mut question: Question,
    ) -> Result<Payload, AskError> {
        let no_server = || AskError::NoServer(server.to_owned());
        let lane = question.behest.as_ref().and_then(|it| it.lane.as_ref());
        let handles = self.handles();
        let lane = match lane {
            Some(lane) => {
                let handle = Box::pin(self.handle_on(server, Some(lane))).await;
                Some(handle.ok_or_else(no_server)?)
            }
            None => None,
        };
        let _use = lane.as_ref().map(Handle::in_use);
        let handle = lane.as_ref().or_else(|| handles.get(server)).ok_or_else(no_server)?;
        // What an entry says of its own server goes before what holds for all.
        if question.method == TOOL_CALL
            && let Some(own) = handle.wanted().spec.common.timeout
        {
            question.patience = own;
        }
        let mut live = handle.live(None).await.map_err(AskError::NotConnected)?;
        let mut attempt = 1;
        let mut was_repeated = false;
        let mut step_ups = StepUps::default();
        loop {
            let error = match self.once(server, &live, &question).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // What follows is rare and large: in boxes, so that a call that goes well does not carry room for it about.
            // Who is turned away has not been heard, so that nothing is done twice.
            if trouble::is_turned_away(&error)
                && step_ups.take()
                && Box::pin(self.signs_in_for(handle)).await
            {
                continue;
            }
            Box::pin(handle.trouble(&live, &error)).await;
            // What was never heard may be asked again by anybody, what may have been heard once if it does no harm.
            let is_safe = was_never_heard(&error)
                || (question.repeat == Repeat::Harmless
                    && !std::mem::replace(&mut was_repeated, true));
            if !is_the_connections_fault(&error) || !is_safe || attempt == ATTEMPTS {
                return Err(explain(server, error, question.repeat));
            }
            attempt += 1;
            let again = Box::pin(mended(handle, &live, &error)).await;
            live = again.map_err(AskError::NotConnected)?;
        }
    }

    /// Has a server connected, where it is not. Comes back when it is, or cannot be.
    pub async fn wake(&self, server: &str) -> Result<(), AskError> {
        let handle = self.handle(server).ok_or_else(|| AskError::NoServer(server.to_owned()))?;
        handle.live(None).await.map(drop).map_err(AskError::NotConnected)
    }

    /// How long a server takes to say that it is there.
    pub async fn ping(&self, server: &str, patience: Duration) -> Result<Duration, AskError> {
        let no_server = || AskError::NoServer(server.to_owned());
        let handle = self.handle(server).ok_or_else(no_server)?;
        let live = handle.live(None).await.map_err(AskError::NotConnected)?;
        let result = live.client.ping(patience).await;
        if let Err(error) = &result {
            handle.trouble(&live, error).await;
        }
        result.map_err(|error| explain(server, error, Repeat::Harmless))
    }

    async fn once(
        &self,
        server: &str,
        live: &Live,
        question: &Question,
    ) -> Result<Payload, CallError> {
        let mut request = live.client.request(question.method.clone());
        request = match &question.behest {
            None => {
                let request = request.within_of_progress(question.patience);
                request.answered_by(self.counsellor(server))
            }
            Some(behest) => on_behalf(request, behest, question),
        };
        if let Some(params) = &question.params {
            request = request.params(params.clone());
        }
        if let Some(progress) = &question.progress {
            request = request.progress_to(progress.clone());
        }
        if let Some(mirrored) = &question.mirrored {
            request = request.mirrored(mirrored.clone());
        }
        let result = request.send().await;
        if matches!(result, Ok(_) | Err(CallError::Remote(_))) {
            live.fine();
        }
        result
    }
}

/// A client that wants no progress gets none: what the server is not asked for, it need not send.
fn on_behalf(request: Request, behest: &Behest, question: &Question) -> Request {
    let request = match question.progress {
        Some(_) => request.within_of_progress(question.patience),
        None => request.within_of_its_own(question.patience),
    };
    let request = request.in_guise(behest.guise.clone()).attended_by(behest.attendant.clone());
    match behest.asked_back {
        AskedBack::Answered => request.answered_by(behest.attendant.clone()),
        AskedBack::PassedOn => request,
    }
}

/// A connection to ask again over: the same one where only the question was lost, else a newer one.
async fn mended(handle: &Handle, live: &Live, error: &CallError) -> Result<Live, Arc<View>> {
    let is_over = matches!(error, CallError::Ended { .. }) || trouble::is_gone(error);
    let seen = if is_over { Some(live.generation) } else { None };
    handle.live(seen).await
}

/// Is it certain that the server did nothing of what it was asked?
fn was_never_heard(error: &CallError) -> bool {
    match error {
        CallError::Ended { sent, .. } => *sent == Sent::No,
        CallError::Lost(fault) => fault.is_before_delivery(),
        // A server that forgot the session has not looked at the question.
        CallError::Remote(_) => trouble::is_gone(error),
        CallError::Timeout(_) => false,
    }
}

/// Would another connection help?
fn is_the_connections_fault(error: &CallError) -> bool {
    match error {
        CallError::Ended { .. } => true,
        CallError::Lost(_) => trouble::is_gone(error) || trouble::is_terminal(error),
        CallError::Remote(_) => trouble::is_gone(error),
        CallError::Timeout(_) => false,
    }
}

fn explain(server: &str, error: CallError, repeat: Repeat) -> AskError {
    let server = server.to_owned();
    match error {
        CallError::Remote(error) => AskError::Refused(error),
        CallError::Timeout(after) => AskError::Timeout { server, after },
        CallError::Lost(Fault::TooLarge { limit }) => AskError::TooLarge { server, limit },
        error @ (CallError::Lost(_) | CallError::Ended { .. }) => {
            match repeat == Repeat::Harmless || was_never_heard(&error) {
                true => AskError::Broken { server, error },
                false => AskError::Interrupted { server, error },
            }
        }
    }
}

impl AskError {
    /// Why the server is not connected, where that is what happened.
    pub fn status(&self) -> Option<&Status> {
        match self {
            AskError::NotConnected(view) => Some(&view.status),
            AskError::WantsPermit
            | AskError::NoServer(_)
            | AskError::Refused(_)
            | AskError::Timeout { .. }
            | AskError::TooLarge { .. }
            | AskError::NotVisited { .. }
            | AskError::Interrupted { .. }
            | AskError::Broken { .. } => None,
        }
    }
}

//! What a handler knows of its call, and what it can say and ask meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, RequestNotifier};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server::ClientContext;

use crate::kit::elicitation::{Elicitation, ElicitationResult};
use crate::kit::handler_error::{HandlerError, HandlerErrorKind};
use crate::kit::request_state::{InputResponses, MAX_ELICITATIONS};

pub use crate::kit::log_level::LogLevel;

/// How long a person may think.
const ELICITATION_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a client may take to say which folders it works in.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(10);
/// How many folders of a client are looked at.
const MAX_ROOTS: usize = 256;

/// One call, seen from its handler. Clones are of the same call.
#[derive(Debug, Clone)]
pub struct HandlerContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asker: ClientContext,
    aside: RequestNotifier,
    peer: Peer,
    input_responses: InputResponses,
    elicitations: AtomicUsize,
    min_log_level: Arc<AtomicU8>,
    roots_revision: Arc<AtomicU64>,
    is_cancelled: AtomicBool,
}

/// What a context is made of.
pub(crate) struct ContextParts {
    pub(crate) asker: ClientContext,
    pub(crate) aside: RequestNotifier,
    pub(crate) peer: Peer,
    pub(crate) input_responses: InputResponses,
    /// What a legacy client wants to hear, by rank.
    pub(crate) min_log_level: Arc<AtomicU8>,
    /// How often the client said that its folders changed.
    pub(crate) roots_revision: Arc<AtomicU64>,
}

impl HandlerContext {
    pub(crate) fn new(parts: ContextParts) -> HandlerContext {
        let ContextParts {
            asker,
            aside,
            peer,
            input_responses: answers,
            min_log_level: level,
            roots_revision: roots_changed,
        } = parts;
        HandlerContext(Arc::new(Inner {
            asker,
            aside,
            peer,
            input_responses: answers,
            elicitations: AtomicUsize::new(0),
            min_log_level: level,
            roots_revision: roots_changed,
            is_cancelled: AtomicBool::new(false),
        }))
    }

    pub(crate) fn asker(&self) -> &ClientContext {
        &self.0.asker
    }

    pub(crate) fn input_responses(&self) -> &InputResponses {
        &self.0.input_responses
    }

    /// Is the call over for whoever made it? The handler itself is dropped then; this is for what it left to threads.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Tells how far the work is, where somebody wants to know.
    pub async fn progress(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.0.asker.progress_token else { return };
        let params =
            json!({"progressToken": token, "progress": done, "total": total, "message": message});
        self.notify("notifications/progress", &params).await;
    }

    /// Tells what goes on, where somebody wants to hear as much.
    pub async fn log(&self, level: LogLevel, text: &str) {
        let min_level = match self.0.asker.era {
            Era::Legacy => Some(self.0.min_log_level.load(Ordering::Relaxed)),
            Era::Modern => {
                let name = self.0.asker.log_level.as_deref();
                name.and_then(LogLevel::parse).map(LogLevel::rank)
            }
        };
        if min_level.is_some_and(|min_level| level.rank() >= min_level) {
            let params = json!({"level": level.name(), "data": text});
            self.notify("notifications/message", &params).await;
        }
    }

    /// How often the client has said that the folders it works in are others now.
    pub fn roots_revision(&self) -> u64 {
        self.0.roots_revision.load(Ordering::Relaxed)
    }

    /// The addresses of the folders that the client works in; none where it does not say. Ask before anything is
    /// done: a modern client answers by making the call anew. Hand a [`Stop`] on with `?`.
    pub async fn roots(&self) -> Result<Option<Vec<String>>, HandlerError> {
        const ROOTS_KEY: &str = "roots";
        if !self.0.asker.capabilities["roots"].is_object() {
            return Ok(None);
        }
        let answer = match self.0.asker.era {
            Era::Legacy => match self.0.peer.call("roots/list").timeout(ROOTS_TIMEOUT).await {
                Ok(answer) => answer.decode().unwrap_or_default(),
                Err(_) => return Ok(None),
            },
            Era::Modern => match self.0.input_responses.get(ROOTS_KEY) {
                Some(answer) => answer.clone(),
                None => {
                    let request = json!({"method": "roots/list"});
                    return Err(HandlerError(HandlerErrorKind::InputRequired {
                        key: ROOTS_KEY.to_owned(),
                        request,
                    }));
                }
            },
        };
        let Some(roots) = answer["roots"].as_array() else { return Ok(None) };
        let uris = roots.iter().take(MAX_ROOTS).filter_map(|root| root["uri"].as_str());
        Ok(Some(uris.map(str::to_owned).collect()))
    }

    async fn notify(&self, method: &'static str, params: &Json) {
        let params = Payload::from_json(params.to_string().into());
        self.0.aside.notify(method, Some(params)).await;
    }

    /// Asks the person behind the client. Ask before anything is done, and in the same order every time: a modern
    /// client answers by making the call anew, and the handler begins anew with it. Hand a [`Stop`] on with `?`.
    pub async fn elicit(
        &self,
        elicitation: &Elicitation,
    ) -> Result<ElicitationResult, HandlerError> {
        let number = self.0.elicitations.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_ELICITATIONS {
            return Err(HandlerError::failed(format!(
                "a call asks at most {MAX_ELICITATIONS} questions"
            )));
        }
        if !self.supports_elicitation(elicitation) {
            return Err(HandlerError::missing_elicitation(elicitation.mode()));
        }
        match self.0.asker.era {
            Era::Legacy => self.elicit_legacy(elicitation).await,
            Era::Modern => {
                let key = format!("question-{}", number + 1);
                match self.0.input_responses.get(&key) {
                    Some(answer) => elicitation.parse_result(answer),
                    None => {
                        let request =
                            json!({"method": "elicitation/create", "params": elicitation.params()});
                        Err(HandlerError(HandlerErrorKind::InputRequired { key, request }))
                    }
                }
            }
        }
    }

    /// A client that names no way to be asked can be asked by form: there was nothing else at first.
    fn supports_elicitation(&self, elicitation: &Elicitation) -> bool {
        let Some(modes) = self.0.asker.capabilities["elicitation"].as_object() else {
            return false;
        };
        let mode = elicitation.mode();
        modes.contains_key(mode) || (mode == "form" && !modes.contains_key("url"))
    }

    async fn elicit_legacy(
        &self,
        elicitation: &Elicitation,
    ) -> Result<ElicitationResult, HandlerError> {
        let params = Payload::from_json(elicitation.params().to_string().into());
        let call =
            self.0.peer.call("elicitation/create").params(params).timeout(ELICITATION_TIMEOUT);
        match call.await {
            Ok(answer) => {
                let answer: Json = answer.decode().unwrap_or_default();
                elicitation.parse_result(&answer)
            }
            Err(error) => {
                Err(HandlerError::failed(format!("the question was not answered: {error}")))
            }
        }
    }
}

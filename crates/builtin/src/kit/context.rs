//! The handler's view of its call: progress, logging, roots and elicitation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, RequestNotifier};
use switchboard_wire::protocol::era::Era;
pub use switchboard_wire::protocol::log_level::LogLevel;
use switchboard_wire::server::ClientContext;

use crate::kit::elicitation::{Elicitation, ElicitationResult};
use crate::kit::handler_error::{HandlerError, HandlerErrorKind};
use crate::kit::request_state::{InputResponses, MAX_ELICITATIONS};

/// How long a user may take to answer.
const ELICITATION_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a client may take to send its roots.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of roots that are read.
const MAX_ROOTS: usize = 256;

/// The context of one call. Clones belong to the same call.
#[derive(Debug, Clone)]
pub struct HandlerContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: ClientContext,
    notifier: RequestNotifier,
    peer: Peer,
    input_responses: InputResponses,
    elicitations: AtomicUsize,
    min_log_level: Arc<AtomicU8>,
    roots_revision: Arc<AtomicU64>,
    is_cancelled: AtomicBool,
}

/// The parts of a context.
pub(crate) struct ContextParts {
    pub(crate) client: ClientContext,
    pub(crate) notifier: RequestNotifier,
    pub(crate) peer: Peer,
    pub(crate) input_responses: InputResponses,
    /// The minimum log level of a legacy client, by rank.
    pub(crate) min_log_level: Arc<AtomicU8>,
    /// How many times the client announced that its roots changed.
    pub(crate) roots_revision: Arc<AtomicU64>,
}

impl HandlerContext {
    pub(crate) fn new(parts: ContextParts) -> HandlerContext {
        let ContextParts { client, notifier, peer, input_responses, min_log_level, roots_revision } =
            parts;
        HandlerContext(Arc::new(Inner {
            client,
            notifier,
            peer,
            input_responses,
            elicitations: AtomicUsize::new(0),
            min_log_level,
            roots_revision,
            is_cancelled: AtomicBool::new(false),
        }))
    }

    pub(crate) fn client(&self) -> &ClientContext {
        &self.0.client
    }

    pub(crate) fn input_responses(&self) -> &InputResponses {
        &self.0.input_responses
    }

    /// Whether the call has ended for its client. The handler itself is dropped then; blocking threads check
    /// this.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Reports progress, if the client asked for it.
    pub async fn progress(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.0.client.progress_token else { return };
        let params =
            json!({"progressToken": token, "progress": done, "total": total, "message": message});
        self.notify("notifications/progress", &params).await;
    }

    /// Sends a log message, if the client wants this level.
    pub async fn log(&self, level: LogLevel, text: &str) {
        let min_level = match self.0.client.era {
            Era::Legacy => Some(self.0.min_log_level.load(Ordering::Relaxed)),
            Era::Modern => {
                let name = self.0.client.log_level.as_deref();
                name.and_then(LogLevel::parse).map(LogLevel::rank)
            }
        };
        if min_level.is_some_and(|min_level| level.rank() >= min_level) {
            let params = json!({"level": level.as_str(), "data": text});
            self.notify("notifications/message", &params).await;
        }
    }

    /// How many times the client announced that its roots changed.
    pub fn roots_revision(&self) -> u64 {
        self.0.roots_revision.load(Ordering::Relaxed)
    }

    /// The URIs of the client's roots; `None` if it has none. Call it before any side effect: a modern client
    /// answers by repeating the call. Pass errors on with `?`.
    pub async fn roots(&self) -> Result<Option<Vec<String>>, HandlerError> {
        const ROOTS_KEY: &str = "roots";
        if !self.0.client.capabilities["roots"].is_object() {
            return Ok(None);
        }
        let response = match self.0.client.era {
            Era::Legacy => match self.0.peer.call("roots/list").timeout(ROOTS_TIMEOUT).await {
                Ok(response) => response.decode().unwrap_or_default(),
                Err(_) => return Ok(None),
            },
            Era::Modern => match self.0.input_responses.get(ROOTS_KEY) {
                Some(response) => response.clone(),
                None => {
                    let request = json!({"method": "roots/list"});
                    return Err(HandlerError(HandlerErrorKind::InputRequired {
                        key: ROOTS_KEY.to_owned(),
                        request,
                    }));
                }
            },
        };
        let Some(roots) = response["roots"].as_array() else { return Ok(None) };
        let uris = roots.iter().take(MAX_ROOTS).filter_map(|root| root["uri"].as_str());
        Ok(Some(uris.map(str::to_owned).collect()))
    }

    async fn notify(&self, method: &'static str, params: &Json) {
        let params = Payload::from_json(params.to_string().into());
        self.0.notifier.notify(method, Some(params)).await;
    }

    /// Asks the user of the client. Call it before any side effect, and always in the same order: a modern
    /// client answers by repeating the call, which starts the handler anew. Pass errors on with `?`.
    pub async fn elicit(
        &self,
        elicitation: &Elicitation,
    ) -> Result<ElicitationResult, HandlerError> {
        let number = self.0.elicitations.fetch_add(1, Ordering::Relaxed);
        if number >= MAX_ELICITATIONS {
            return Err(HandlerError::failed(format!(
                "a call may ask at most {MAX_ELICITATIONS} questions"
            )));
        }
        if !self.supports_elicitation(elicitation) {
            return Err(HandlerError::missing_elicitation(elicitation.mode()));
        }
        match self.0.client.era {
            Era::Legacy => self.elicit_legacy(elicitation).await,
            Era::Modern => {
                let key = format!("question-{}", number + 1);
                match self.0.input_responses.get(&key) {
                    Some(response) => elicitation.parse_result(response),
                    None => {
                        let request =
                            json!({"method": "elicitation/create", "params": elicitation.params()});
                        Err(HandlerError(HandlerErrorKind::InputRequired { key, request }))
                    }
                }
            }
        }
    }

    /// A client that names no elicitation mode supports forms, as in the first protocol version with
    /// elicitation.
    fn supports_elicitation(&self, elicitation: &Elicitation) -> bool {
        let Some(modes) = self.0.client.capabilities["elicitation"].as_object() else {
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
            Ok(response) => {
                let response: Json = response.decode().unwrap_or_default();
                elicitation.parse_result(&response)
            }
            Err(error) => Err(HandlerError::failed(format!("the elicitation failed: {error}"))),
        }
    }
}

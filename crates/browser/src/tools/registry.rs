//! Tools that are called by themselves and as steps of a batch.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use switchboard_builtin::kit::{HandlerContext, HandlerError, Tool, ToolOutput};

use crate::actions::picture::Picture;
use crate::session::Session;
use crate::shown_text::clean;

/// What a tool answers.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) picture: Option<Picture>,
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer { text, picture: None }
    }
}

impl Answer {
    pub(crate) fn into_output(self) -> ToolOutput {
        let output = ToolOutput::text(clean(&self.text));
        match self.picture {
            Some(picture) => output.with_image(&picture.bytes, picture.format.mime_type()),
            None => output,
        }
    }
}

/// Who can be asked during a call.
#[derive(Clone)]
pub(crate) enum Questions {
    /// The user, before anything is done.
    User(HandlerContext),
    /// Nobody: earlier steps were done already, and a question may repeat the call.
    Nobody,
}

/// What a tool works with.
#[derive(Clone)]
pub(crate) struct CallScope {
    pub(crate) session: Arc<Session>,
    pub(crate) asking: Questions,
}

pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<Answer, HandlerError>> + Send>>;
pub(crate) type Step = Arc<dyn Fn(CallScope, Json) -> AnswerFuture + Send + Sync>;

/// The tools so far.
pub(crate) struct Registry {
    pub(crate) session: Arc<Session>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) steps: BTreeMap<&'static str, Step>,
}

impl Registry {
    pub(crate) fn new(session: &Arc<Session>) -> Registry {
        Registry { session: session.clone(), tools: Vec::new(), steps: BTreeMap::new() }
    }

    /// Adds a tool. `annotate` sets its hints.
    pub(crate) fn add<A, F, W>(
        &mut self,
        name: &'static str,
        description: &str,
        annotate: fn(Tool) -> Tool,
        work: W,
    ) where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Answer, HandlerError>> + Send + 'static,
        W: Fn(CallScope, A) -> F + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let step = work.clone();
        let step: Step =
            Arc::new(move |scope, arguments| match serde_json::from_value::<A>(arguments) {
                Ok(arguments) => Box::pin(step(scope, arguments)),
                Err(error) => {
                    let error = HandlerError::failed(format!("invalid arguments: {error}"));
                    Box::pin(std::future::ready(Err(error)))
                }
            });
        self.steps.insert(name, step);
        let session = self.session.clone();
        let call = move |context: HandlerContext, arguments: A| {
            let (session, work) = (session.clone(), work.clone());
            async move {
                let _busy = session.begin_call();
                let scope =
                    CallScope { session: session.clone(), asking: Questions::User(context) };
                deliver(&session, work(scope, arguments).await)
            }
        };
        self.tools.push(annotate(Tool::typed(name, description, call)));
    }
}

/// The answer of a call, after what the model has to know first.
pub(super) fn deliver(
    session: &Session,
    answer: Result<Answer, HandlerError>,
) -> Result<ToolOutput, HandlerError> {
    let with_notice = |text: &str| match session.take_notice() {
        Some(notice) => format!("note: {notice}. {text}"),
        None => text.to_owned(),
    };
    match answer {
        Ok(Answer { text, picture }) => {
            Ok(Answer { text: with_notice(&text), picture }.into_output())
        }
        Err(error) => Err(match error.message() {
            Some(message) => HandlerError::failed(with_notice(message)),
            None => error,
        }),
    }
}

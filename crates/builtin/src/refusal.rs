//! Why a handler has no result. How that is said to the client depends on what it asked, and in which era.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value as Json, json};
use switchboard_wire::era::Era;
use switchboard_wire::message::RemoteError;
use switchboard_wire::reception;

use crate::content::Output;

/// What a handler does: takes its time, and comes to a result or to none.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, Stop>> + Send + 'a>>;

/// A handler stops here. Hand it on with `?`.
#[derive(Debug)]
pub struct Stop(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    /// It did not work out; a model may read why and do better.
    Failed(String),
    /// The parameters make no sense.
    Invalid(String),
    /// There is no such resource.
    Missing(String),
    /// The client cannot be asked what would have to be asked.
    Lacking(Json),
    /// The client has to answer first, and ask again.
    Asks { key: String, request: Json },
}

impl Stop {
    /// It did not work out. A model is told, and may do better.
    pub fn failed(why: impl Into<String>) -> Stop {
        Stop(Kind::Failed(why.into()))
    }

    /// What was asked makes no sense.
    pub fn invalid(why: impl Into<String>) -> Stop {
        Stop(Kind::Invalid(why.into()))
    }

    /// There is no resource at this address.
    pub fn missing(uri: impl Into<String>) -> Stop {
        Stop(Kind::Missing(uri.into()))
    }

    /// The end of a tool's call: what a model may mend is a result, the rest is an error.
    pub(crate) fn of_tool(self, era: Era) -> Result<Output, RemoteError> {
        match (self.0, era) {
            (Kind::Failed(why), _) => Ok(Output::failure(why)),
            (Kind::Lacking(_), Era::Legacy) => {
                Ok(Output::failure("the client cannot ask anybody".to_owned()))
            }
            (kind, era) => Err(Stop(kind).error(era)),
        }
    }

    /// The same for everything else.
    pub(crate) fn error(self, era: Era) -> RemoteError {
        match self.0 {
            Kind::Failed(why) => reception::failed(&why),
            Kind::Invalid(why) => reception::invalid(&why),
            Kind::Missing(uri) => reception::no_resource(era, &uri),
            Kind::Lacking(what) => reception::lacking(&what),
            // Said as a result before it comes to this.
            Kind::Asks { key, .. } => reception::failed(&format!("`{key}` has no answer")),
        }
    }

    pub(crate) fn lacking(mode: &str) -> Stop {
        Stop(Kind::Lacking(json!({"elicitation": {mode: {}}})))
    }
}

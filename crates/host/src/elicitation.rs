//! Elicitation: requests from servers to the user, forms and URLs, and who answers them: the user, a hook or scripted
//! answers. `connection` receives the requests and sends the results.

pub(crate) mod elicitor;
pub(crate) mod form;
pub(crate) mod hook;
pub(crate) mod scripted_answers;
pub(crate) mod url;

pub use elicitor::{
    DENIED_BY_USER, DeclineAll, ElicitFuture, ElicitResult, Elicitation, ElicitationKind, Elicitor,
    InvalidElicitation, SamplingRequest, UrlElicitation, WaitFuture, WaitOutcome,
};
pub use form::{
    Choice, FieldKind, FieldRequirement, Form, FormError, FormField, InvalidAnswer, NumberKind,
    TextFormat,
};
pub use scripted_answers::{ScriptedAnswers, ScriptedAnswersError};

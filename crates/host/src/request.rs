//! One request to one server: what is sent, how often it is tried, and why there is no response.
//! Tool calls go through `call`, which obtains the permit that `tools/call` needs.

pub(crate) mod error;
pub(crate) mod ide_call;
pub(crate) mod send;
pub(crate) mod server_request;
pub(crate) mod typed;

pub use error::RequestError;
pub use server_request::{
    ClientElicitor, Idempotency, OnBehalfOf, OnInputRequired, RequestOptions, ServerRequest,
    UrlElicitationPolicy,
};
pub use typed::completion::{Complete, Completion};
pub use typed::content::{Content, ContentKind};
pub use typed::definitions::{
    PromptArgument, PromptDefinition, ResourceDefinition, ResourceTemplateDefinition,
};
pub use typed::prompt::{GetPrompt, PromptMessage, PromptMessages, Role};
pub use typed::resource::{ReadResource, ResourceBody, ResourceContent, ResourceContents};
pub use typed::response::TypedRequestError;

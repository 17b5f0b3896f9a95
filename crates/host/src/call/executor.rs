//! What all tools have in common, whoever's they are: one is performed with a [`Permit`] and gives an answer.
//! [`McpTool`] is the template for every tool of a server; our own are in `built_in`. Who makes permits, and what
//! becomes of answers, is left to `calling`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::Progress;
use tokio::sync::mpsc;

use crate::call::pipeline::{CallContext, Permit, ToolCall};
use crate::host::Host;
use crate::pool::tool::Tool;
use crate::request::send::{Idempotency, RequestError, ServerRequest, TOOL_CALL};

/// A call on its way to whoever performs it.
#[derive(Debug)]
pub struct ToolExecution<'a> {
    /// For reaching servers.
    pub host: &'a Host,
    /// What the call depends on.
    pub context: &'a CallContext,
    /// The tool.
    pub tool: &'a Tool,
    /// The call. Its arguments have been checked.
    pub call: ToolCall,
}

/// An answer that is being waited for: a result of `tools/call`, as a server would write it.
pub type ExecutionFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Payload, RequestError>> + Send + 'a>>;

/// A way to perform calls. It takes a permit, so that nothing runs without one.
pub trait ToolExecutor: fmt::Debug + Send + Sync {
    /// Performs one call. Dropping the future cancels it.
    fn execute<'a>(&'a self, permit: Permit, work: ToolExecution<'a>) -> ExecutionFuture<'a>;
}

/// The template for every tool of a server: the call is the server's to perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerToolExecutor;

impl ToolExecutor for ServerToolExecutor {
    fn execute<'a>(&'a self, permit: Permit, work: ToolExecution<'a>) -> ExecutionFuture<'a> {
        Box::pin(async move {
            let ToolExecution { host, tool, call, .. } = work;
            let written = call_params(&tool.name, &call.arguments);
            let question = tool_call_request(tool, written, (call.timeout, call.progress));
            host.send_permitted(permit, &tool.server, question).await
        })
    }
}

/// A call as its server is asked for it, by the parameters and the arguments inside them.
pub(crate) fn tool_call_request(
    tool: &Tool,
    (params, arguments): (Payload, Payload),
    (timeout, progress): (Duration, Option<mpsc::Sender<Progress>>),
) -> ServerRequest {
    let param_headers = Some(&tool.param_headers).filter(|mirror| !mirror.is_empty());
    let is_idempotent = tool.annotations.read_only || tool.annotations.idempotent;
    ServerRequest {
        method: TOOL_CALL.into(),
        params: Some(params),
        idempotency: if is_idempotent {
            Idempotency::Idempotent
        } else {
            Idempotency::NotIdempotent
        },
        timeout,
        progress,
        param_headers: param_headers.map(|mirror| mirror.headers(&arguments)),
        on_behalf_of: None,
    }
}

/// The parameters of a call, written once, and the arguments inside them.
fn call_params(name: &str, arguments: &Json) -> (Payload, Payload) {
    const INITIAL_CAPACITY: usize = 256;
    let mut text = Vec::with_capacity(INITIAL_CAPACITY);
    text.extend_from_slice(b"{\"name\":");
    serde_json::to_writer(&mut text, name).expect("a text can be written to memory");
    text.extend_from_slice(b",\"arguments\":");
    let start = text.len();
    serde_json::to_writer(&mut text, arguments).expect("JSON can be written to memory");
    let end = text.len();
    text.push(b'}');
    let text = Bytes::from(text);
    (Payload::from_json(text.clone()), Payload::from_json(text.slice(start..end)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_a_name_and_arguments_and_the_arguments_are_a_part_of_them() {
        let arguments = json!({"a": ["ü", 1], "b": null});
        let (params, part) = call_params("quote\"d", &arguments);
        let expected = json!({"name": "quote\"d", "arguments": arguments});
        assert_eq!(params.decode::<Json>().expect("JSON"), expected);
        assert_eq!(part.decode::<Json>().expect("JSON"), arguments);
    }
}

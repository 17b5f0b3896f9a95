//! Executes a permitted call: a server's tool by a request to the server, a built-in tool here.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use switchboard_config::entry::server::TransportKind;
use switchboard_wire::jsonrpc::message::Payload;

use crate::builtin_tools;
use crate::builtin_tools::BuiltinCall;
use crate::call::context::CallContext;
use crate::call::services::CallServices;
use crate::call::tool_call::ToolCall;
use crate::permission::permit::Permit;
use crate::pool::tool::{Tool, ToolKind};
use crate::request::error::RequestError;
use crate::request::send::{Authority, TOOL_CALL};
use crate::request::server_request::{
    Idempotency, RequestOptions, ServerRequest, UrlElicitationPolicy,
};

/// The member of `_meta` with the id of a call in its conversation. Programs that host a server relate the two by it.
const CALL_ID_META: &str = "claudecode/toolUseId";

/// Executes a call whose arguments have been checked. The result is a result of `tools/call`.
pub(super) async fn execute(
    services: &CallServices,
    permit: Permit,
    (context, tool): (&CallContext, &Tool),
    call: ToolCall,
) -> Result<Payload, RequestError> {
    match tool.kind {
        // The pool has no methods of extensions; `relay` sends them.
        ToolKind::Server | ToolKind::Embedded | ToolKind::ExtensionMethod => {
            let connection = services.engine().connection(&tool.server);
            let is_hosted = connection.is_some_and(|it| it.view().transport == TransportKind::Sdk);
            let call_id = call.call_id.as_deref().filter(|_| is_hosted);
            let params = call_params(&tool.name, &call.arguments, call_id);
            let request = tool_call_request(tool, params, call.options);
            services.requests().send(&tool.server, &request, Authority::ToolCall(permit)).await
        }
        ToolKind::BuiltIn | ToolKind::LoginPlaceholder => {
            let _used_here = permit;
            Box::pin(builtin_tools::run(BuiltinCall {
                tool,
                arguments: call.arguments,
                timeout: call.options.timeout,
                rules: context.rules.current(),
                limits: &context.limits,
                spill: &context.spill,
                resources: services.resources(),
            }))
            .await
        }
    }
}

/// The request for a call, from its parameters and the arguments inside them.
pub(super) fn tool_call_request(
    tool: &Tool,
    (params, arguments): (Payload, Payload),
    options: RequestOptions,
) -> ServerRequest {
    let param_headers = Some(&tool.param_headers).filter(|it| !it.is_empty());
    let is_idempotent = tool.annotations.read_only || tool.annotations.idempotent;
    ServerRequest {
        method: TOOL_CALL.into(),
        params: Some(params),
        idempotency: match is_idempotent {
            true => Idempotency::Idempotent,
            false => Idempotency::NotIdempotent,
        },
        param_headers: param_headers.map(|it| it.headers(&arguments)),
        url_elicitation: match options.on_behalf_of {
            None => UrlElicitationPolicy::Resolve,
            Some(_) => UrlElicitationPolicy::ReturnError,
        },
        options,
    }
}

/// The parameters of a call, serialized once, and the arguments as a slice of them.
fn call_params(name: &str, arguments: &Json, call_id: Option<&str>) -> (Payload, Payload) {
    const INITIAL_CAPACITY: usize = 256;
    let mut text = Vec::with_capacity(INITIAL_CAPACITY);
    text.extend_from_slice(b"{\"name\":");
    serde_json::to_writer(&mut text, name).expect("a text can be written to memory");
    text.extend_from_slice(b",\"arguments\":");
    let start = text.len();
    serde_json::to_writer(&mut text, arguments).expect("JSON can be written to memory");
    let end = text.len();
    if let Some(id) = call_id {
        text.extend_from_slice(b",\"_meta\":");
        let meta = json!({(CALL_ID_META): id});
        serde_json::to_writer(&mut text, &meta).expect("JSON can be written to memory");
    }
    text.push(b'}');
    let text = Bytes::from(text);
    (Payload::from_json(text.clone()), Payload::from_json(text.slice(start..end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_a_name_and_arguments_and_the_arguments_are_a_part_of_them() {
        let arguments = json!({"a": ["ü", 1], "b": null});
        let (params, part) = call_params("quote\"d", &arguments, None);
        let expected = json!({"name": "quote\"d", "arguments": arguments});
        assert_eq!(params.decode::<Json>().expect("JSON"), expected);
        assert_eq!(part.decode::<Json>().expect("JSON"), arguments);
        let (params, _) = call_params("t", &json!({}), Some("toolu_1"));
        let meta = &params.decode::<Json>().expect("JSON")["_meta"];
        assert_eq!(*meta, json!({"claudecode/toolUseId": "toolu_1"}));
    }
}

//! A tool call that is relayed for a client: obtain a permit, forward, record. Arguments and results stay byte for byte;
//! checking them is left to the client and the server.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::{LazyFinder, Payload};

use crate::audit::log;
use crate::audit::log::{CallOutcome, RequestOrigin};
use crate::call::context::CallContext;
use crate::call::executor;
use crate::call::pipeline::PendingRecord;
use crate::call::services::CallServices;
use crate::call::tool_call::{ToolCall, ToolCallError};
use crate::call::unambiguous_json::UnambiguousObject;
use crate::permission::permit::obtain_permit;
use crate::permission::prompt::PermissionPrompt;
use crate::pool::argument_check::{ArgumentFault, ArgumentFaultKind};
use crate::pool::tool::{Tool, ToolKind};
use crate::request::send::Authority;
use crate::request::server_request::{
    Idempotency, RequestOptions, ServerRequest, UrlElicitationPolicy,
};

/// A call of a client.
pub struct RelayedCall<'a> {
    /// The caller.
    pub caller: &'a str,
    /// The tool's name in the client's request.
    pub requested_name: &'a str,
    /// The tool, or the method of an extension.
    pub tool: &'a Arc<Tool>,
    /// The arguments, where there are any; the parameters of a method.
    pub arguments: Option<Payload>,
    /// The other parameters.
    pub other_params: Vec<(String, Payload)>,
    /// Timeout, progress and client.
    pub options: RequestOptions,
    /// Asks for permission.
    pub prompt: &'a dyn PermissionPrompt,
    /// The origin of the request, for the audit log.
    pub origin: RequestOrigin,
}

impl std::fmt::Debug for RelayedCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelayedCall({})", self.requested_name)
    }
}

/// Relays a call, and records it whatever its outcome.
pub(crate) async fn relay(
    services: &CallServices,
    context: &CallContext,
    mut call: RelayedCall<'_>,
) -> (CallOutcome, Result<Payload, ToolCallError>) {
    let mut pending = PendingRecord::begin(&context.audit, call.caller, call.requested_name);
    pending.record.origin = std::mem::take(&mut call.origin);
    let result = run(services, context, call, &mut pending).await;
    let outcome = match &result {
        Ok(result) if is_tool_error(result) => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => error.into(),
    };
    pending.set_outcome(outcome, result.as_ref().err());
    pending.finish().await;
    (outcome, result)
}

async fn run(
    services: &CallServices,
    context: &CallContext,
    mut call: RelayedCall<'_>,
    pending: &mut PendingRecord,
) -> Result<Payload, ToolCallError> {
    let tool = call.tool;
    let record = &mut pending.record;
    record.server.clone_from(&tool.server);
    record.tool.clone_from(&tool.name);
    let mut arguments = match &call.arguments {
        Some(arguments) => read_arguments(&tool.exposed_name, arguments)?,
        None => Json::Object(serde_json::Map::new()),
    };
    record.arguments = log::digest(&arguments);
    let view = services.engine().connection(&tool.server).map(|it| it.view());
    // A method has no definition that could be pinned.
    let view = view.filter(|_| tool.kind != ToolKind::ExtensionMethod);
    let fingerprint = view.as_ref().and_then(|it| it.pin_fingerprint());
    let check = context.permission_check(call.caller, call.prompt);
    let mut permit = obtain_permit(check, tool, fingerprint, &arguments, &mut record.verdict)
        .await
        .map_err(|denied| ToolCallError::denied(tool, denied))?;
    "allow".clone_into(&mut record.decision);
    permit.because().clone_into(&mut record.because);
    if let Some(changed) = permit.take_changed_arguments() {
        record.arguments = log::digest(&changed);
        call.arguments = Some(Payload::from_json(Bytes::from(changed.to_string())));
        arguments = changed;
    }
    pending.record_start(tool).await?;
    // Whatever the server sends from now on may be in later calls.
    context.record_seen(tool, &arguments).await?;
    match tool.kind {
        ToolKind::Server | ToolKind::Embedded => {
            let params = call_params(&tool.name, call.arguments.as_ref(), &call.other_params);
            let mut request = executor::tool_call_request(tool, params, call.options);
            request.url_elicitation = UrlElicitationPolicy::ReturnError;
            let authority = Authority::ToolCall(permit);
            Ok(services.requests().send(&tool.server, &request, authority).await?)
        }
        ToolKind::ExtensionMethod => {
            let request = ServerRequest {
                method: tool.method().unwrap_or_default().to_owned().into(),
                params: call.arguments,
                idempotency: Idempotency::NotIdempotent,
                param_headers: None,
                url_elicitation: UrlElicitationPolicy::ReturnError,
                options: call.options,
            };
            let authority = Authority::ToolCall(permit);
            Ok(services.requests().send(&tool.server, &request, authority).await?)
        }
        ToolKind::BuiltIn | ToolKind::LoginPlaceholder => {
            let call = ToolCall {
                caller: call.caller.to_owned(),
                call_id: None,
                exposed_name: tool.exposed_name.clone(),
                arguments,
                options: call.options,
            };
            Ok(executor::execute(services, permit, (context, tool), call).await?)
        }
    }
}

/// The arguments as rules see them. Arguments that cannot be parsed here, or are ambiguous, are rejected, because the
/// server might see in them what no rule has seen.
fn read_arguments(tool: &str, arguments: &Payload) -> Result<Json, ToolCallError> {
    match arguments.decode::<UnambiguousObject>() {
        Ok(UnambiguousObject(members)) => Ok(Json::Object(members)),
        Err(_) => {
            let expected =
                "must be an object that is not too deep and has no name twice, at any depth"
                    .to_owned();
            let kind = ArgumentFaultKind::Invalid { expected };
            let faults = vec![ArgumentFault { at: String::new(), kind }];
            Err(ToolCallError::InvalidArguments { tool: tool.to_owned(), faults })
        }
    }
}

/// The parameters of a call with the server's name of the tool, and the arguments in them.
fn call_params(
    name: &str,
    arguments: Option<&Payload>,
    other_params: &[(String, Payload)],
) -> (Payload, Payload) {
    const ENVELOPE_BYTES: usize = 64;
    let none = Payload::from_json(Bytes::from_static(b"{}"));
    let size = |it: &Payload| it.as_bytes().len();
    let room = name.len()
        + arguments.map_or(0, size)
        + other_params.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>();
    let mut text = BytesMut::with_capacity(room + ENVELOPE_BYTES);
    text.put_slice(b"{\"name\":");
    write_json_string(&mut text, name);
    if let Some(arguments) = arguments {
        text.put_slice(b",\"arguments\":");
        text.put_slice(arguments.as_bytes());
    }
    for (name, value) in other_params {
        text.put_slice(b",");
        write_json_string(&mut text, name);
        text.put_slice(b":");
        text.put_slice(value.as_bytes());
    }
    text.put_slice(b"}");
    (Payload::from_json(text.freeze()), arguments.cloned().unwrap_or(none))
}

fn write_json_string(text: &mut BytesMut, word: &str) {
    serde_json::to_writer(text.writer(), word).expect("a text can be written to memory");
}

/// Whether a result is a tool error. Searches for the word first, so that large results are not parsed.
fn is_tool_error(result: &Payload) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ErrorFlag {
        #[serde(default)]
        is_error: bool,
    }
    static IS_ERROR_KEY: LazyFinder = LazyFinder::new(|| Finder::new(b"\"isError\""));
    result.contains(&IS_ERROR_KEY) && result.decode::<ErrorFlag>().is_ok_and(|it| it.is_error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    #[test]
    fn parameters_are_forwarded_with_the_servers_name_of_the_tool() {
        let arguments = payload(&json!({"a": 1}));
        let other_params = [("requestState".to_owned(), payload(&json!("x")))];
        let (params, mirrored) = call_params("quote\"d", Some(&arguments), &other_params);
        let expected = json!({"name": "quote\"d", "arguments": {"a": 1}, "requestState": "x"});
        assert_eq!(params.decode::<Json>().expect("JSON"), expected);
        assert_eq!(mirrored, arguments);
        let (params, mirrored) = call_params("t", None, &[]);
        assert_eq!(params.decode::<Json>().expect("JSON"), json!({"name": "t"}));
        assert_eq!(mirrored.as_bytes().as_ref(), b"{}");
    }

    #[test]
    fn arguments_that_rules_cannot_see_are_rejected() {
        let check = |text: &str| {
            read_arguments("t", &Payload::from_json(text.to_owned().into()))
                .map_err(|it| it.to_string())
        };
        assert_eq!(check(r#"{"a": {"b": 1}}"#), Ok(serde_json::json!({"a": {"b": 1}})));
        assert_eq!(check("{}"), Ok(serde_json::json!({})));
        let deep = format!(r#"{{"path": "/etc", "x": {}{}}}"#, "[".repeat(200), "]".repeat(200));
        for bad in [
            deep.as_str(),
            r#"{"path": "/etc", "path": "/srv"}"#,
            r#"{"options": {"path": "/etc", "path": "/srv"}}"#,
            r#"{"files": [{"path": "/etc", "p\u0061th": "/srv"}]}"#,
            r#"{"a": {"b": [[{"c": {"d": 1, "d": 1}}]]}}"#,
            "[1]",
            "\"x\"",
            "null",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        let whole = r#"{"a": [1, -2, 2.5, 1e300, true, null, "ü\n"], "b": {"a": {"a": {}}}}"#;
        assert_eq!(check(whole), Ok(serde_json::from_str(whole).expect("JSON")));
    }

    #[test]
    fn a_tool_error_is_recognised_at_the_top_level_only() {
        let nested = json!({"content": [], "structuredContent": {"isError": true}});
        assert!(!is_tool_error(&payload(&nested)));
        assert!(is_tool_error(&payload(&json!({"isError": true}))));
        assert!(!is_tool_error(&payload(&json!({"isError": false}))));
    }
}

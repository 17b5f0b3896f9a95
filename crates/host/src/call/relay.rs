//! A tool call that is passed through for a client of ours: resolve, permit, perform, record. Arguments and results
//! stay the bytes that came: what they must look like is for the client and the server to know.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::{LazyFinder, Payload};
use switchboard_wire::peer::Progress;
use switchboard_wire::protocol::request_meta::RawObject;
use tokio::sync::mpsc;

use super::pipeline::{
    CallContext, PendingRecord, PermissionCheck, PermissionPrompt, ToolCall, ToolCallError,
    obtain_permit,
};
use crate::audit::log;
use crate::audit::log::{AuditRecord, CallOutcome, RequestOrigin};
use crate::call::executor::{ToolExecution, tool_call_request};
use crate::call::pipeline::Permit;
use crate::host::Host;
use crate::pool::argument_check::{ArgumentFault, ArgumentFaultKind};
use crate::pool::tool::{Tool, ToolKind};
use crate::request::send::{OnBehalfOf, RequestError};

/// A call of a client.
pub struct RelayedCall<'a> {
    /// Who calls.
    pub caller: &'a str,
    /// The name that the client used.
    pub requested_name: &'a str,
    /// The tool.
    pub tool: &'a Arc<Tool>,
    /// Its arguments, where there are any.
    pub arguments: Option<Payload>,
    /// What else stands beside the name and the arguments.
    pub other_params: Vec<(String, Payload)>,
    /// How long the server may take.
    pub timeout: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// For whom it is.
    pub on_behalf_of: OnBehalfOf,
    /// Who is asked for leave.
    pub prompt: &'a dyn PermissionPrompt,
    /// Where it came from, for the records.
    pub origin: RequestOrigin,
}

impl std::fmt::Debug for RelayedCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelayedCall({})", self.requested_name)
    }
}

impl Host {
    /// Passes a call on, and records it whatever becomes of it. Says how it ended besides.
    pub async fn relay(
        &self,
        context: &CallContext,
        mut call: RelayedCall<'_>,
    ) -> (CallOutcome, Result<Payload, ToolCallError>) {
        let mut recording = PendingRecord::begin(context, call.caller, call.requested_name);
        recording.record.origin = std::mem::take(&mut call.origin);
        let outcome = self.run_relay(context, call, &mut recording.record).await;
        let call_outcome = match &outcome {
            Ok(result) if is_tool_error(result) => CallOutcome::ToolError,
            Ok(_) => CallOutcome::Succeeded,
            Err(failure) => failure.into(),
        };
        recording.record.outcome = call_outcome.id().to_owned();
        if let Err(ToolCallError::Denied { because, .. }) = &outcome {
            recording.record.because.clone_from(because);
        }
        (call_outcome, outcome)
    }

    async fn run_relay(
        &self,
        context: &CallContext,
        call: RelayedCall<'_>,
        record: &mut AuditRecord,
    ) -> Result<Payload, ToolCallError> {
        let tool = call.tool;
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        let arguments = match &call.arguments {
            Some(arguments) => read_arguments(&tool.exposed_name, arguments)?,
            None => Json::Object(serde_json::Map::new()),
        };
        record.arguments = log::digest(&arguments);
        let fingerprint = self.connection(&tool.server).map(|it| it.view().fingerprint.clone());
        let (of_server, rule_verdict) = (fingerprint.as_ref(), &mut record.verdict);
        let check = PermissionCheck { caller: call.caller, context, prompt: call.prompt };
        let permit = obtain_permit(check, tool, of_server, &arguments, rule_verdict).await?;
        "allow".clone_into(&mut record.decision);
        record.because.clone_from(&permit.because);
        match tool.kind {
            ToolKind::Server => Ok(self.forward(permit, call).await?),
            ToolKind::BuiltIn | ToolKind::LoginPlaceholder => {
                let call = ToolCall {
                    caller: call.caller.to_owned(),
                    timeout: call.timeout,
                    ..ToolCall::new(&tool.exposed_name, arguments)
                };
                let work = ToolExecution { host: self, context, tool, call };
                Ok(tool.executor.execute(permit, work).await?)
            }
        }
    }

    async fn forward(
        &self,
        permit: Permit,
        call: RelayedCall<'_>,
    ) -> Result<Payload, RequestError> {
        let tool = call.tool;
        let written = call_params(&tool.name, call.arguments.as_ref(), &call.other_params);
        let question = tool_call_request(tool, written, (call.timeout, call.progress));
        self.relay_permitted(permit, &tool.server, question.on_behalf_of(call.on_behalf_of)).await
    }
}

/// The arguments as rules see them. What cannot be read here, or may be read in two ways, is not passed on: the server
/// might see in it what no rule has seen.
fn read_arguments(tool: &str, arguments: &Payload) -> Result<Json, ToolCallError> {
    let members: Option<serde_json::Map<String, Json>> = arguments.decode().ok();
    let written = RawObject::parse(Some(arguments)).map_or(0, |it| it.into_members().len());
    match members.filter(|it| it.len() == written) {
        Some(members) => Ok(Json::Object(members)),
        None => {
            let expected = "an object that is not too deep and has no name twice".to_owned();
            let kind = ArgumentFaultKind::Invalid { expected };
            let faults = vec![ArgumentFault { at: String::new(), kind }];
            Err(ToolCallError::InvalidArguments { tool: tool.to_owned(), faults })
        }
    }
}

/// The parameters of a call with the server's own name for the tool, and the arguments in them.
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

/// Looking for the word first keeps large results unread.
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
    fn what_a_client_sent_reaches_the_server_under_the_servers_own_name() {
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
    fn what_rules_cannot_see_is_not_passed_on() {
        let check = |text: &str| {
            read_arguments("t", &Payload::from_json(text.to_owned().into()))
                .map_err(|it| it.to_string())
        };
        assert_eq!(check(r#"{"a": {"b": 1}}"#), Ok(serde_json::json!({"a": {"b": 1}})));
        assert_eq!(check("{}"), Ok(serde_json::json!({})));
        let deep = format!(r#"{{"path": "/etc", "x": {}{}}}"#, "[".repeat(200), "]".repeat(200));
        for bad in [deep.as_str(), r#"{"path": "/etc", "path": "/srv"}"#, "[1]", "\"x\"", "null"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_result_says_of_itself_whether_it_is_an_error() {
        let nested = json!({"content": [], "structuredContent": {"isError": true}});
        assert!(!is_tool_error(&payload(&nested)));
        assert!(is_tool_error(&payload(&json!({"isError": true}))));
        assert!(!is_tool_error(&payload(&json!({"isError": false}))));
    }
}

//! A tool call that is passed through for a client of ours: resolve, permit, perform, record. Arguments and results
//! stay the bytes that came: what they must look like is for the client and the server to know.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_wire::asked::Members;
use switchboard_wire::message::{Payload, Word};
use switchboard_wire::peer::Progress;
use tokio::sync::mpsc;

use super::{Applicant, CallFailure, Consent, Desk, Recording, ToolCall, permit};
use crate::ask::{AskError, Behest};
use crate::audit::{self, Ended, Provenance, Record};
use crate::calling::Permit;
use crate::engine::Host;
use crate::perform::{Work, question};
use crate::pool::argument_check::{ArgumentFault, ArgumentFaultKind};
use crate::pool::tool::{Tool, ToolKind};

/// A call of a client.
pub struct RelayedCall<'a> {
    /// Who calls.
    pub caller: &'a str,
    /// The name that the client used.
    pub called: &'a str,
    /// The tool.
    pub tool: &'a Arc<Tool>,
    /// Its arguments, where there are any.
    pub arguments: Option<Payload>,
    /// What else stands beside the name and the arguments.
    pub beside: Vec<(String, Payload)>,
    /// How long the server may take.
    pub patience: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// For whom it is.
    pub behest: Behest,
    /// Who is asked for leave.
    pub consent: &'a dyn Consent,
    /// Where it came from, for the records.
    pub provenance: Provenance,
}

impl std::fmt::Debug for RelayedCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RelayedCall({})", self.called)
    }
}

impl Host {
    /// Passes a call on, and records it whatever becomes of it. Says how it ended besides.
    pub async fn relay(
        &self,
        desk: &Desk,
        mut call: RelayedCall<'_>,
    ) -> (Ended, Result<Payload, CallFailure>) {
        let mut recording = Recording::begin(desk, call.caller, call.called);
        recording.record.provenance = std::mem::take(&mut call.provenance);
        let outcome = self.relayed(desk, call, &mut recording.record).await;
        let ended = match &outcome {
            Ok(result) if is_error(result) => Ended::ToolError,
            Ok(_) => Ended::Done,
            Err(failure) => failure.into(),
        };
        recording.record.outcome = ended.id().to_owned();
        if let Err(CallFailure::Denied { because, .. }) = &outcome {
            recording.record.because.clone_from(because);
        }
        (ended, outcome)
    }

    async fn relayed(
        &self,
        desk: &Desk,
        call: RelayedCall<'_>,
        record: &mut Record,
    ) -> Result<Payload, CallFailure> {
        let tool = call.tool;
        record.server.clone_from(&tool.server);
        record.tool.clone_from(&tool.name);
        let arguments = match &call.arguments {
            Some(arguments) => read(&tool.exposed, arguments)?,
            None => Json::Object(serde_json::Map::new()),
        };
        record.arguments = audit::digest(&arguments);
        let fingerprint = self.handle(&tool.server).map(|it| it.view().fingerprint.clone());
        let (of_server, said) = (fingerprint.as_ref(), &mut record.verdict);
        let applicant = Applicant { caller: call.caller, desk, consent: call.consent };
        let leave = permit(applicant, tool, of_server, &arguments, said).await?;
        "allow".clone_into(&mut record.decision);
        record.because.clone_from(&leave.because);
        match tool.kind {
            ToolKind::Served => Ok(self.passed(leave, call).await?),
            ToolKind::BuiltIn | ToolKind::StandIn => {
                let call = ToolCall {
                    caller: call.caller.to_owned(),
                    patience: call.patience,
                    ..ToolCall::new(&tool.exposed, arguments)
                };
                let work = Work { host: self, desk, tool, call };
                Ok(tool.performer.perform(leave, work).await?)
            }
        }
    }

    async fn passed(&self, leave: Permit, call: RelayedCall<'_>) -> Result<Payload, AskError> {
        let tool = call.tool;
        let written = written(&tool.name, call.arguments.as_ref(), &call.beside);
        let question = question(tool, written, (call.patience, call.progress));
        self.put_permitted(leave, &tool.server, question.for_whom(call.behest)).await
    }
}

/// The arguments as rules see them. What cannot be read here, or may be read in two ways, is not passed on: the server
/// might see in it what no rule has seen.
fn read(tool: &str, arguments: &Payload) -> Result<Json, CallFailure> {
    let members: Option<serde_json::Map<String, Json>> = arguments.decode().ok();
    let written = Members::read(Some(arguments)).map_or(0, |it| it.into_all().len());
    match members.filter(|it| it.len() == written) {
        Some(members) => Ok(Json::Object(members)),
        None => {
            let expected = "an object that is not too deep and has no name twice".to_owned();
            let kind = ArgumentFaultKind::Unfit { expected };
            let faults = vec![ArgumentFault { at: String::new(), kind }];
            Err(CallFailure::Arguments { tool: tool.to_owned(), faults })
        }
    }
}

/// The parameters of a call with the server's own name for the tool, and the arguments in them.
fn written(
    name: &str,
    arguments: Option<&Payload>,
    beside: &[(String, Payload)],
) -> (Payload, Payload) {
    const AROUND: usize = 64;
    let none = Payload::from_json(Bytes::from_static(b"{}"));
    let size = |it: &Payload| it.as_bytes().len();
    let room = name.len()
        + arguments.map_or(0, size)
        + beside.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>();
    let mut text = BytesMut::with_capacity(room + AROUND);
    text.put_slice(b"{\"name\":");
    put_text(&mut text, name);
    if let Some(arguments) = arguments {
        text.put_slice(b",\"arguments\":");
        text.put_slice(arguments.as_bytes());
    }
    for (name, value) in beside {
        text.put_slice(b",");
        put_text(&mut text, name);
        text.put_slice(b":");
        text.put_slice(value.as_bytes());
    }
    text.put_slice(b"}");
    (Payload::from_json(text.freeze()), arguments.cloned().unwrap_or(none))
}

fn put_text(text: &mut BytesMut, word: &str) {
    serde_json::to_writer(text.writer(), word).expect("a text can be written to memory");
}

/// Looking for the word first keeps large results unread.
fn is_error(result: &Payload) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Said {
        #[serde(default)]
        is_error: bool,
    }
    static MENTIONED: Word = Word::new(|| Finder::new(b"\"isError\""));
    result.mentions(&MENTIONED) && result.decode::<Said>().is_ok_and(|it| it.is_error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::of(json).expect("JSON")
    }

    #[test]
    fn what_a_client_sent_reaches_the_server_under_the_servers_own_name() {
        let arguments = payload(&json!({"a": 1}));
        let beside = [("requestState".to_owned(), payload(&json!("x")))];
        let (params, mirrored) = written("quote\"d", Some(&arguments), &beside);
        let expected = json!({"name": "quote\"d", "arguments": {"a": 1}, "requestState": "x"});
        assert_eq!(params.decode::<Json>().expect("JSON"), expected);
        assert_eq!(mirrored, arguments);
        let (params, mirrored) = written("t", None, &[]);
        assert_eq!(params.decode::<Json>().expect("JSON"), json!({"name": "t"}));
        assert_eq!(mirrored.as_bytes().as_ref(), b"{}");
    }

    #[test]
    fn what_rules_cannot_see_is_not_passed_on() {
        let check = |text: &str| {
            read("t", &Payload::from_json(text.to_owned().into())).map_err(|it| it.to_string())
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
        assert!(!is_error(&payload(&nested)));
        assert!(is_error(&payload(&json!({"isError": true}))));
        assert!(!is_error(&payload(&json!({"isError": false}))));
    }
}

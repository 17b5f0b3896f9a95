//! Calls that the person makes without a model: `/call`. They are cards like those of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::calling::{CallFailure, Desk, ToolCall};
use switchboard::engine::Host;
use switchboard::yielded::Yield;
use switchboard_chat::happening::{CallEnd, CallSeen, Happening};
use tokio::sync::{mpsc, watch};

use super::{Deeds, fault, folder};
use crate::commands::call;
use crate::given;
use crate::live;
use crate::report;
use crate::screen::chat::{Event, OWN_CALL};
use crate::session::Session;

/// How many signs of progress may wait to be shown.
const SIGNS: usize = 16;
/// Who calls, in records and questions.
const CALLER: &str = "cli";

/// The calls under way.
#[derive(Debug)]
pub struct OwnCalls {
    count: u64,
    /// Counts how often all of them were stopped.
    stops: watch::Sender<u64>,
}

impl Default for OwnCalls {
    fn default() -> OwnCalls {
        OwnCalls { count: 0, stops: watch::Sender::new(0) }
    }
}

impl OwnCalls {
    /// Stops all of them. Their servers are told.
    pub fn stop(&self) {
        self.stops.send_modify(|it| *it += 1);
    }
}

/// What one call needs.
struct OwnCall {
    session: Session,
    host: Host,
    desk: Arc<Desk>,
    seen: CallSeen,
    patience: Duration,
    reports: mpsc::Sender<Event>,
}

impl Deeds {
    pub(super) async fn call(&mut self, tool: String, words: &[String]) {
        let arguments = match given::arguments(words, &folder(&self.session)) {
            Ok(arguments) => arguments,
            Err(failure) => return self.tell(fault(&failure)),
        };
        let patience =
            live::milliseconds(&self.session, "MCP_TOOL_TIMEOUT", ToolCall::USUAL_PATIENCE);
        let patience = match patience {
            Ok(patience) => patience,
            Err(failure) => return self.tell(fault(&failure)),
        };
        self.calls.count += 1;
        let title = match self.host.pool().find(&tool) {
            Some(found) if found.server.is_empty() => found.display_name().to_owned(),
            Some(found) => format!("{}: {}", found.server, found.display_name()),
            None => tool.clone(),
        };
        let call = OwnCall {
            session: self.session.clone(),
            host: self.host.clone(),
            desk: self.desk.clone(),
            seen: CallSeen {
                id: format!("{OWN_CALL}{}", self.calls.count).into(),
                tool: tool.into(),
                title,
                arguments,
            },
            patience,
            reports: self.reports.clone(),
        };
        let mut stops = self.calls.stops.subscribe();
        stops.mark_unchanged();
        self.tell(Event::Happened(Happening::CallBegan(call.seen.clone())));
        self.tasks.spawn(call.run(stops));
    }
}

impl OwnCall {
    async fn run(self, mut stops: watch::Receiver<u64>) {
        let began = Instant::now();
        let (say, mut heard) = mpsc::channel(SIGNS);
        let call = ToolCall {
            caller: CALLER.to_owned(),
            exposed: self.seen.tool.to_string(),
            arguments: self.seen.arguments.clone(),
            patience: self.patience,
            progress: Some(say),
        };
        let outcome = {
            let calling = self.host.call(&self.desk, call);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    outcome = &mut calling => break Some(outcome),
                    Some(sign) = heard.recv() => {
                        self.tell(self.progress(&sign.0.decode().unwrap_or_default())).await;
                    }
                    // Whoever drops the call has the server told.
                    _ = stops.changed() => break None,
                }
            }
        };
        let (ended, text) = match outcome {
            None => (CallEnd::Interrupted, String::new()),
            Some(Ok(yielded)) => self.yielded(&yielded),
            Some(Err(failure)) => self.failed(&failure).await,
        };
        let id = self.seen.id.clone();
        self.tell(Happening::CallEnded { id, ended, text, took: began.elapsed() }).await;
    }

    async fn tell(&self, happening: Happening) {
        let _left = self.reports.send(Event::Happened(happening)).await;
    }

    fn progress(&self, sign: &Json) -> Happening {
        Happening::CallProgress {
            id: self.seen.id.clone(),
            done: sign["progress"].as_f64().unwrap_or_default(),
            of: sign["total"].as_f64(),
            message: sign["message"].as_str().map(str::to_owned),
        }
    }

    fn yielded(&self, yielded: &Yield) -> (CallEnd, String) {
        let ended = if yielded.is_error { CallEnd::ToolError } else { CallEnd::Done };
        let done = call::show(&self.session, yielded);
        (ended, format!("{}{}", done.text, done.notes))
    }

    async fn failed(&self, failure: &CallFailure) -> (CallEnd, String) {
        let ended = match failure {
            CallFailure::Denied { .. } => CallEnd::Denied,
            CallFailure::NoTool { .. } | CallFailure::Arguments { .. } | CallFailure::Ask(_) => {
                CallEnd::Failed
            }
        };
        let failure = call::failure(failure, &self.host.snapshot());
        let failure = call::with_scopes(failure, &self.host, &self.seen.tool).await;
        (ended, report::failure_text(&failure).replace("\n\n", "\n"))
    }
}

//! Calls that the person makes without a model: `/call`. They are cards like those of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::call::pipeline::{CallContext, ToolCall, ToolCallError};
use switchboard::host::Host;
use switchboard::request::server_request::RequestOptions;
use switchboard::tool_result::ToolOutput;
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent, ToolCallView};
use tokio::sync::{mpsc, watch};

use super::{EffectRunner, error_event, working_folder};
use crate::call_args;
use crate::output::report;
use crate::output::tool_output;
use crate::runtime::login;
use crate::runtime::variables;
use crate::tui::state::screen_state::{ScreenEvent, USER_CALL_PREFIX};

/// How many signs of progress may wait to be shown.
const PROGRESS_BUFFER: usize = 16;
/// Who calls, in records and questions.
const CALLER: &str = "cli";

/// The calls under way.
#[derive(Debug)]
pub struct UserCalls {
    count: u64,
    /// Counts how often all of them were stopped.
    cancellations: watch::Sender<u64>,
}

impl Default for UserCalls {
    fn default() -> UserCalls {
        UserCalls { count: 0, cancellations: watch::Sender::new(0) }
    }
}

impl UserCalls {
    /// Stops all of them. Their servers are told.
    pub fn cancel_all(&self) {
        self.cancellations.send_modify(|it| *it += 1);
    }
}

/// What one call needs.
struct UserCall {
    host: Host,
    call_context: Arc<CallContext>,
    view: ToolCallView,
    timeout: Duration,
    events: mpsc::Sender<ScreenEvent>,
}

impl EffectRunner {
    pub(crate) async fn call(&mut self, tool: String, words: &[String]) {
        let arguments = match call_args::parse(words, &working_folder(&self.session)) {
            Ok(arguments) => arguments,
            Err(failure) => return self.queue_event(error_event(&failure)),
        };
        let timeout = variables::duration_variable(
            &self.session,
            "MCP_TOOL_TIMEOUT",
            ToolCall::DEFAULT_TIMEOUT,
        );
        let timeout = match timeout {
            Ok(timeout) => timeout,
            Err(failure) => return self.queue_event(error_event(&failure)),
        };
        self.user_calls.count += 1;
        let title = match self.host.pool().find(&tool) {
            Some(found) if found.server.is_empty() => found.display_name().to_owned(),
            Some(found) => format!("{}: {}", found.server, found.display_name()),
            None => tool.clone(),
        };
        let call = UserCall {
            host: self.host.clone(),
            call_context: self.call_context.clone(),
            view: ToolCallView {
                id: format!("{USER_CALL_PREFIX}{}", self.user_calls.count).into(),
                tool: tool.into(),
                title,
                arguments,
            },
            timeout,
            events: self.events.clone(),
        };
        let mut cancellations = self.user_calls.cancellations.subscribe();
        cancellations.mark_unchanged();
        self.queue_event(ScreenEvent::Conversation(ConversationEvent::CallStarted(
            call.view.clone(),
        )));
        self.tasks.spawn(call.run(cancellations));
    }
}

impl UserCall {
    async fn run(self, mut cancellations: watch::Receiver<u64>) {
        let began = Instant::now();
        let (progress_in, mut progress) = mpsc::channel(PROGRESS_BUFFER);
        let call = ToolCall {
            caller: CALLER.to_owned(),
            exposed_name: self.view.tool.to_string(),
            arguments: self.view.arguments.clone(),
            options: RequestOptions {
                progress: Some(progress_in),
                ..RequestOptions::new(self.timeout)
            },
        };
        let outcome = {
            let calling = self.host.call_with(&self.call_context, call);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    outcome = &mut calling => break Some(outcome),
                    Some(update) = progress.recv() => {
                        self.send(self.progress(&update.0.decode().unwrap_or_default())).await;
                    }
                    // Whoever drops the call has the server told.
                    _ = cancellations.changed() => break None,
                }
            }
        };
        let (ended, text) = match outcome {
            None => (CallOutcome::Interrupted, String::new()),
            Some(Ok(output)) => self.rendered_output(&output),
            Some(Err(failure)) => self.rendered_failure(&failure).await,
        };
        let id = self.view.id.clone();
        self.send(ConversationEvent::CallEnded {
            id,
            outcome: ended,
            text,
            duration: began.elapsed(),
        })
        .await;
    }

    async fn send(&self, event: ConversationEvent) {
        let _left = self.events.send(ScreenEvent::Conversation(event)).await;
    }

    fn progress(&self, update: &Json) -> ConversationEvent {
        ConversationEvent::CallProgress {
            id: self.view.id.clone(),
            progress: update["progress"].as_f64().unwrap_or_default(),
            total: update["total"].as_f64(),
            message: update["message"].as_str().map(str::to_owned),
        }
    }

    fn rendered_output(&self, output: &ToolOutput) -> (CallOutcome, String) {
        let ended = if output.is_error { CallOutcome::ToolError } else { CallOutcome::Done };
        let done = tool_output::text(output);
        (ended, format!("{}{}", done.text, done.notes))
    }

    async fn rendered_failure(&self, failure: &ToolCallError) -> (CallOutcome, String) {
        let ended = match failure {
            ToolCallError::Denied { .. } => CallOutcome::Denied,
            ToolCallError::UnknownTool { .. }
            | ToolCallError::InvalidArguments { .. }
            | ToolCallError::Request(_) => CallOutcome::Failed,
        };
        let failure = tool_output::call_failure(failure, &self.host.snapshot());
        let failure = login::with_scope_hint(failure, &self.host, &self.view.tool).await;
        (ended, report::failure_text(&failure).replace("\n\n", "\n"))
    }
}

//! Calls that the person makes without a model: `/call`. They are cards like those of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::call::pipeline::{CallContext, ToolCall, ToolCallError};
use switchboard::host::Host;
use switchboard::tool_result::ToolOutput;
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent, ToolCallView};
use tokio::sync::{mpsc, watch};

use super::{EffectRunner, error_event};
use crate::backend::Backend;
use crate::state::event::ScreenEvent;

/// How many signs of progress may wait to be shown.
const PROGRESS_BUFFER: usize = 16;
/// Who calls, in records and questions.
const CALLER: &str = "cli";

/// What calls of our own are called, so that they are not taken for the model's.
pub(crate) const USER_CALL_PREFIX: &str = "own-";

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
    backend: Arc<dyn Backend>,
    width: usize,
    host: Host,
    call_context: Arc<CallContext>,
    view: ToolCallView,
    timeout: Duration,
    events: mpsc::Sender<ScreenEvent>,
}

impl EffectRunner {
    pub(crate) async fn call(&mut self, tool: String, words: &[String]) {
        let backend = self.context.backend.clone();
        let arguments = match backend.parse_arguments(words) {
            Ok(arguments) => arguments,
            Err(error) => return self.queue_event(error_event(&error)),
        };
        let timeout = match backend.tool_timeout() {
            Ok(timeout) => timeout,
            Err(error) => return self.queue_event(error_event(&error)),
        };
        self.user_calls.count += 1;
        let id = format!("{USER_CALL_PREFIX}{}", self.user_calls.count);
        let call = UserCall {
            backend,
            width: self.context.width,
            host: self.context.host.clone(),
            call_context: self.context.call_context.clone(),
            view: ToolCallView::new(&self.context.host.pool(), &id, &tool, arguments),
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
            timeout: self.timeout,
            progress: Some(progress_in),
        };
        let outcome = {
            let calling = self.host.call(&self.call_context, call);
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
        (ended, self.backend.render_output(output, self.width))
    }

    async fn rendered_failure(&self, failure: &ToolCallError) -> (CallOutcome, String) {
        let ended = match failure {
            ToolCallError::Denied { .. } => CallOutcome::Denied,
            ToolCallError::UnknownTool { .. }
            | ToolCallError::InvalidArguments { .. }
            | ToolCallError::Request(_) => CallOutcome::Failed,
        };
        let text = self.backend.render_call_failure(failure, &self.host, &self.view.tool).await;
        (ended, text.0.replace("\n\n", "\n"))
    }
}

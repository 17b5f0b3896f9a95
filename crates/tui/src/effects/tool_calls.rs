//! Tool calls that the user makes with `/call`. The transcript shows them like those of the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use switchboard::request::RequestOptions;
use switchboard::tool_result::ToolOutput;
use switchboard::{CallContext, Host, ToolCall, ToolCallError};
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent, ToolCallView};
use tokio::sync::{mpsc, watch};

use super::{EffectRunner, error_event};
use crate::backend::Backend;
use crate::state::event::ScreenEvent;

/// How many progress notifications may wait.
const PROGRESS_BUFFER: usize = 16;
/// The caller named in the audit log and in permission requests.
const CALLER: &str = "cli";

/// The id prefix of the user's calls, which tells them from the model's.
pub(crate) const USER_CALL_PREFIX: &str = "own-";

/// The user's running calls.
#[derive(Debug)]
pub struct UserCalls {
    count: u64,
    /// How often all calls were cancelled; each call watches it.
    cancellations: watch::Sender<u64>,
}

impl Default for UserCalls {
    fn default() -> UserCalls {
        UserCalls { count: 0, cancellations: watch::Sender::new(0) }
    }
}

impl UserCalls {
    /// Cancels all calls. Their servers are notified.
    pub fn cancel_all(&self) {
        self.cancellations.send_modify(|it| *it += 1);
    }
}

/// One call.
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
        let pool = self.context.host.pool();
        let definition = pool.find(&tool).map(AsRef::as_ref);
        let arguments = match backend.parse_arguments(definition, words) {
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
            view: ToolCallView::new(&pool, &id, &tool, arguments),
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
        let started = Instant::now();
        let (progress_in, mut progress) = mpsc::channel(PROGRESS_BUFFER);
        let call = ToolCall {
            caller: CALLER.to_owned(),
            call_id: None,
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
                    // Dropping the call notifies the server.
                    _ = cancellations.changed() => break None,
                }
            }
        };
        let (outcome_kind, text) = match outcome {
            None => (CallOutcome::Interrupted, String::new()),
            Some(Ok(output)) => self.rendered_output(&output),
            Some(Err(failure)) => self.rendered_failure(&failure).await,
        };
        let id = self.view.id.clone();
        self.send(ConversationEvent::CallEnded {
            id,
            outcome: outcome_kind,
            text,
            result: None,
            details: None,
            duration: started.elapsed(),
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
        let outcome_kind = if output.is_error { CallOutcome::ToolError } else { CallOutcome::Done };
        (outcome_kind, self.backend.render_output(output, self.width))
    }

    async fn rendered_failure(&self, failure: &ToolCallError) -> (CallOutcome, String) {
        let outcome_kind = match failure {
            ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. } => CallOutcome::Denied,
            ToolCallError::UnknownTool { .. }
            | ToolCallError::InvalidArguments { .. }
            | ToolCallError::Request(_) => CallOutcome::Failed,
        };
        let text = self.backend.render_call_failure(failure, &self.host, &self.view.tool).await;
        (outcome_kind, text.0.replace("\n\n", "\n"))
    }
}

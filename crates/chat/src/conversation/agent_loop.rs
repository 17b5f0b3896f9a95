//! The loop of a conversation: one task that owns what was said. A turn asks the model, makes the calls that it wants,
//! and asks again until it has nothing more to call. Which tools it is shown is left to `offered_tools`.

pub(crate) mod channel;
mod model_request;
mod tool_calls;

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::pipeline::CallContext;
use switchboard::host::Host;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::conversation::event::{ConversationEvent, TurnEnd};
use crate::conversation::offered_tools::OfferedTools;
use crate::conversation::setup::{ConversationSetup, ConversationStatus};
use crate::message::{ContentBlock, Message, Role, ToolUse};
use crate::model::language_model::{LanguageModel, ModelError, ModelResponse, StopReason, Usage};
use crate::transcript::Transcript;
use channel::{LoopChannel, StopCause};
use model_request::ModelOutcome;

/// How long servers may take to come up before a model is asked for the first time.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(3);
/// What a model is told of a call that was not made, or not finished, because the person had enough.
const CALL_STOPPED: &str = "the person stopped it";
/// What a model is told of a call in an answer that was cut.
const CALL_CUT_SHORT: &str =
    "the answer was cut short before the call was made; make it again, shorter";

/// A conversation.
pub(crate) struct AgentLoop {
    host: Host,
    call_context: Arc<CallContext>,
    system_prompt: Arc<str>,
    max_rounds: usize,
    messages: Vec<Message>,
    offered_tools: OfferedTools,
    total_usage: Usage,
    /// How many calls there were, to name those that the model did not name.
    call_count: u64,
    transcript: Option<Transcript>,
    status: watch::Sender<ConversationStatus>,
    /// Have the servers had their time to come up?
    has_waited_for_servers: bool,
}

impl AgentLoop {
    /// A loop over `setup`, and the model it starts with.
    pub(crate) fn new(
        setup: ConversationSetup,
        transcript: Option<Transcript>,
        status: watch::Sender<ConversationStatus>,
    ) -> (AgentLoop, Option<Arc<dyn LanguageModel>>) {
        let ConversationSetup { host, call_context, model, system_prompt, history, max_rounds } =
            setup;
        let mut offered_tools = OfferedTools::default();
        offered_tools.restore(&history);
        let id = transcript.as_ref().and_then(|it| it.id()).map(Arc::from);
        status.send_modify(|it| it.id = id);
        let agent_loop = AgentLoop {
            host,
            call_context,
            system_prompt,
            max_rounds,
            messages: history,
            offered_tools,
            total_usage: Usage::default(),
            call_count: 0,
            transcript,
            status,
            has_waited_for_servers: false,
        };
        (agent_loop, model)
    }

    /// Runs turns until every [`Conversation`](crate::conversation::handle::Conversation) handle is dropped.
    pub(crate) async fn run(mut self, mut channel: LoopChannel) {
        loop {
            match channel.stop_cause() {
                Some(StopCause::Disconnected) => return,
                Some(StopCause::Clear) => self.clear(),
                // The turn it was meant for has ended already.
                Some(StopCause::Interrupt) | None => {}
            }
            channel.clear_stop_cause();
            if !channel.has_queued() {
                channel.receive().await;
                continue;
            }
            let end = self.turn(&mut channel).await;
            channel.send(ConversationEvent::TurnEnded(end)).await;
        }
    }

    /// One turn: from what waits to be heard to the model's last word.
    async fn turn(&mut self, channel: &mut LoopChannel) -> TurnEnd {
        self.accept_queued(channel, Vec::new()).await;
        self.wait_for_servers(channel).await;
        for _round in 0..self.max_rounds {
            if let Some(call_context) = channel.take_call_context() {
                self.call_context = call_context;
            }
            let Some(model) = channel.model() else {
                return TurnEnd::Failed(model_not_configured());
            };
            let response = match self.request_response(&*model, channel).await {
                ModelOutcome::Response(response) => self.with_call_ids(response),
                ModelOutcome::Failed(error) => return TurnEnd::Failed(error),
                ModelOutcome::Stopped { text } => {
                    self.keep_partial_response(text).await;
                    return TurnEnd::Interrupted;
                }
            };
            let ModelResponse { content: parts, stop_reason: stop, usage } = response;
            self.add_usage(&usage);
            let calls = tool_uses(&parts);
            if !parts.is_empty() {
                self.add(Message { role: Role::Assistant, content: parts }).await;
            }
            channel.send(ConversationEvent::ResponseEnded).await;
            channel.send(ConversationEvent::Usage(self.total_usage)).await;
            if stop == StopReason::MaxTokens || stop == StopReason::Refusal {
                self.skip_calls(&calls, CALL_CUT_SHORT).await;
                return if stop == StopReason::MaxTokens {
                    TurnEnd::CutShort
                } else {
                    TurnEnd::Refused
                };
            }
            if calls.is_empty() {
                return TurnEnd::Finished;
            }
            let results = self.run_calls(&calls, channel).await;
            let is_stopped = channel.stop_cause().is_some();
            let results = results.into_iter().map(ContentBlock::ToolResult).collect();
            match is_stopped {
                true => self.add(Message { role: Role::User, content: results }).await,
                false => self.accept_queued(channel, results).await,
            }
            if is_stopped {
                return TurnEnd::Interrupted;
            }
        }
        TurnEnd::TooManyRounds
    }

    /// Who speaks as soon as the program is there should have the tools too. Once: a server that does not come up holds
    /// nobody up a second time.
    async fn wait_for_servers(&mut self, channel: &mut LoopChannel) {
        if std::mem::replace(&mut self.has_waited_for_servers, true) {
            return;
        }
        let host = self.host.clone();
        let ready = timeout(SERVER_START_TIMEOUT, async {
            host.settled().await;
            host.settled_pool().await;
        });
        let mut ready = std::pin::pin!(ready);
        while channel.stop_cause().is_none() {
            tokio::select! {
                _ready_or_not = &mut ready => return,
                () = channel.receive() => {}
            }
        }
    }

    /// What waits becomes part of the conversation, behind the results of calls where there are some.
    async fn accept_queued(&mut self, channel: &mut LoopChannel, results: Vec<ContentBlock>) {
        let queued = channel.take_queued();
        let (count, mut parts) = (queued.len(), results);
        parts.extend(queued.into_iter().flatten());
        if !parts.is_empty() {
            self.add(Message { role: Role::User, content: parts }).await;
        }
        if count > 0 {
            channel.send(ConversationEvent::MessagesAccepted { count }).await;
        }
    }

    /// An answer that was stopped stays as far as the person has seen it.
    async fn keep_partial_response(&mut self, text: String) {
        if !text.trim().is_empty() {
            let parts = vec![ContentBlock::Text { text }];
            self.add(Message { role: Role::Assistant, content: parts }).await;
            self.add(Message::interrupted_marker()).await;
        }
    }

    /// A conversation in which a call has no result is one that models refuse.
    async fn skip_calls(&mut self, calls: &[ToolUse], why: &str) {
        if !calls.is_empty() {
            let parts = calls
                .iter()
                .map(|it| ContentBlock::ToolResult(tool_calls::skipped_result(it, why)));
            let parts = parts.collect();
            self.add(Message { role: Role::User, content: parts }).await;
        }
    }

    async fn add(&mut self, message: Message) {
        self.messages.push(message.clone());
        let Some(mut transcript) = self.transcript.take() else { return };
        let write = move || {
            let written = transcript.append(&message);
            (transcript, written)
        };
        // A disk may take its time; nothing else waits for it.
        let Ok((transcript, written)) = tokio::task::spawn_blocking(write).await else { return };
        let id = transcript.id().map(Arc::from);
        match written {
            Ok(()) => {
                self.transcript = Some(transcript);
                self.status.send_modify(|it| it.id = id);
            }
            // A record with a hole would be worse than one that ends here.
            Err(error) => {
                let why: Arc<str> = error.to_string().into();
                self.status.send_modify(|it| it.write_error = Some(why));
            }
        }
    }

    fn add_usage(&mut self, usage: &Usage) {
        let Usage { input, cached, output } = &mut self.total_usage;
        *input = input.saturating_add(usage.input);
        *cached = cached.saturating_add(usage.cached);
        *output = output.saturating_add(usage.output);
        let context = usage.input.saturating_add(usage.output);
        self.status.send_modify(|it| it.context_tokens = context);
    }

    /// Calls that have no name of their own get one: their results must find them.
    fn with_call_ids(&mut self, mut response: ModelResponse) -> ModelResponse {
        let mut seen: Vec<String> = Vec::new();
        for part in &mut response.content {
            if let ContentBlock::ToolUse(call) = part {
                self.call_count += 1;
                if call.id.is_empty() || seen.contains(&call.id) {
                    call.id = format!("call_{}", self.call_count);
                }
                seen.push(call.id.clone());
            }
        }
        response
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.offered_tools = OfferedTools::default();
        self.total_usage = Usage::default();
        self.transcript = self.transcript.take().map(Transcript::restarted);
        self.status.send_replace(ConversationStatus::default());
    }
}

fn tool_uses(parts: &[ContentBlock]) -> Vec<ToolUse> {
    let call = |part: &ContentBlock| match part {
        ContentBlock::ToolUse(call) => Some(call.clone()),
        ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolResult(_) => None,
    };
    parts.iter().filter_map(call).collect()
}

fn model_not_configured() -> ModelError {
    let kind = crate::model::language_model::ModelErrorKind::NotConfigured;
    ModelError { model: "the model".to_owned(), kind }
}

//! The agent loop: one task that owns the messages of a conversation. A turn asks the model, makes the tool calls it
//! requests, and repeats until it requests none. Which tools are offered is left to `offered_tools`.

pub(crate) mod channel;
mod hook_calls;
mod model_request;
mod resource_list;
mod tool_calls;

use std::sync::Arc;
use std::time::Duration;

use switchboard::{CallContext, Host};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::channel::{PendingChannelMessage, ReceivedChannelMessage};
use crate::conversation::event::{ConversationEvent, FinishedResponse, TurnEnd};
use crate::conversation::hooks::{ConversationHooks, EndAttempt};
use crate::conversation::offered_tools::OfferedTools;
use crate::conversation::setup::{ConversationSetup, ConversationStatus};
use crate::conversation::structured_output::{
    MAX_REMINDERS, REMINDER, STRUCTURED_OUTPUT_TOOL, StructuredOutput,
};
use crate::message::{ContentBlock, Message, Role, ToolUse};
use crate::model::language_model::{LanguageModel, ModelError, ModelResponse, StopReason, Usage};
use crate::transcript::Transcript;
use channel::{LoopChannel, StopCause};
use model_request::ModelOutcome;
use tool_calls::FinishedRound;

/// How long the first request to the model waits for servers to connect.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(3);
/// The result of a call that the user interrupted.
const CALL_STOPPED: &str = "the user interrupted it";
/// The result of a call in a response that was cut short.
const CALL_CUT_SHORT: &str =
    "the answer was cut short before the call was made; make it again, shorter";

/// The agent loop of a conversation.
pub(crate) struct AgentLoop {
    host: Host,
    call_context: watch::Receiver<Arc<CallContext>>,
    system_prompt: Arc<str>,
    max_rounds: usize,
    hooks: Arc<[Arc<dyn ConversationHooks>]>,
    structured_output: Option<StructuredOutput>,
    messages: Vec<Message>,
    offered_tools: OfferedTools,
    total_usage: Usage,
    /// The number of calls so far, for ids of calls without one.
    call_count: u64,
    transcript: Option<Transcript>,
    status: watch::Sender<ConversationStatus>,
    /// Has the loop waited for servers to connect?
    has_waited_for_servers: bool,
}

impl AgentLoop {
    /// A loop over `setup`, and the model it starts with.
    pub(crate) fn new(
        setup: ConversationSetup,
        transcript: Option<Transcript>,
        (status, call_context): (
            watch::Sender<ConversationStatus>,
            watch::Receiver<Arc<CallContext>>,
        ),
    ) -> (AgentLoop, Option<Arc<dyn LanguageModel>>) {
        let ConversationSetup { host, model, system_prompt, history, .. } = setup;
        let mut offered_tools = OfferedTools::default();
        offered_tools.restore(&history);
        let id = transcript.as_ref().and_then(|it| it.id()).map(Arc::from);
        status.send_modify(|it| it.id = id);
        let agent_loop = AgentLoop {
            host,
            call_context,
            system_prompt,
            max_rounds: setup.max_rounds,
            hooks: setup.hooks.into(),
            structured_output: setup.structured_output,
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
                channel.receive_when_idle().await;
                continue;
            }
            let end = self.turn(&mut channel).await;
            channel.send(ConversationEvent::TurnEnded(end)).await;
        }
    }

    /// Runs one turn: from the queued messages to the model's last response.
    async fn turn(&mut self, channel: &mut LoopChannel) -> TurnEnd {
        let from_channels = match self.accept_channel_messages(channel).await {
            Ok(blocks) => blocks,
            Err(why) => return TurnEnd::StoppedByHook(why),
        };
        if let Some(why) = self.accept_queued(channel, from_channels).await {
            return TurnEnd::StoppedByHook(why);
        }
        self.wait_for_servers(channel).await;
        if let Some(system_prompt) = channel.take_system_prompt() {
            self.system_prompt = system_prompt;
        }
        if let Some(output) = channel.take_structured_output() {
            self.structured_output = Some(output);
        }
        let mut end_attempt = EndAttempt::First;
        let mut reminders = 0;
        for _round in 0..self.max_rounds {
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
            let ModelResponse { content: blocks, stop_reason, usage } = response;
            self.add_usage(&usage);
            let calls = tool_uses(&blocks);
            if !blocks.is_empty() {
                self.add(Message { role: Role::Assistant, content: blocks.clone() }).await;
            }
            let finished = FinishedResponse { content: blocks, stop_reason, usage };
            channel.send(ConversationEvent::ResponseEnded(finished)).await;
            channel.send(ConversationEvent::Usage(self.total_usage)).await;
            if stop_reason == StopReason::MaxTokens || stop_reason == StopReason::Refusal {
                self.skip_calls(&calls, CALL_CUT_SHORT).await;
                return if stop_reason == StopReason::MaxTokens {
                    TurnEnd::CutShort
                } else {
                    TurnEnd::Refused
                };
            }
            if calls.is_empty() && self.structured_output.is_some() {
                if reminders == MAX_REMINDERS {
                    return TurnEnd::NoStructuredOutput;
                }
                reminders += 1;
                let content = vec![ContentBlock::Text { text: REMINDER.to_owned() }];
                self.add(Message { role: Role::User, content }).await;
                continue;
            }
            if calls.is_empty() {
                let Some(more) = self.continuation(end_attempt, channel).await else {
                    let is_stopped = channel.stop_cause().is_some();
                    return if is_stopped { TurnEnd::Interrupted } else { TurnEnd::Finished };
                };
                end_attempt = EndAttempt::Repeated;
                let content = vec![ContentBlock::Text { text: more }];
                self.add(Message { role: Role::User, content }).await;
                continue;
            }
            let FinishedRound { results, context, stop_because, output } =
                self.run_calls(&calls, channel).await;
            let gave_wrong_output = output.is_none()
                && self.structured_output.is_some()
                && calls.iter().any(|it| it.tool == STRUCTURED_OUTPUT_TOOL);
            let mut blocks: Vec<ContentBlock> =
                results.into_iter().map(ContentBlock::ToolResult).collect();
            blocks.extend(context);
            if channel.stop_cause().is_some() || stop_because.is_some() {
                self.add(Message { role: Role::User, content: blocks }).await;
                return stop_because.map_or(TurnEnd::Interrupted, TurnEnd::StoppedByHook);
            }
            if let Some(output) = output {
                let more = self.continuation(end_attempt, channel).await;
                blocks.extend(more.iter().map(|it| ContentBlock::Text { text: it.clone() }));
                self.add(Message { role: Role::User, content: blocks }).await;
                if more.is_some() {
                    end_attempt = EndAttempt::Repeated;
                    continue;
                }
                if channel.stop_cause().is_some() {
                    return TurnEnd::Interrupted;
                }
                channel.send(ConversationEvent::StructuredOutput(output)).await;
                return TurnEnd::Finished;
            }
            if gave_wrong_output {
                if reminders == MAX_REMINDERS {
                    self.add(Message { role: Role::User, content: blocks }).await;
                    return TurnEnd::NoStructuredOutput;
                }
                reminders += 1;
            }
            blocks.extend(self.round_context(channel).await);
            if let Some(why) = self.accept_queued(channel, blocks).await {
                return TurnEnd::StoppedByHook(why);
            }
        }
        TurnEnd::TooManyRounds
    }

    /// Waits until servers are connected, so that a message sent right after the start has their tools. Only once: a server
    /// that does not connect delays a single turn.
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

    /// The messages of channels for this turn, as the model gets them, or why a hook refuses them. They go nowhere else: they
    /// are no commands and name no files.
    async fn accept_channel_messages(
        &mut self,
        channel: &mut LoopChannel,
    ) -> Result<Vec<ContentBlock>, String> {
        let messages = channel.take_channel_messages();
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let received: Vec<ReceivedChannelMessage> =
            messages.iter().map(|it| it.message().clone()).collect();
        let text = |it: &ReceivedChannelMessage| ContentBlock::Text { text: it.prompt_text() };
        let blocks = received.iter().map(text).collect();
        channel.send(ConversationEvent::ChannelMessages(received)).await;
        let blocks = self.submit_from_channels(blocks, channel).await?;
        messages.into_iter().for_each(PendingChannelMessage::accept);
        Ok(blocks)
    }

    /// Adds the queued messages to the conversation, after the results of tool calls. Returns why a hook refused one:
    /// that one is left out.
    async fn accept_queued(
        &mut self,
        channel: &mut LoopChannel,
        results: Vec<ContentBlock>,
    ) -> Option<String> {
        let queued = channel.take_queued();
        let (count, mut blocks) = (queued.len(), results);
        let mut refused_because = None;
        for message in queued {
            match self.submit(message, channel).await {
                Ok(message) => blocks.extend(message),
                Err(why) => refused_because = Some(why),
            }
        }
        if !blocks.is_empty() {
            self.add(Message { role: Role::User, content: blocks }).await;
        }
        if count > 0 {
            channel.send(ConversationEvent::MessagesAccepted { count }).await;
        }
        refused_because
    }

    /// Keeps the part of an interrupted response that the user has seen.
    async fn keep_partial_response(&mut self, text: String) {
        if !text.trim().is_empty() {
            let blocks = vec![ContentBlock::Text { text }];
            self.add(Message { role: Role::Assistant, content: blocks }).await;
            self.add(Message::interrupted_marker()).await;
        }
    }

    /// Adds an error result for each call: models reject a conversation in which a call has no result.
    async fn skip_calls(&mut self, calls: &[ToolUse], why: &str) {
        if !calls.is_empty() {
            let blocks = calls
                .iter()
                .map(|it| ContentBlock::ToolResult(tool_calls::skipped_result(it, why)));
            let blocks = blocks.collect();
            self.add(Message { role: Role::User, content: blocks }).await;
        }
    }

    async fn add(&mut self, message: Message) {
        self.messages.push(message.clone());
        let Some(mut transcript) = self.transcript.take() else { return };
        let write = move || {
            let written = transcript.append(&message);
            (transcript, written)
        };
        // Disks may be slow, so the write runs on a blocking thread.
        let Ok((transcript, written)) = tokio::task::spawn_blocking(write).await else { return };
        let id = transcript.id().map(Arc::from);
        match written {
            Ok(()) => {
                self.transcript = Some(transcript);
                self.status.send_modify(|it| it.id = id);
            }
            // A transcript with a gap would be worse than one that ends here.
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

    /// Gives calls without a unique id one, so that results can be matched.
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

fn tool_uses(blocks: &[ContentBlock]) -> Vec<ToolUse> {
    let call = |part: &ContentBlock| match part {
        ContentBlock::ToolUse(call) => Some(call.clone()),
        ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolResult(_) => None,
    };
    blocks.iter().filter_map(call).collect()
}

fn model_not_configured() -> ModelError {
    let kind = crate::model::language_model::ModelErrorKind::NotConfigured;
    ModelError { model: "the model".to_owned(), status: None, kind }
}

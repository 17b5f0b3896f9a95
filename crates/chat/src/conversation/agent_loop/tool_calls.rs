//! Makes the tool calls that a model requests. Consecutive read-only calls run in parallel, all others one after the
//! other in the model's order. Every call gets a result, even if it is denied or interrupted. Which hooks are called, and
//! what they change, is left to `hook_calls`.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value as Json;
use switchboard::pool::Pool;
use switchboard::wire::peer::Progress;
use switchboard::{CallContext, Host, ToolCall, ToolCallError};
use tokio::sync::{mpsc, watch};

use super::channel::LoopChannel;
use super::hook_calls::HookVerdict;
use super::{AgentLoop, CALL_STOPPED, hook_calls};
use crate::conversation::event::{CallOutcome, ConversationEvent, ToolCallView};
use crate::conversation::hooks;
use crate::conversation::hooks::ConversationHooks;
use crate::conversation::offered_tools;
use crate::conversation::offered_tools::SEARCH_TOOL;
use crate::conversation::result_content;
use crate::conversation::result_content::ResultContent;
use crate::conversation::structured_output::{STRUCTURED_OUTPUT_TOOL, StructuredOutput};
use crate::message::{ContentBlock, ToolResult, ToolUse};

/// How many calls run in parallel.
const MAX_PARALLEL_CALLS: usize = 20;
/// The most calls per response.
const MAX_CALLS: usize = 64;
/// How many progress notifications of one call may wait.
const PROGRESS_BUFFER: usize = 16;
/// The caller named in the audit log and in permission requests.
const CALLER: &str = "chat";

/// The calls of one response.
pub(crate) struct FinishedRound {
    /// One result for each call.
    pub(crate) results: Vec<ToolResult>,
    /// Texts of hooks, behind the results.
    pub(crate) context: Vec<ContentBlock>,
    /// Why a hook ends the turn.
    pub(crate) stop_because: Option<String>,
    /// The answer of the conversation, if a call gave it.
    pub(crate) output: Option<Json>,
}

/// A finished call.
struct FinishedCall {
    index: usize,
    outcome: CallOutcome,
    result: ToolResult,
    /// Its result for the user.
    text: String,
    /// What the server said besides, for programs.
    details: Option<Json>,
    /// Tools to offer from now on.
    discovered: Vec<String>,
    duration: Duration,
    /// Texts of hooks for the model.
    context: Vec<String>,
    /// Why a hook ends the turn.
    stop_because: Option<String>,
}

impl AgentLoop {
    /// Makes the calls until all are done or the turn is stopped.
    pub(crate) async fn run_calls(
        &mut self,
        calls: &[ToolUse],
        channel: &mut LoopChannel,
    ) -> FinishedRound {
        let allowed = &calls[..calls.len().min(MAX_CALLS)];
        let mut round = PartialRound {
            results: vec![None; allowed.len()],
            context: Vec::new(),
            stop_because: None,
        };
        let groups = parallel_groups(&self.newest_context().pool.borrow(), allowed);
        for group in groups {
            if channel.stop_cause().is_some() || round.stop_because.is_some() {
                break;
            }
            self.run_group(allowed, group, &mut round, channel).await;
        }
        let made = allowed.iter().zip(round.results);
        let stopped =
            made.map(|(call, result)| result.unwrap_or_else(|| skipped_result(call, CALL_STOPPED)));
        let too_many = format!("at most {MAX_CALLS} calls are made at once");
        let rest = calls[allowed.len()..].iter().map(|call| skipped_result(call, &too_many));
        let results = stopped.chain(rest).collect::<Vec<_>>();
        let context = round.context.into_iter().map(|text| ContentBlock::Text { text }).collect();
        let accepted = |(call, result): (&ToolUse, &ToolResult)| {
            let is_output = call.tool == STRUCTURED_OUTPUT_TOOL && !result.is_error;
            is_output.then(|| call.arguments.clone())
        };
        let results: Vec<ToolResult> = results;
        let output = allowed.iter().zip(&results).find_map(accepted);
        FinishedRound { results, context, stop_because: round.stop_because, output }
    }

    fn newest_context(&self) -> Arc<CallContext> {
        self.call_context.borrow().clone()
    }

    async fn run_group(
        &mut self,
        calls: &[ToolUse],
        group: Range<usize>,
        round: &mut PartialRound,
        channel: &mut LoopChannel,
    ) {
        let (host, contexts) = (self.host.clone(), self.call_context.clone());
        let pool = self.newest_context().pool.clone();
        let hooks = self.hooks.clone();
        let (progress_events, mut progress) = mpsc::channel(PROGRESS_BUFFER * MAX_PARALLEL_CALLS);
        let mut running = FuturesUnordered::new();
        let mut started = group.start;
        let mut start_times: Vec<Instant> = Vec::new();
        while channel.stop_cause().is_none() {
            if running.len() < MAX_PARALLEL_CALLS && started < group.end {
                let ToolUse { id, tool, arguments } = &calls[started];
                let arguments = arguments.clone();
                let view = ToolCallView::new(&pool.borrow(), id, tool, arguments);
                let id = view.id.clone();
                channel.send(ConversationEvent::CallStarted(view)).await;
                let made = MadeCall {
                    host: &host,
                    contexts: &contexts,
                    hooks: &hooks,
                    structured_output: self.structured_output.as_ref(),
                    call: &calls[started],
                };
                running.push(made.run(started, (id, progress_events.clone())));
                started += 1;
                start_times.push(Instant::now());
                continue;
            }
            if running.is_empty() {
                return;
            }
            tokio::select! {
                Some(finished) = running.next() => {
                    let FinishedCall { index, outcome, result, text, discovered, duration, details, .. } = finished;
                    while let Ok(update) = progress.try_recv() {
                        channel.send(update).await;
                    }
                    let id = Arc::from(calls[index].id.as_str());
                    let shared = Some(Arc::new(result.clone()));
                    channel
                        .send(ConversationEvent::CallEnded { id, outcome, text, result: shared, details, duration })
                        .await;
                    round.results[index] = Some(result);
                    round.context.extend(finished.context);
                    round.stop_because = round.stop_because.take().or(finished.stop_because);
                    self.offered_tools.add_discovered(discovered);
                }
                Some(update) = progress.recv() => channel.send(update).await,
                () = channel.receive() => {}
            }
        }
        // Dropping a call notifies its server.
        drop(running);
        for (at, started_at) in (group.start..started).zip(start_times) {
            if round.results[at].is_none() {
                channel
                    .send(ConversationEvent::CallEnded {
                        id: Arc::from(calls[at].id.as_str()),
                        outcome: CallOutcome::Interrupted,
                        text: CALL_STOPPED.to_owned(),
                        result: Some(Arc::new(skipped_result(&calls[at], CALL_STOPPED))),
                        details: None,
                        duration: started_at.elapsed(),
                    })
                    .await;
            }
        }
    }
}

/// The error result of a call that is not made.
pub(crate) fn skipped_result(call: &ToolUse, why: &str) -> ToolResult {
    let content = vec![ContentBlock::Text { text: why.to_owned() }];
    ToolResult { id: call.id.clone(), content, is_error: true }
}

/// Groups consecutive read-only calls; every other call is a group of its own.
fn parallel_groups(pool: &Pool, calls: &[ToolUse]) -> Vec<Range<usize>> {
    let only_reads = |call: &ToolUse| {
        call.tool == SEARCH_TOOL || pool.find(&call.tool).is_some_and(|it| it.annotations.read_only)
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if only_reads(call) && only_reads(&calls[group.start]) => {
                group.end = at + 1;
            }
            Some(_) | None => groups.push(at..at + 1),
        }
    }
    groups
}

/// The calls of one response so far.
struct PartialRound {
    results: Vec<Option<ToolResult>>,
    context: Vec<String>,
    stop_because: Option<String>,
}

/// A call that is being made.
struct MadeCall<'a> {
    host: &'a Host,
    /// The mode and the rules may change until the permission is decided.
    contexts: &'a watch::Receiver<Arc<CallContext>>,
    hooks: &'a [Arc<dyn ConversationHooks>],
    structured_output: Option<&'a StructuredOutput>,
    call: &'a ToolUse,
}

impl MadeCall<'_> {
    async fn run(
        self,
        index: usize,
        (id, progress_events): (Arc<str>, mpsc::Sender<ConversationEvent>),
    ) -> FinishedCall {
        let began = Instant::now();
        if let Some(output) =
            self.structured_output.filter(|_| self.call.tool == STRUCTURED_OUTPUT_TOOL)
        {
            return structured_output_call(output, self.call, (index, began));
        }
        let before = hook_calls::before_call(self.hooks, self.call, self.contexts).await;
        let call = match before.arguments {
            Some(arguments) => &ToolUse { arguments, ..self.call.clone() },
            None => self.call,
        };
        let mut discovered = Vec::new();
        let (mut outcome, content) = match before.verdict {
            HookVerdict::Denied(message) => {
                let denied = ResultContent { is_error: true, ..result_content::from_text(message) };
                (CallOutcome::Denied, denied)
            }
            HookVerdict::Run(context) => {
                let newest = self.contexts.borrow().clone();
                let context = context.as_deref().unwrap_or(&newest);
                let made = make_call(self.host, context, call, (id, progress_events)).await;
                discovered = made.1;
                made.0
            }
        };
        let ResultContent { content, mut text, is_error, mut details } = content;
        let mut result = ToolResult { id: call.id.clone(), content, is_error };
        let finished = hooks::FinishedCall { call, result: &result, outcome };
        let after = hook_calls::after_call(self.hooks, finished).await;
        if let Some(content) = after.replaced_result {
            text = result_content::text_of(&content);
            result.content = content;
            // A hook that replaces a result wants no part of it to be seen.
            details = None;
        }
        if let Some(why) = after.withheld_because {
            if outcome == CallOutcome::Done {
                outcome = CallOutcome::ToolError;
            }
            text.clone_from(&why);
            result.content = vec![ContentBlock::Text { text: why }];
            result.is_error = true;
            details = None;
        }
        let mut context = before.context;
        context.extend(after.context);
        FinishedCall {
            index,
            outcome,
            result,
            text,
            details,
            discovered,
            duration: began.elapsed(),
            context,
            stop_because: before.stop_because.or(after.stop_because),
        }
    }
}

/// Takes the answer of the conversation. No rule applies: nothing runs.
fn structured_output_call(
    output: &StructuredOutput,
    call: &ToolUse,
    (index, began): (usize, Instant),
) -> FinishedCall {
    let (outcome, text) = match output.check(&call.arguments) {
        Ok(text) => (CallOutcome::Done, text),
        Err(text) => (CallOutcome::ToolError, text),
    };
    let is_error = outcome != CallOutcome::Done;
    let content = vec![ContentBlock::Text { text: text.clone() }];
    FinishedCall {
        index,
        outcome,
        result: ToolResult { id: call.id.clone(), content, is_error },
        text,
        details: None,
        discovered: Vec::new(),
        duration: began.elapsed(),
        context: Vec::new(),
        stop_because: None,
    }
}

/// Makes a call. Also returns the tools to offer from now on.
async fn make_call(
    host: &Host,
    call_context: &CallContext,
    call: &ToolUse,
    progress: (Arc<str>, mpsc::Sender<ConversationEvent>),
) -> ((CallOutcome, ResultContent), Vec<String>) {
    let (outcome, discovered) = if call.tool == SEARCH_TOOL {
        let (text, found) =
            offered_tools::search_tools(&call_context.pool.borrow(), &call.arguments);
        (Ok(result_content::from_text(text)), found)
    } else {
        let outcome = call_with_progress(host, call_context, call, progress).await;
        let mut discovered = vec![call.tool.clone()];
        if outcome.as_ref().is_ok_and(|it| it.full_text.is_some()) {
            discovered.push(switchboard::tool_result::READ_RESULT.to_owned());
        }
        (outcome.map(result_content::from_output), discovered)
    };
    let ended = match outcome {
        Ok(content) if content.is_error => (CallOutcome::ToolError, content),
        Ok(content) => (CallOutcome::Done, content),
        Err(failure) => {
            let denied =
                matches!(failure, ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. });
            let end = if denied { CallOutcome::Denied } else { CallOutcome::Failed };
            (end, result_content::from_failure(&failure))
        }
    };
    (ended, discovered)
}

/// Makes a call and forwards its progress. Notifications that do not fit in the buffer are dropped: later ones supersede
/// them.
async fn call_with_progress(
    host: &Host,
    call_context: &CallContext,
    call: &ToolUse,
    (id, progress_events): (Arc<str>, mpsc::Sender<ConversationEvent>),
) -> Result<switchboard::tool_result::ToolOutput, ToolCallError> {
    let (progress_in, mut updates) = mpsc::channel(PROGRESS_BUFFER);
    let call_id = Some(Arc::from(call.id.as_str()));
    let mut call = ToolCall { call_id, ..ToolCall::new(&call.tool, call.arguments.clone()) };
    CALLER.clone_into(&mut call.caller);
    call.options.progress = Some(progress_in);
    call.options.timeout = call_context.tool_timeout;
    let calling = host.call_with(call_context, call);
    tokio::pin!(calling);
    let forward = |update: Progress| {
        let _too_fast = progress_events.try_send(progress_event(&id, &update));
    };
    let outcome = loop {
        tokio::select! {
            biased;
            Some(update) = updates.recv() => forward(update),
            outcome = &mut calling => break outcome,
        }
    };
    // Progress that arrived with the result comes before it.
    while let Ok(update) = updates.try_recv() {
        forward(update);
    }
    outcome
}

fn progress_event(id: &Arc<str>, update: &Progress) -> ConversationEvent {
    let update: Json = update.0.decode().unwrap_or_default();
    ConversationEvent::CallProgress {
        id: id.clone(),
        progress: update["progress"].as_f64().unwrap_or_default(),
        total: update["total"].as_f64(),
        message: update["message"].as_str().map(|it| it.chars().take(500).collect()),
    }
}

//! Makes the tool calls that a model requests. Consecutive read-only calls run in parallel, all others one after the
//! other in the model's order. Every call gets a result, even if it is denied or interrupted.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value as Json;
use switchboard::pool::Pool;
use switchboard::wire::peer::Progress;
use switchboard::{CallContext, Host, ToolCall, ToolCallError};
use tokio::sync::mpsc;

use super::channel::LoopChannel;
use super::{AgentLoop, CALL_STOPPED};
use crate::conversation::event::{CallOutcome, ConversationEvent, ToolCallView};
use crate::conversation::offered_tools;
use crate::conversation::offered_tools::SEARCH_TOOL;
use crate::conversation::result_content;
use crate::message::{ContentBlock, ToolResult, ToolUse};

/// How many calls run in parallel.
const MAX_PARALLEL_CALLS: usize = 8;
/// The most calls per response.
const MAX_CALLS: usize = 64;
/// How many progress notifications of one call may wait.
const PROGRESS_BUFFER: usize = 16;
/// The caller named in the audit log and in permission requests.
const CALLER: &str = "chat";

/// A finished call.
struct FinishedCall {
    index: usize,
    outcome: CallOutcome,
    result: ToolResult,
    /// Its result for the user.
    text: String,
    /// Tools to offer from now on.
    discovered: Vec<String>,
    duration: Duration,
}

impl AgentLoop {
    /// Makes the calls until all are done or the turn is stopped.
    pub(crate) async fn run_calls(
        &mut self,
        calls: &[ToolUse],
        channel: &mut LoopChannel,
    ) -> Vec<ToolResult> {
        let allowed = &calls[..calls.len().min(MAX_CALLS)];
        let mut results: Vec<Option<ToolResult>> = vec![None; allowed.len()];
        let groups = parallel_groups(&self.call_context.pool.borrow(), allowed);
        for group in groups {
            if channel.stop_cause().is_some() {
                break;
            }
            self.run_group(allowed, group, &mut results, channel).await;
        }
        let made = allowed.iter().zip(results);
        let stopped =
            made.map(|(call, result)| result.unwrap_or_else(|| skipped_result(call, CALL_STOPPED)));
        let too_many = format!("at most {MAX_CALLS} calls are made at once");
        let rest = calls[allowed.len()..].iter().map(|call| skipped_result(call, &too_many));
        stopped.chain(rest).collect()
    }

    async fn run_group(
        &mut self,
        calls: &[ToolUse],
        group: Range<usize>,
        results: &mut [Option<ToolResult>],
        channel: &mut LoopChannel,
    ) {
        let (host, call_context) = (self.host.clone(), self.call_context.clone());
        let (progress_events, mut progress) = mpsc::channel(PROGRESS_BUFFER * MAX_PARALLEL_CALLS);
        let mut running = FuturesUnordered::new();
        let mut started = group.start;
        let mut start_times: Vec<Instant> = Vec::new();
        while channel.stop_cause().is_none() {
            if running.len() < MAX_PARALLEL_CALLS && started < group.end {
                let ToolUse { id, tool, arguments } = &calls[started];
                let arguments = arguments.clone();
                let view = ToolCallView::new(&call_context.pool.borrow(), id, tool, arguments);
                let id = view.id.clone();
                channel.send(ConversationEvent::CallStarted(view)).await;
                running.push(run_call(
                    &host,
                    &call_context,
                    (started, &calls[started]),
                    (id, progress_events.clone()),
                ));
                started += 1;
                start_times.push(Instant::now());
                continue;
            }
            if running.is_empty() {
                return;
            }
            tokio::select! {
                Some(finished) = running.next() => {
                    let FinishedCall { index, outcome, result, text, discovered, duration } = finished;
                    while let Ok(update) = progress.try_recv() {
                        channel.send(update).await;
                    }
                    let id = Arc::from(calls[index].id.as_str());
                    channel.send(ConversationEvent::CallEnded { id, outcome, text, duration }).await;
                    results[index] = Some(result);
                    self.offered_tools.add_discovered(discovered);
                }
                Some(update) = progress.recv() => channel.send(update).await,
                () = channel.receive() => {}
            }
        }
        // Dropping a call notifies its server.
        drop(running);
        for (at, started_at) in (group.start..started).zip(start_times) {
            if results[at].is_none() {
                let id = Arc::from(calls[at].id.as_str());
                let (finished, text) = (CallOutcome::Interrupted, CALL_STOPPED.to_owned());
                let duration = started_at.elapsed();
                channel
                    .send(ConversationEvent::CallEnded { id, outcome: finished, text, duration })
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

async fn run_call(
    host: &Host,
    call_context: &CallContext,
    (at, call): (usize, &ToolUse),
    (id, progress_events): (Arc<str>, mpsc::Sender<ConversationEvent>),
) -> FinishedCall {
    let began = Instant::now();
    let (outcome, discovered) = if call.tool == SEARCH_TOOL {
        let (text, found) =
            offered_tools::search_tools(&call_context.pool.borrow(), &call.arguments);
        (Ok(result_content::from_text(text)), found)
    } else {
        let outcome = call_with_progress(host, call_context, call, (id, progress_events)).await;
        let mut discovered = vec![call.tool.clone()];
        if outcome.as_ref().is_ok_and(|it| it.full_text.is_some()) {
            discovered.push(switchboard::tool_result::READ_RESULT.to_owned());
        }
        (outcome.map(result_content::from_output), discovered)
    };
    let (end, result_content) = match outcome {
        Ok(result_content) if result_content.is_error => (CallOutcome::ToolError, result_content),
        Ok(result_content) => (CallOutcome::Done, result_content),
        Err(failure) => {
            let denied =
                matches!(failure, ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. });
            let end = if denied { CallOutcome::Denied } else { CallOutcome::Failed };
            (end, result_content::from_failure(&failure))
        }
    };
    let result_content::ResultContent { content, text, is_error } = result_content;
    let result = ToolResult { id: call.id.clone(), content, is_error };
    FinishedCall { index: at, outcome: end, result, text, discovered, duration: began.elapsed() }
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
    let mut call = ToolCall::new(&call.tool, call.arguments.clone());
    CALLER.clone_into(&mut call.caller);
    call.options.progress = Some(progress_in);
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

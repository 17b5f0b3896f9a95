//! Makes the calls that a model wants, under the desk's rules. Those that only read run side by side, the others one
//! after the other in the model's order; each has a result in the end, whatever became of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value as Json;
use switchboard::calling::{CallFailure, Desk, ToolCall};
use switchboard::engine::Host;
use switchboard::pool::Pool;
use switchboard::wire::peer::Progress;
use tokio::sync::mpsc;

use super::mouth::Mouth;
use super::{Dialogue, STOPPED};
use crate::call_words;
use crate::happening::{CallEnd, CallSeen, Happening};
use crate::offers::{self, SEARCH};
use crate::utterance::{CallResult, CallWanted, Part};

/// How many calls run side by side.
const SIDE_BY_SIDE: usize = 8;
/// The most calls of one answer.
const MOST_CALLS: usize = 64;
/// How many signs of progress of one call may wait to be passed on.
const SIGNS: usize = 16;
/// Who calls, in records and questions.
const CALLER: &str = "chat";

/// A call that has ended.
struct Ended {
    at: usize,
    end: CallEnd,
    result: CallResult,
    /// What a person is shown of it.
    text: String,
    /// Tools that the model knows of from now on.
    learnt: Vec<String>,
    took: Duration,
}

impl Dialogue {
    /// Makes all of them, as far as nobody has enough.
    pub(super) async fn make(
        &mut self,
        calls: &[CallWanted],
        mouth: &mut Mouth,
    ) -> Vec<CallResult> {
        let made = &calls[..calls.len().min(MOST_CALLS)];
        let mut results: Vec<Option<CallResult>> = vec![None; made.len()];
        let groups = groups(&self.desk.pool.borrow(), made);
        for group in groups {
            if mouth.halt().is_some() {
                break;
            }
            self.make_together(made, group, &mut results, mouth).await;
        }
        let of_made = made.iter().zip(results);
        let stopped = of_made.map(|(call, result)| result.unwrap_or_else(|| unmade(call, STOPPED)));
        let too_many = format!("at most {MOST_CALLS} calls are made at once");
        let rest = calls[made.len()..].iter().map(|call| unmade(call, &too_many));
        stopped.chain(rest).collect()
    }

    async fn make_together(
        &mut self,
        calls: &[CallWanted],
        group: Range<usize>,
        results: &mut [Option<CallResult>],
        mouth: &mut Mouth,
    ) {
        let (host, desk) = (self.host.clone(), self.desk.clone());
        let (signs, mut progress) = mpsc::channel(SIGNS * SIDE_BY_SIDE);
        let mut running = FuturesUnordered::new();
        let mut begun = group.start;
        let mut clocks: Vec<Instant> = Vec::new();
        while mouth.halt().is_none() {
            if running.len() < SIDE_BY_SIDE && begun < group.end {
                let seen = seen(&desk.pool.borrow(), &calls[begun]);
                let id = seen.id.clone();
                mouth.tell(Happening::CallBegan(seen)).await;
                running.push(one(&host, &desk, (begun, &calls[begun]), (id, signs.clone())));
                begun += 1;
                clocks.push(Instant::now());
                continue;
            }
            if running.is_empty() {
                return;
            }
            tokio::select! {
                Some(ended) = running.next() => {
                    let Ended { at, end, result, text, learnt, took } = ended;
                    while let Ok(sign) = progress.try_recv() {
                        mouth.tell(sign).await;
                    }
                    let id = Arc::from(calls[at].id.as_str());
                    mouth.tell(Happening::CallEnded { id, ended: end, text, took }).await;
                    results[at] = Some(result);
                    self.offers.learn(learnt);
                }
                Some(sign) = progress.recv() => mouth.tell(sign).await,
                () = mouth.listen() => {}
            }
        }
        // Whoever drops a call has its server told.
        drop(running);
        for (at, clock) in (group.start..begun).zip(clocks) {
            if results[at].is_none() {
                let id = Arc::from(calls[at].id.as_str());
                let (ended, text) = (CallEnd::Interrupted, STOPPED.to_owned());
                let took = clock.elapsed();
                mouth.tell(Happening::CallEnded { id, ended, text, took }).await;
            }
        }
    }
}

/// What is told of a call that is not made.
pub(super) fn unmade(call: &CallWanted, why: &str) -> CallResult {
    let parts = vec![Part::Text { text: why.to_owned() }];
    CallResult { id: call.id.clone(), parts, is_error: true }
}

/// Neighbours that only read belong together; everything else stands alone.
fn groups(pool: &Pool, calls: &[CallWanted]) -> Vec<Range<usize>> {
    let only_reads = |call: &CallWanted| {
        call.tool == SEARCH || pool.find(&call.tool).is_some_and(|it| it.annotations.read_only)
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

fn seen(pool: &Pool, call: &CallWanted) -> CallSeen {
    let title = match pool.find(&call.tool) {
        Some(tool) if tool.server.is_empty() => tool.display_name().to_owned(),
        Some(tool) => format!("{}: {}", tool.server, tool.display_name()),
        None => call.tool.clone(),
    };
    CallSeen {
        id: call.id.as_str().into(),
        tool: call.tool.as_str().into(),
        title,
        arguments: call.arguments.clone(),
    }
}

async fn one(
    host: &Host,
    desk: &Desk,
    (at, call): (usize, &CallWanted),
    (id, signs): (Arc<str>, mpsc::Sender<Happening>),
) -> Ended {
    let began = Instant::now();
    let (outcome, learnt) = if call.tool == SEARCH {
        let (text, found) = offers::search(&desk.pool.borrow(), &call.arguments);
        (Ok(call_words::of_text(text)), found)
    } else {
        let outcome = watched(host, desk, call, (id, signs)).await;
        let mut learnt = vec![call.tool.clone()];
        if outcome.as_ref().is_ok_and(|it| it.full.is_some()) {
            learnt.push(switchboard::built_in::READ_RESULT.to_owned());
        }
        (outcome.map(call_words::of_yield), learnt)
    };
    let (end, words) = match outcome {
        Ok(words) if words.is_error => (CallEnd::ToolError, words),
        Ok(words) => (CallEnd::Done, words),
        Err(failure) => {
            let denied = matches!(failure, CallFailure::Denied { .. });
            let end = if denied { CallEnd::Denied } else { CallEnd::Failed };
            (end, call_words::of_failure(&failure))
        }
    };
    let call_words::Words { parts, text, is_error } = words;
    let result = CallResult { id: call.id.clone(), parts, is_error };
    Ended { at, end, result, text, learnt, took: began.elapsed() }
}

/// The call, with its progress passed on. What nobody takes is left out: the next sign says more.
async fn watched(
    host: &Host,
    desk: &Desk,
    call: &CallWanted,
    (id, signs): (Arc<str>, mpsc::Sender<Happening>),
) -> Result<switchboard::yielded::Yield, CallFailure> {
    let (say, mut heard) = mpsc::channel(SIGNS);
    let call = ToolCall {
        caller: CALLER.to_owned(),
        progress: Some(say),
        ..ToolCall::new(&call.tool, call.arguments.clone())
    };
    let calling = host.call(desk, call);
    tokio::pin!(calling);
    let pass_on = |sign: Progress| {
        let _too_fast = signs.try_send(progressed(&id, &sign));
    };
    let outcome = loop {
        tokio::select! {
            biased;
            Some(sign) = heard.recv() => pass_on(sign),
            outcome = &mut calling => break outcome,
        }
    };
    // What came with the answer belongs before it.
    while let Ok(sign) = heard.try_recv() {
        pass_on(sign);
    }
    outcome
}

fn progressed(id: &Arc<str>, sign: &Progress) -> Happening {
    let sign: Json = sign.0.decode().unwrap_or_default();
    Happening::CallProgress {
        id: id.clone(),
        done: sign["progress"].as_f64().unwrap_or_default(),
        of: sign["total"].as_f64(),
        message: sign["message"].as_str().map(|it| it.chars().take(500).collect()),
    }
}

//! Calls that wait for an administrator's decision, because their client cannot prompt its user. One task owns the
//! queue; readers get a snapshot. Showing the calls and deciding is left to the caller, e.g. `swb approvals`.

pub(crate) mod remote;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use switchboard::permission::DefinitionDiff;
use switchboard::permission::{
    DecisionFuture, PermissionDecision, PermissionPrompt, PermissionRequest,
};
use switchboard_config::display;
use switchboard_config::permission::Suggestion;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use remote::{RemoteApproval, RemoteApprovals, RemoteDecision};

/// The largest number of pending calls, of all callers and of one.
const MAX_PENDING: usize = 256;
const MAX_PER_CALLER: usize = 64;
/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 64;
/// The longest text of a call's arguments, in characters.
const MAX_ARGUMENT_CHARS: usize = 16 * 1024;
/// The most lines of a definition diff, and the longest line in characters.
const MAX_DIFF_LINES: usize = 100;
const MAX_DIFF_LINE_CHARS: usize = 400;

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingApproval {
    /// Unique in its queue.
    pub id: u64,
    /// The principal that makes the call.
    pub caller: String,
    /// The server.
    pub server: String,
    /// The tool, by the server's own name.
    pub tool: String,
    /// The arguments, with secrets masked. A truncated string if they are very long.
    pub arguments: Json,
    /// Why a decision is necessary.
    pub reason: String,
    /// Warnings about the tool.
    pub flags: Vec<String>,
    /// Rules that would decide such calls in the future, narrowest first.
    pub suggestions: Vec<Suggestion>,
    /// The changes of the tool's definition since it was approved.
    pub definition_change: Option<DefinitionDiff>,
    /// When the call started to wait.
    pub requested_at: SystemTime,
}

/// A snapshot of the pending calls, oldest first.
pub type PendingApprovals = Arc<[Arc<PendingApproval>]>;

/// A queue of pending calls. Clones share it; it closes when the last clone is dropped.
#[derive(Clone)]
pub struct ApprovalQueue {
    commands: mpsc::Sender<Command>,
    pending: watch::Receiver<PendingApprovals>,
    /// Those that wait in this process.
    own: watch::Receiver<PendingApprovals>,
    timeout: Duration,
}

impl fmt::Debug for ApprovalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApprovalQueue({})", self.pending.borrow().len())
    }
}

enum Command {
    Submit {
        approval: Box<PendingApproval>,
        reply: oneshot::Sender<PermissionDecision>,
    },
    Decide {
        id: u64,
        decision: PermissionDecision,
        decided: oneshot::Sender<Option<Arc<PendingApproval>>>,
    },
    SetRemote {
        approvals: Vec<RemoteApproval>,
        decisions: mpsc::Sender<RemoteDecision>,
    },
}

impl ApprovalQueue {
    /// The default timeout of a call.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

    /// A queue whose calls time out, and the task that owns it. The task ends when the last clone is dropped. With a
    /// timeout of zero, every call is denied at once.
    pub fn new(timeout: Duration) -> (ApprovalQueue, impl Future<Output = ()> + Send + 'static) {
        let (commands, from_calls) = mpsc::channel(COMMAND_CAPACITY);
        let (publish, queue) = watch::channel(PendingApprovals::default());
        let (publish_own, own) = watch::channel(PendingApprovals::default());
        let task = QueueTask {
            published: publish,
            published_own: publish_own,
            remote: RemoteApprovals::default(),
            timeout,
            pending: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        (ApprovalQueue { commands, pending: queue, own, timeout }, task.run(from_calls))
    }

    /// The pending calls now.
    pub fn pending(&self) -> PendingApprovals {
        self.pending.borrow().clone()
    }

    /// The pending calls, now and after each change.
    pub fn watch(&self) -> watch::Receiver<PendingApprovals> {
        self.pending.clone()
    }

    /// The calls that wait in this process, now and after each change.
    pub(crate) fn watch_own(&self) -> watch::Receiver<PendingApprovals> {
        self.own.clone()
    }

    /// Replaces the calls that wait in other processes. Decisions about them are sent to the channel.
    pub(crate) async fn set_remote(
        &self,
        approvals: Vec<RemoteApproval>,
        decisions: mpsc::Sender<RemoteDecision>,
    ) {
        let _closed = self.commands.send(Command::SetRemote { approvals, decisions }).await;
    }

    /// Decides a call. None if no call with this id is pending.
    pub async fn decide(
        &self,
        id: u64,
        decision: PermissionDecision,
    ) -> Option<Arc<PendingApproval>> {
        let (decided, answer) = oneshot::channel();
        self.commands.send(Command::Decide { id, decision, decided }).await.ok()?;
        answer.await.ok()?
    }

    async fn submit(&self, request: &PermissionRequest<'_>) -> PermissionDecision {
        let (reply, answer) = oneshot::channel();
        let approval = Box::new(PendingApproval::new(request));
        let closed = || {
            PermissionDecision::Deny(format!(
                "{}, and the approval queue is closed",
                request.because
            ))
        };
        if self.commands.send(Command::Submit { approval, reply }).await.is_err() {
            return closed();
        }
        answer.await.unwrap_or_else(|_| closed())
    }
}

impl PermissionPrompt for ApprovalQueue {
    /// Waits for a decision. Dropping the future withdraws the call.
    fn decide<'a>(&'a self, request: &'a PermissionRequest<'a>) -> DecisionFuture<'a> {
        match self.timeout.is_zero() {
            true => {
                let why = format!("{}, and approvals are turned off", request.because);
                Box::pin(async { PermissionDecision::Deny(why) })
            }
            false => Box::pin(self.submit(request)),
        }
    }
}

impl PendingApproval {
    fn new(request: &PermissionRequest<'_>) -> PendingApproval {
        let lines = request.definition_diff.as_ref().map(|it| {
            let lines = it.lines.iter().take(MAX_DIFF_LINES);
            lines
                .map(|(change, line)| (*change, line.chars().take(MAX_DIFF_LINE_CHARS).collect()))
                .collect()
        });
        PendingApproval {
            id: 0,
            caller: request.caller.to_owned(),
            server: request.tool.server.clone(),
            tool: request.tool.name.clone(),
            arguments: truncate_arguments(display::masked_json(request.arguments)),
            reason: request.because.clone(),
            flags: request.tool.flags().iter().map(ToString::to_string).collect(),
            suggestions: request.suggestions.clone(),
            definition_change: lines.map(|lines| DefinitionDiff { lines }),
            requested_at: SystemTime::now(),
        }
    }
}

/// Replaces arguments that are too long by a truncated string.
fn truncate_arguments(arguments: Json) -> Json {
    let text = arguments.to_string();
    let length = text.chars().count();
    if length <= MAX_ARGUMENT_CHARS {
        return arguments;
    }
    let start: String = text.chars().take(MAX_ARGUMENT_CHARS).collect();
    format!("{start}… ({} more characters)", length - MAX_ARGUMENT_CHARS).into()
}

struct QueueTask {
    published: watch::Sender<PendingApprovals>,
    published_own: watch::Sender<PendingApprovals>,
    remote: RemoteApprovals,
    timeout: Duration,
    pending: BTreeMap<u64, (Arc<PendingApproval>, oneshot::Sender<PermissionDecision>)>,
    tasks: JoinSet<u64>,
}

impl QueueTask {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut last = 0;
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Submit { approval, reply }) => {
                        let (caller, server, tool) =
                            (&*approval.caller, &*approval.server, &*approval.tool);
                        if let Some(full) = self.over_limit(&approval) {
                            warn!(caller, server, tool, "call denied: too many wait for approval");
                            let _client_gone = reply.send(full);
                            continue;
                        }
                        last += 1;
                        info!(id = last, caller, server, tool, "call waits for approval");
                        self.insert(PendingApproval { id: last, ..*approval }, reply);
                    }
                    Some(Command::SetRemote { approvals, decisions }) => {
                        self.remote.set(approvals, decisions, &mut last);
                    }
                    Some(Command::Decide { id, decision, decided }) => {
                        let found = self.pending.remove(&id);
                        let decided = match &found {
                            Some(_) => decided,
                            None => match self.remote.decide(id, decision.clone(), decided) {
                                Ok(()) => {
                                    self.publish();
                                    continue;
                                }
                                Err(decided) => decided,
                            },
                        };
                        if found.is_some() {
                            let is_allowed = matches!(decision, PermissionDecision::Allow { .. });
                            info!(id, is_allowed, "waiting call decided");
                        }
                        let answered = found.and_then(|(approval, answer)| {
                            answer.send(decision).is_ok().then_some(approval)
                        });
                        let _caller_gone = decided.send(answered);
                    }
                    None => break,
                },
                Some(over) = self.tasks.join_next() => {
                    if let Ok(id) = over {
                        self.pending.remove(&id);
                    }
                }
            }
            self.publish();
        }
        self.tasks.shutdown().await;
    }

    fn over_limit(&self, new: &PendingApproval) -> Option<PermissionDecision> {
        let of_caller = self.pending.values().filter(|it| it.0.caller == new.caller).count();
        let is_full = self.pending.len() >= MAX_PENDING || of_caller >= MAX_PER_CALLER;
        let why = "and too many calls wait for a decision";
        is_full.then(|| PermissionDecision::Deny(format!("{}, {why}", new.reason)))
    }

    fn insert(&mut self, approval: PendingApproval, reply: oneshot::Sender<PermissionDecision>) {
        let id = approval.id;
        let (answer, answered) = oneshot::channel();
        let seconds = self.timeout.as_secs_f64();
        let timed_out = format!("{}, and no answer came within {seconds} s", approval.reason);
        let deadline = Instant::now() + self.timeout;
        self.pending.insert(id, (Arc::new(approval), answer));
        self.tasks.spawn(async move {
            wait_for_decision((reply, answered), PermissionDecision::Deny(timed_out), deadline)
                .await;
            id
        });
    }

    fn publish(&self) {
        let own: PendingApprovals = self.pending.values().map(|it| it.0.clone()).collect();
        let mut all: Vec<Arc<PendingApproval>> =
            own.iter().chain(self.remote.iter()).cloned().collect();
        all.sort_by_key(|it| it.id);
        for (sender, now) in [(&self.published_own, own), (&self.published, all.into())] {
            if !now.iter().map(|it| it.id).eq(sender.borrow().iter().map(|it| it.id)) {
                let _no_readers = sender.send(now);
            }
        }
    }
}

/// Waits for the decision, for the client to disconnect, or for the deadline.
async fn wait_for_decision(
    (mut reply, answered): (
        oneshot::Sender<PermissionDecision>,
        oneshot::Receiver<PermissionDecision>,
    ),
    timed_out: PermissionDecision,
    deadline: Instant,
) {
    let answer = tokio::select! {
        biased;
        answer = answered => answer.ok(),
        () = reply.closed() => None,
        () = sleep_until(deadline) => Some(timed_out),
    };
    if let Some(answer) = answer {
        let _client_gone = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard::permission::GrantScope;

    use super::*;

    fn approval(caller: &str) -> PendingApproval {
        PendingApproval {
            id: 0,
            caller: caller.to_owned(),
            server: "s".to_owned(),
            tool: "t".to_owned(),
            arguments: json!({}),
            reason: "a rule asks".to_owned(),
            flags: Vec::new(),
            suggestions: Vec::new(),
            definition_change: None,
            requested_at: SystemTime::UNIX_EPOCH,
        }
    }

    fn open(timeout: Duration) -> ApprovalQueue {
        let (queue, task) = ApprovalQueue::new(timeout);
        tokio::spawn(task);
        queue
    }

    /// Submits a call and waits until it is published.
    async fn submit_and_wait(
        queue: &ApprovalQueue,
        caller: &str,
    ) -> oneshot::Receiver<PermissionDecision> {
        let before = queue.pending().last().map_or(0, |it| it.id);
        let (reply, answer) = oneshot::channel();
        let approval = Box::new(approval(caller));
        queue.commands.send(Command::Submit { approval, reply }).await.expect("it is open");
        let newer = |queue: &PendingApprovals| queue.last().is_some_and(|it| it.id > before);
        queue.watch().wait_for(newer).await.expect("it is kept");
        answer
    }

    const YES: PermissionDecision =
        PermissionDecision::Allow { decided_by: String::new(), scope: GrantScope::Once };

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_decision_and_is_decided_once() {
        let queue = open(ApprovalQueue::DEFAULT_TIMEOUT);
        let (first, second) =
            (submit_and_wait(&queue, "ada").await, submit_and_wait(&queue, "bob").await);
        let callers: Vec<_> = queue.pending().iter().map(|it| it.caller.clone()).collect();
        assert_eq!(callers, ["ada", "bob"]);
        let decided = queue.decide(2, YES).await.expect("it waits");
        assert_eq!(decided.caller, "bob");
        assert_eq!(second.await, Ok(YES));
        assert_eq!(queue.decide(2, YES).await, None);
        assert_eq!(queue.pending().len(), 1);
        let no = PermissionDecision::Deny("no".to_owned());
        queue.decide(1, no.clone()).await.expect("it waits");
        assert_eq!(first.await, Ok(no));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_decision_is_denied_after_the_timeout() {
        let queue = open(Duration::from_secs(2));
        let answer = submit_and_wait(&queue, "ada").await;
        let timed_out = "a rule asks, and no answer came within 2 s".to_owned();
        assert_eq!(answer.await, Ok(PermissionDecision::Deny(timed_out)));
        queue.watch().wait_for(|it| it.is_empty()).await.expect("it is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_disconnects_is_withdrawn() {
        let queue = open(ApprovalQueue::DEFAULT_TIMEOUT);
        drop(submit_and_wait(&queue, "ada").await);
        queue.watch().wait_for(|it| it.is_empty()).await.expect("it is kept");
        assert_eq!(queue.decide(1, YES).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_fill_the_queue() {
        let queue = open(ApprovalQueue::DEFAULT_TIMEOUT);
        let mut answers = Vec::new();
        for _ in 0..MAX_PER_CALLER {
            answers.push(submit_and_wait(&queue, "ada").await);
        }
        let (reply, answer) = oneshot::channel();
        let approval = Box::new(approval("ada"));
        queue.commands.send(Command::Submit { approval, reply }).await.expect("it is open");
        let Ok(PermissionDecision::Deny(why)) = answer.await else { panic!("there was room") };
        assert_eq!(why, "a rule asks, and too many calls wait for a decision");
        let _other = submit_and_wait(&queue, "bob").await;
        assert_eq!(queue.pending().len(), MAX_PER_CALLER + 1);
    }

    #[test]
    fn truncated_arguments_say_how_much_is_missing() {
        let Json::String(text) = truncate_arguments(json!({"a": "x".repeat(MAX_ARGUMENT_CHARS)}))
        else {
            panic!("not cut")
        };
        assert!(text.ends_with("… (8 more characters)"), "{}", &text[MAX_ARGUMENT_CHARS..]);
        assert_eq!(truncate_arguments(json!({"a": 1})), json!({"a": 1}));
    }
}

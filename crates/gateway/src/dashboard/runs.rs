//! Tool calls and logins that were started in the dashboard. One task owns them, so that they go on when the page is
//! closed. A call passes the same permission check as any other: its caller is the principal `dashboard`.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value as Json;
use switchboard::audit::log::CallOutcome;
use switchboard::login::LoginStage;
use switchboard::permission::ReasonDetail;
use switchboard::pool::Tool;
use switchboard::request::RequestOptions;
use switchboard::{CallContext, ToolCall, ToolCallError, ToolOutput};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::gateway::Gateway;

/// The principal of calls that are made in the dashboard.
pub(crate) const CALLER: &str = "dashboard";
/// The most calls that run at once, and that are kept.
const MAX_RUNNING: usize = 16;
const MAX_KEPT: usize = 50;
/// The most characters of text that a page shows of a result.
const MAX_RESULT_CHARS: usize = 100_000;
/// How long a login may prepare before the page says that it takes long.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(20);
/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 32;

/// A call that was started in the dashboard.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Json,
    pub(crate) started: SystemTime,
    pub(crate) state: RunState,
}

/// How far a call is.
#[derive(Debug, Clone)]
pub(crate) enum RunState {
    Running,
    Finished { took: Duration, result: Arc<Result<ToolOutput, RunFailure>> },
    Cancelled,
}

/// Why a call has no result.
#[derive(Debug, Clone)]
pub(crate) struct RunFailure {
    pub(crate) outcome: CallOutcome,
    /// The error, then its causes.
    pub(crate) lines: Vec<String>,
}

/// The calls and logins. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
enum Command {
    Start { tool: Arc<Tool>, arguments: Json, id: oneshot::Sender<Option<u64>> },
    Get { id: u64, reply: oneshot::Sender<Option<Arc<Run>>> },
    List { reply: oneshot::Sender<Vec<Arc<Run>>> },
    Cancel { id: u64, done: oneshot::Sender<()> },
    FollowLogin { server: String, stage: watch::Receiver<LoginStage> },
    Logins { reply: oneshot::Sender<BTreeMap<String, LoginStage>> },
}

impl Runs {
    /// No calls, and the task that owns them. It ends when the last clone is dropped.
    pub(crate) fn new(gateway: Gateway) -> (Runs, impl Future<Output = ()> + Send + 'static) {
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        (Runs { commands }, RunTable::new(gateway).run(receiver))
    }

    /// Starts a call and returns its number. None if too many run.
    pub(crate) async fn start(&self, tool: Arc<Tool>, arguments: Json) -> Option<u64> {
        let (id, started) = oneshot::channel();
        self.commands.send(Command::Start { tool, arguments, id }).await.ok()?;
        started.await.ok()?
    }

    /// The call with this number.
    pub(crate) async fn get(&self, id: u64) -> Option<Arc<Run>> {
        let (reply, found) = oneshot::channel();
        self.commands.send(Command::Get { id, reply }).await.ok()?;
        found.await.ok()?
    }

    /// All calls that are kept, oldest first.
    pub(crate) async fn all(&self) -> Vec<Arc<Run>> {
        let (reply, all) = oneshot::channel();
        match self.commands.send(Command::List { reply }).await {
            Ok(()) => all.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Cancels a call.
    pub(crate) async fn cancel(&self, id: u64) {
        let (done, cancelled) = oneshot::channel();
        if self.commands.send(Command::Cancel { id, done }).await.is_ok() {
            let _task_gone = cancelled.await;
        }
    }

    /// Shows the stages of a login from now on. Waits until there is something to show.
    pub(crate) async fn follow_login(&self, server: &str, stage: watch::Receiver<LoginStage>) {
        let mut next = stage.clone();
        let command = Command::FollowLogin { server: server.to_owned(), stage };
        if self.commands.send(command).await.is_ok() {
            let prepared = next.wait_for(|it| *it != LoginStage::Preparing);
            let _shown_as_preparing = tokio::time::timeout(LOGIN_TIMEOUT, prepared).await;
        }
    }

    /// The stages of the logins that were started here, by server.
    pub(crate) async fn logins(&self) -> BTreeMap<String, LoginStage> {
        let (reply, logins) = oneshot::channel();
        match self.commands.send(Command::Logins { reply }).await {
            Ok(()) => logins.await.unwrap_or_default(),
            Err(_) => BTreeMap::new(),
        }
    }
}

type RunResult = Result<ToolOutput, RunFailure>;

struct RunTable {
    gateway: Gateway,
    last_id: u64,
    runs: VecDeque<Arc<Run>>,
    tasks: JoinSet<(Duration, RunResult)>,
    running: BTreeMap<u64, AbortHandle>,
    logins: BTreeMap<String, watch::Receiver<LoginStage>>,
}

impl RunTable {
    fn new(gateway: Gateway) -> RunTable {
        RunTable {
            gateway,
            last_id: 0,
            runs: VecDeque::new(),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            logins: BTreeMap::new(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.apply(command),
                    None => break,
                },
                Some(over) = self.tasks.join_next_with_id() => match over {
                    Ok((task, (took, result))) => {
                        let result = Arc::new(result);
                        self.set_state(task, RunState::Finished { took, result });
                    }
                    Err(cancelled) => self.set_state(cancelled.id(), RunState::Cancelled),
                }
            }
        }
        self.tasks.shutdown().await;
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Start { tool, arguments, id } => {
                let _page_gone = id.send(self.start(tool, arguments));
            }
            Command::Get { id, reply } => {
                let found = self.runs.iter().find(|it| it.id == id).cloned();
                let _page_gone = reply.send(found);
            }
            Command::List { reply } => {
                let _page_gone = reply.send(self.runs.iter().cloned().collect());
            }
            Command::Cancel { id, done } => {
                if let Some(running) = self.running.get(&id) {
                    running.abort();
                }
                let _page_gone = done.send(());
            }
            Command::FollowLogin { server, stage } => {
                self.logins.insert(server, stage);
            }
            Command::Logins { reply } => {
                let stages = self
                    .logins
                    .iter()
                    .map(|(server, stage)| (server.clone(), stage.borrow().clone()));
                let _page_gone = reply.send(stages.collect());
            }
        }
    }

    fn start(&mut self, tool: Arc<Tool>, arguments: Json) -> Option<u64> {
        if self.running.len() >= MAX_RUNNING {
            return None;
        }
        self.last_id += 1;
        let id = self.last_id;
        let call = make_call(self.gateway.clone(), tool.clone(), arguments.clone());
        self.running.insert(id, self.tasks.spawn(call));
        let (started, state) = (SystemTime::now(), RunState::Running);
        self.runs.push_back(Arc::new(Run { id, tool, arguments, started, state }));
        let is_running = |run: &Run| matches!(run.state, RunState::Running);
        if self.runs.len() > MAX_KEPT
            && let Some(oldest) = self.runs.iter().position(|it| !is_running(it))
        {
            self.runs.remove(oldest);
        }
        Some(id)
    }

    fn set_state(&mut self, task: Id, state: RunState) {
        let ended = self.running.iter().find(|it| it.1.id() == task).map(|it| *it.0);
        let Some(id) = ended else { return };
        self.running.remove(&id);
        if let Some(run) = self.runs.iter_mut().find(|it| it.id == id) {
            *run = Arc::new(Run { state, ..Run::clone(run) });
        }
    }
}

/// Makes a call with the permissions of the principal `dashboard`, and counts it.
async fn make_call(gateway: Gateway, tool: Arc<Tool>, arguments: Json) -> (Duration, RunResult) {
    let relay = &gateway.relay;
    let own = relay.call_context(&CALLER.into());
    let mut context =
        CallContext { reason_detail: ReasonDetail::WithPaths, ..CallContext::clone(&own) };
    context.limits.characters = context.limits.characters.min(MAX_RESULT_CHARS);
    let call = ToolCall {
        caller: CALLER.to_owned(),
        call_id: None,
        exposed_name: tool.exposed_name.clone(),
        arguments,
        options: RequestOptions::new(context.tool_timeout),
    };
    let started = Instant::now();
    let timer = relay.metrics.start_call(&tool.server);
    let result = relay.host.call_with(&context, call).await;
    let outcome = match &result {
        Ok(output) if output.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Succeeded,
        Err(error) => error.into(),
    };
    timer.finish(outcome);
    (started.elapsed(), result.map_err(|error| RunFailure { outcome, lines: error_lines(&error) }))
}

fn error_lines(error: &ToolCallError) -> Vec<String> {
    let mut lines = vec![error.to_string()];
    if let ToolCallError::InvalidArguments { faults, .. } = error {
        lines.extend(faults.iter().map(ToString::to_string));
    }
    let mut source = error.source();
    while let Some(cause) = source {
        lines.push(cause.to_string());
        source = cause.source();
    }
    lines
}

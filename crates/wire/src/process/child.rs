//! A server that is a program of its own: started in a group of its own, listened to, and stopped for good.
//! Which program, with which variables and whether at all, is decided above.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};

pub use crate::process::descendants::{OWNER_VARIABLE, kill_orphans};
pub use crate::process::watchdog::{Watchdog, WatchdogProgram, run_watchdog};

/// How long a program has to end by itself once its standard input is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(80);
/// How long it has after an interrupt.
const INTERRUPT_GRACE: Duration = Duration::from_millis(100);
/// How long it has after it was told to terminate.
pub(crate) const TERMINATE_GRACE: Duration = Duration::from_millis(400);
/// How long the system may take to end it.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(1);
/// How much of what it says on standard error is remembered.
const STDERR_TAIL_BYTES: usize = 64 * 1024;

/// Programs and flocks that this process has started so far; each has a number in its mark.
pub(crate) static NEXT_PROGRAM: AtomicU64 = AtomicU64::new(0);
static NEXT_SET: AtomicU64 = AtomicU64::new(0);

/// How programs are kept.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The largest message we take from it.
    pub max_message_size: usize,
    /// Who kills it when we can not.
    pub watchdog: Option<Watchdog>,
    /// Whom it belongs to.
    pub process_set: ProcessSet,
    /// Who else hears what it says on standard error. What finds no room there is passed over.
    pub stderr: Option<mpsc::Sender<Bytes>>,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            max_message_size: DEFAULT_MAX_MESSAGE_SIZE,
            watchdog: None,
            process_set: ProcessSet::new(),
            stderr: None,
        }
    }
}

/// What to start. Arguments and variables do not print: secrets are among them.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program, a name to look for or a path.
    pub command: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// All of its environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The folder it starts in.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.command.display())
    }
}

/// A program could not be started.
#[derive(Debug, Error)]
#[error("could not start `{}`", .command.display())]
pub struct StartError {
    /// The program.
    pub command: OsString,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// The link to a program's standard streams.
pub type ProcessTransport = StdioTransport<ChildStdout, ChildStdin>;

/// A running program and everything it started. Dropping it kills them all at once.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: ProcessGroup,
    stderr_requests: mpsc::Sender<oneshot::Sender<Vec<u8>>>,
    stderr_task: JoinHandle<()>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// What the system says of it; absent where it could not be waited for.
    pub status: Option<ExitStatus>,
    /// What it took.
    pub step: StopStep,
}

/// When to look for processes that left their program's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescendantSearch {
    /// As soon as the program is gone.
    Now,
    /// Not here: many programs end at once, and [`Flock::search`] follows.
    Deferred,
}

/// Programs that belong together and end together. Clones are the same flock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSet(pub(crate) u64);

impl ProcessSet {
    /// A flock of its own.
    pub fn new() -> ProcessSet {
        ProcessSet(NEXT_SET.fetch_add(1, Ordering::Relaxed))
    }

    /// Kills everybody whom any program of this flock started, in whatever group. Only for the end, when nothing
    /// of it shall run any more. Blocks while it looks through the process table.
    pub fn kill_descendants(self) -> usize {
        crate::process::descendants::kill_marked(
            &crate::process::descendants::Owner::current().set_mark(self.0),
        )
    }
}

impl Default for ProcessSet {
    fn default() -> ProcessSet {
        ProcessSet::new()
    }
}

/// Lets this process hold as many programs as it may: each takes a handful of open files.
pub fn raise_file_limit() {
    const WANTED_FILES: u64 = 16_384;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = limit.maximum.map_or(WANTED_FILES, |most| most.min(WANTED_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = rustix::process::Rlimit { current: Some(wanted), maximum: limit.maximum };
        let _stays_low = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }
}

/// What it took to end a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStep {
    /// Its standard input was closed.
    CloseStdin,
    /// An interrupt.
    Interrupt,
    /// It was told to terminate.
    Terminate,
    /// It was killed.
    Kill,
}

/// Starts a program in a process group of its own. Must be called inside a runtime.
pub fn spawn(
    program: &Program,
    options: &ProcessOptions,
) -> Result<(ProcessTransport, Process), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = crate::process::descendants::Owner::current()
        .program_mark(options.process_set.0, NEXT_PROGRAM.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env(OWNER_VARIABLE, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(fail)?;
    let group = ProcessGroup::new(&child, mark, options.watchdog.clone())
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(fail(io::ErrorKind::BrokenPipe.into()));
    };
    let (said, tail_requests) = mpsc::channel(8);
    let listener = tokio::spawn(collect_stderr(stderr, tail_requests, options.stderr.clone()));
    let transport = StdioTransport::new(stdout, stdin, options.max_message_size);
    Ok((transport, Process { child, group, stderr_requests: said, stderr_task: listener }))
}

impl Process {
    /// The program's process number, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The end of what the program said on standard error.
    pub async fn stderr_tail(&self) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        // A program that never stops talking keeps the listener busy.
        let asked = async {
            self.stderr_requests.send(answer).await.ok()?;
            answered.await.ok()
        };
        timeout(TERMINATE_GRACE, asked).await.ok().flatten().unwrap_or_default()
    }

    /// Waits until the program has ended by itself.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.kill_remaining();
        Ok(status)
    }

    /// Ends the program, politely first and in at most 600 ms. The link must be dropped before, which
    /// closes its standard input. What it started and left behind is killed in any case.
    pub async fn stop(mut self, search: DescendantSearch) -> ProcessExit {
        let steps = [
            (StopStep::CloseStdin, None, CLOSE_GRACE),
            (StopStep::Interrupt, Some(Signal::INT), INTERRUPT_GRACE),
            (StopStep::Terminate, Some(Signal::TERM), TERMINATE_GRACE),
        ];
        for (step, signal, grace) in steps {
            if let Some(signal) = signal {
                self.group.signal_all(signal);
            }
            if let Ok(status) = timeout(grace, self.child.wait()).await {
                return self.finish(status.ok(), step, search).await;
            }
        }
        self.group.signal_all(Signal::KILL);
        let status = timeout(KILL_GRACE, self.child.wait()).await;
        self.finish(status.ok().and_then(Result::ok), StopStep::Kill, search).await
    }

    /// Nobody can ask any more what was said, so the listener ends too. Whoever left the group is looked for,
    /// off the runtime's threads, for that takes a look at every process there is.
    async fn finish(
        mut self,
        status: Option<ExitStatus>,
        step: StopStep,
        search: DescendantSearch,
    ) -> ProcessExit {
        self.group.kill_remaining();
        let mark = self.group.mark.take();
        let Process { stderr_requests: said, stderr_task: listener, .. } = self;
        if let (DescendantSearch::Now, Some(mark)) = (search, mark) {
            let _found = tokio::task::spawn_blocking(move || {
                crate::process::descendants::kill_marked(&mark)
            })
            .await;
        }
        drop(said);
        let _ended_or_slow = timeout(INTERRUPT_GRACE, listener).await;
        ProcessExit { status, step }
    }
}

/// Holds a command that is run for a moment and everything it starts. Dropping it kills them all at once.
#[derive(Debug)]
pub struct ProcessGroupGuard {
    mark: Option<String>,
    group: Option<ProcessGroup>,
}

impl ProcessGroupGuard {
    /// Prepares a command: it will lead a process group, and whatever it starts can be told by its mark.
    pub fn prepare(command: &mut Command) -> ProcessGroupGuard {
        let number = NEXT_PROGRAM.fetch_add(1, Ordering::Relaxed);
        let mark =
            crate::process::descendants::Owner::current().program_mark(ProcessSet::new().0, number);
        command.env(OWNER_VARIABLE, &mark).process_group(0);
        ProcessGroupGuard { mark: Some(mark), group: None }
    }

    /// Takes hold of what was started from that command.
    pub fn attach(&mut self, child: &Child) {
        if let Some(mark) = self.mark.take() {
            self.group = ProcessGroup::new(child, mark, None);
        }
    }

    /// Kills whoever is left. Only once: later the group's number may be somebody else's.
    pub fn kill(&mut self) {
        self.group = None;
    }
}

/// A process group. Dropping it kills whoever is left in it, and whoever left it.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: Option<Pid>,
    /// What tells those who left it; taken by whoever looks for them.
    pub(crate) mark: Option<String>,
    watchdog: Option<Watchdog>,
}

impl ProcessGroup {
    pub(crate) fn new(
        child: &Child,
        mark: String,
        watchdog: Option<Watchdog>,
    ) -> Option<ProcessGroup> {
        let number = child.id().and_then(|id| i32::try_from(id).ok())?;
        let leader = Pid::from_raw(number)?;
        if let Some(watchdog) = &watchdog {
            watchdog.watch(leader);
        }
        Some(ProcessGroup { leader: Some(leader), mark: Some(mark), watchdog })
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        if let Some(group) = self.leader {
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// The leader is gone: kills whom it left behind, once. Later the number may be somebody else's.
    pub(crate) fn kill_remaining(&mut self) {
        self.signal_all(Signal::KILL);
        if let (Some(leader), Some(watchdog)) = (self.leader.take(), &self.watchdog) {
            watchdog.forget(leader);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_remaining();
        if let (Some(mark), Ok(runtime)) = (self.mark.take(), Handle::try_current()) {
            // Nobody can wait for it here.
            drop(runtime.spawn_blocking(move || crate::process::descendants::kill_marked(&mark)));
        }
    }
}

/// Takes everything from a program's standard error, so that it never waits for us, and remembers the end of it.
async fn collect_stderr(
    mut stderr: impl AsyncRead + Unpin,
    mut tail_requests: mpsc::Receiver<oneshot::Sender<Vec<u8>>>,
    copy_to: Option<mpsc::Sender<Bytes>>,
) {
    let mut tail = VecDeque::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            read = stderr.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => {
                    append_tail(&mut tail, &buffer[..count]);
                    if let Some(copy_to) = &copy_to {
                        let _no_room = copy_to.try_send(Bytes::copy_from_slice(&buffer[..count]));
                    }
                }
            },
            tail_request = tail_requests.recv() => match tail_request {
                Some(tail_request) => {
                    let _caller_left = tail_request.send(tail.iter().copied().collect());
                }
                None => return,
            },
        }
    }
}

fn append_tail(tail: &mut VecDeque<u8>, more: &[u8]) {
    let more = &more[more.len().saturating_sub(STDERR_TAIL_BYTES)..];
    let excess = (tail.len() + more.len()).saturating_sub(STDERR_TAIL_BYTES);
    tail.drain(..excess);
    tail.extend(more);
}

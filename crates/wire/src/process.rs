//! A server that is a program of its own: started in a group of its own, listened to, and stopped for good.
//! Which program, with which variables and whether at all, is decided above.

pub mod errand;
mod guard;
mod kin;

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

use crate::lines::{LARGEST_MESSAGE, LineLink};

pub use guard::{Guard, GuardProgram, stand};
pub use kin::{MARK, reap};

/// How long a program has to end by itself once its standard input is closed.
const AFTER_CLOSE: Duration = Duration::from_millis(80);
/// How long it has after an interrupt.
const AFTER_INTERRUPT: Duration = Duration::from_millis(100);
/// How long it has after it was told to terminate.
const AFTER_TERMINATE: Duration = Duration::from_millis(400);
/// How long the system may take to end it.
const AFTER_KILL: Duration = Duration::from_secs(1);
/// How much of what it says on standard error is remembered.
const REMEMBERED: usize = 64 * 1024;

/// Programs and flocks that this process has started so far; each has a number in its mark.
static STARTED: AtomicU64 = AtomicU64::new(0);
static FLOCKS: AtomicU64 = AtomicU64::new(0);

/// How programs are kept.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// The largest message we take from it.
    pub largest_message: usize,
    /// Who kills it when we can not.
    pub guard: Option<Guard>,
    /// Whom it belongs to.
    pub flock: Flock,
    /// Who else hears what it says on standard error. What finds no room there is passed over.
    pub said: Option<mpsc::Sender<Bytes>>,
}

impl Default for Keeping {
    fn default() -> Keeping {
        Keeping { largest_message: LARGEST_MESSAGE, guard: None, flock: Flock::new(), said: None }
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
pub type ProcessLink = LineLink<ChildStdout, ChildStdin>;

/// A running program and everything it started. Dropping it kills them all at once.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Group,
    said: mpsc::Sender<oneshot::Sender<Vec<u8>>>,
    listener: JoinHandle<()>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// What the system says of it; absent where it could not be waited for.
    pub status: Option<ExitStatus>,
    /// What it took.
    pub after: Push,
}

/// When to look for processes that left their program's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// As soon as the program is gone.
    Now,
    /// Not here: many programs end at once, and [`Flock::search`] follows.
    Later,
}

/// Programs that belong together and end together. Clones are the same flock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flock(u64);

impl Flock {
    /// A flock of its own.
    pub fn new() -> Flock {
        Flock(FLOCKS.fetch_add(1, Ordering::Relaxed))
    }

    /// Kills everybody whom any program of this flock started, in whatever group. Only for the end, when nothing
    /// of it shall run any more. Blocks while it looks through the process table.
    pub fn search(self) -> usize {
        kin::kill_marked(&kin::Owner::this().flock(self.0))
    }
}

impl Default for Flock {
    fn default() -> Flock {
        Flock::new()
    }
}

/// Lets this process hold as many programs as it may: each takes a handful of open files.
pub fn raise_file_limit() {
    const ENOUGH: u64 = 16_384;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = rustix::process::Rlimit { current: Some(wanted), maximum: limit.maximum };
        let _stays_low = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    }
}

/// What it took to end a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Push {
    /// Its standard input was closed.
    Close,
    /// An interrupt.
    Interrupt,
    /// It was told to terminate.
    Terminate,
    /// It was killed.
    Kill,
}

/// Starts a program in a process group of its own. Must be called inside a runtime.
pub fn start(program: &Program, keeping: &Keeping) -> Result<(ProcessLink, Process), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = kin::Owner::this().mark(keeping.flock.0, STARTED.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(fail)?;
    let group = Group::of(&child, mark, keeping.guard.clone())
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(fail(io::ErrorKind::BrokenPipe.into()));
    };
    let (said, questions) = mpsc::channel(8);
    let listener = tokio::spawn(listen(stderr, questions, keeping.said.clone()));
    let link = LineLink::new(stdout, stdin, keeping.largest_message);
    Ok((link, Process { child, group, said, listener }))
}

impl Process {
    /// The program's process number, while it runs.
    pub fn number(&self) -> Option<u32> {
        self.child.id()
    }

    /// The end of what the program said on standard error.
    pub async fn said(&self) -> Vec<u8> {
        let (answer, answered) = oneshot::channel();
        // A program that never stops talking keeps the listener busy.
        let asked = async {
            self.said.send(answer).await.ok()?;
            answered.await.ok()
        };
        timeout(AFTER_TERMINATE, asked).await.ok().flatten().unwrap_or_default()
    }

    /// Waits until the program has ended by itself.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.finish();
        Ok(status)
    }

    /// Ends the program, politely first and in at most 600 ms. The link must be dropped before, which
    /// closes its standard input. What it started and left behind is killed in any case.
    pub async fn stop(mut self, search: Search) -> Ended {
        let steps = [
            (Push::Close, None, AFTER_CLOSE),
            (Push::Interrupt, Some(Signal::INT), AFTER_INTERRUPT),
            (Push::Terminate, Some(Signal::TERM), AFTER_TERMINATE),
        ];
        for (after, signal, patience) in steps {
            if let Some(signal) = signal {
                self.group.send(signal);
            }
            if let Ok(status) = timeout(patience, self.child.wait()).await {
                return self.over(status.ok(), after, search).await;
            }
        }
        self.group.send(Signal::KILL);
        let status = timeout(AFTER_KILL, self.child.wait()).await;
        self.over(status.ok().and_then(Result::ok), Push::Kill, search).await
    }

    /// Nobody can ask any more what was said, so the listener ends too. Whoever left the group is looked for,
    /// off the runtime's threads, for that takes a look at every process there is.
    async fn over(mut self, status: Option<ExitStatus>, after: Push, search: Search) -> Ended {
        self.group.finish();
        let mark = self.group.mark.take();
        let Process { said, listener, .. } = self;
        if let (Search::Now, Some(mark)) = (search, mark) {
            let _found = tokio::task::spawn_blocking(move || kin::kill_marked(&mark)).await;
        }
        drop(said);
        let _ended_or_slow = timeout(AFTER_INTERRUPT, listener).await;
        Ended { status, after }
    }
}

/// Holds a command that is run for a moment and everything it starts. Dropping it kills them all at once.
#[derive(Debug)]
pub struct Leash {
    mark: Option<String>,
    group: Option<Group>,
}

impl Leash {
    /// Prepares a command: it will lead a process group, and whatever it starts can be told by its mark.
    pub fn on(command: &mut Command) -> Leash {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mark = kin::Owner::this().mark(Flock::new().0, number);
        command.env(MARK, &mark).process_group(0);
        Leash { mark: Some(mark), group: None }
    }

    /// Takes hold of what was started from that command.
    pub fn hold(&mut self, child: &Child) {
        if let Some(mark) = self.mark.take() {
            self.group = Group::of(child, mark, None);
        }
    }

    /// Kills whoever is left. Only once: later the group's number may be somebody else's.
    pub fn end(&mut self) {
        self.group = None;
    }
}

/// A process group. Dropping it kills whoever is left in it, and whoever left it.
#[derive(Debug)]
struct Group {
    leader: Option<Pid>,
    /// What tells those who left it; taken by whoever looks for them.
    mark: Option<String>,
    guard: Option<Guard>,
}

impl Group {
    fn of(child: &Child, mark: String, guard: Option<Guard>) -> Option<Group> {
        let number = child.id().and_then(|id| i32::try_from(id).ok())?;
        let leader = Pid::from_raw(number)?;
        if let Some(guard) = &guard {
            guard.watch(leader);
        }
        Some(Group { leader: Some(leader), mark: Some(mark), guard })
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = self.leader {
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// The leader is gone: kills whom it left behind, once. Later the number may be somebody else's.
    fn finish(&mut self) {
        self.send(Signal::KILL);
        if let (Some(leader), Some(guard)) = (self.leader.take(), &self.guard) {
            guard.forget(leader);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.finish();
        if let (Some(mark), Ok(runtime)) = (self.mark.take(), Handle::try_current()) {
            // Nobody can wait for it here.
            drop(runtime.spawn_blocking(move || kin::kill_marked(&mark)));
        }
    }
}

/// Takes everything from a program's standard error, so that it never waits for us, and remembers the end of it.
async fn listen(
    mut stderr: impl AsyncRead + Unpin,
    mut questions: mpsc::Receiver<oneshot::Sender<Vec<u8>>>,
    also: Option<mpsc::Sender<Bytes>>,
) {
    let mut remembered = VecDeque::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            read = stderr.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => {
                    remember(&mut remembered, &buffer[..count]);
                    if let Some(also) = &also {
                        let _no_room = also.try_send(Bytes::copy_from_slice(&buffer[..count]));
                    }
                }
            },
            question = questions.recv() => match question {
                Some(question) => {
                    let _caller_left = question.send(remembered.iter().copied().collect());
                }
                None => return,
            },
        }
    }
}

fn remember(remembered: &mut VecDeque<u8>, more: &[u8]) {
    let more = &more[more.len().saturating_sub(REMEMBERED)..];
    let excess = (remembered.len() + more.len()).saturating_sub(REMEMBERED);
    remembered.drain(..excess);
    remembered.extend(more);
}

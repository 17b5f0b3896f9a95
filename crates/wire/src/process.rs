//! A server that is a program of its own: started in a group of its own, listened to, and stopped for good.
//! Which program, with which variables and whether at all, is decided above.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lines::LineLink;

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
pub fn start(
    program: &Program,
    largest_message: usize,
) -> Result<(ProcessLink, Process), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(fail)?;
    let group = Group::of(&child).ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(fail(io::ErrorKind::BrokenPipe.into()));
    };
    let (said, questions) = mpsc::channel(8);
    let listener = tokio::spawn(listen(stderr, questions));
    let link = LineLink::new(stdout, stdin, largest_message);
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
        if self.said.send(answer).await.is_err() {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }

    /// Waits until the program has ended by itself.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.finish();
        Ok(status)
    }

    /// Ends the program, politely first and in at most 600 ms. The link must be dropped before, which
    /// closes its standard input. What it started and left behind is killed in any case.
    pub async fn stop(mut self) -> Ended {
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
                return self.over(status.ok(), after).await;
            }
        }
        self.group.send(Signal::KILL);
        let status = timeout(AFTER_KILL, self.child.wait()).await;
        self.over(status.ok().and_then(Result::ok), Push::Kill).await
    }

    /// Nobody can ask any more what was said, so the listener ends too.
    async fn over(mut self, status: Option<ExitStatus>, after: Push) -> Ended {
        self.group.finish();
        let Process { said, listener, .. } = self;
        drop(said);
        let _ended_or_slow = timeout(AFTER_INTERRUPT, listener).await;
        Ended { status, after }
    }
}

/// A process group. Dropping it kills whoever is left in it.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Option<Group> {
        let number = child.id().and_then(|id| i32::try_from(id).ok())?;
        Pid::from_raw(number).map(|group| Group(Some(group)))
    }

    fn send(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// The leader is gone: kills whom it left behind, once. Later the number may be somebody else's.
    fn finish(&mut self) {
        self.send(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Takes everything from a program's standard error, so that it never waits for us, and remembers the end of it.
async fn listen(
    mut stderr: impl AsyncRead + Unpin,
    mut questions: mpsc::Receiver<oneshot::Sender<Vec<u8>>>,
) {
    let mut remembered = VecDeque::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            read = stderr.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => remember(&mut remembered, &buffer[..count]),
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

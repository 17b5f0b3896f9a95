//! A server that runs as a child process: started in its own process group, with its standard error collected.
//! Which program runs, with which environment and whether at all, is decided by the caller.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::field::display;
use tracing::info;

use super::group::{DescendantSet, LeaderRole, ProcessGroup};
use super::stop::{CLOSE_GRACE, INTERRUPT_GRACE, KILL_GRACE, TERMINATE_GRACE};
use crate::transport::stdio::StdioTransport;

pub use super::descendants::{OWNER_VARIABLE, kill_orphans};
pub use super::file_limit::raise_file_limit;
pub use super::group::ProcessGroupGuard;
pub use super::program::{ProcessOptions, ProcessSet, Program, StartError};
pub use super::stop::{ProcessExit, StopStep};
pub use super::watchdog::{Watchdog, WatchdogProgram, run_watchdog};

/// How many bytes of standard error output are kept.
const STDERR_TAIL_BYTES: usize = 64 * 1024;

/// The transport over the standard streams of a program.
pub type ProcessTransport = StdioTransport<ChildStdout, ChildStdin>;

/// A running program and its descendants. Dropping it kills all of them.
#[derive(Debug)]
pub struct Process {
    /// The file name of the program, for logs.
    name: OsString,
    child: Child,
    group: ProcessGroup,
    stderr_requests: mpsc::Sender<oneshot::Sender<Vec<u8>>>,
    stderr_task: JoinHandle<()>,
}

/// When to search for descendants that left the process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescendantSearch {
    /// After the program has exited.
    Now,
    /// Not here: the caller stops many programs, and uses [`SetDescendants`](super::SetDescendants) before and after.
    Deferred,
}

/// Starts a server in its own process group. Must be called inside a runtime.
pub fn spawn(
    program: &Program,
    options: &ProcessOptions,
) -> Result<(ProcessTransport, Process), StartError> {
    let (stdin, stdout, process) = spawn_with_pipes(program, options)?;
    Ok((StdioTransport::new(stdout, stdin, options.max_message_size), process))
}

/// Starts a program in its own process group and returns its standard input and output as they are, for protocols other
/// than MCP. Must be called inside a runtime.
pub fn spawn_with_pipes(
    program: &Program,
    options: &ProcessOptions,
) -> Result<(ChildStdin, ChildStdout, Process), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = options.process_set.next_program_mark();
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
    let descendants = DescendantSet::prepare(mark, options.cgroups);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            descendants.discard();
            return Err(fail(error));
        }
    };
    let group = ProcessGroup::new(&child, descendants, options, LeaderRole::Program)
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(fail(io::ErrorKind::BrokenPipe.into()));
    };
    let (stderr_requests, tail_requests) = mpsc::channel(8);
    let stderr_task = tokio::spawn(collect_stderr(stderr, tail_requests, options.stderr.clone()));
    let name = program.name();
    info!(program = %name.display(), pid = child.id(), "process started");
    if let Some(started) = &options.started {
        started.send_replace(child.id());
    }
    Ok((stdin, stdout, Process { name, child, group, stderr_requests, stderr_task }))
}

impl Process {
    /// The process id, while the program runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The end of the standard error output.
    pub async fn stderr_tail(&self) -> Vec<u8> {
        let (sender, receiver) = oneshot::channel();
        // A program that writes without pause keeps the collecting task busy.
        let request = async {
            self.stderr_requests.send(sender).await.ok()?;
            receiver.await.ok()
        };
        timeout(TERMINATE_GRACE, request).await.ok().flatten().unwrap_or_default()
    }

    /// Waits until the program exits by itself.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        if self.group.kill_remaining() {
            info!(program = %self.name.display(), %status, "process exited");
        }
        Ok(status)
    }

    /// Remembers the descendants of the program, so that [`Process::stop`] finds those that cleared their environment
    /// and left the process group. To be called before the transport is dropped: the program may exit then, and a
    /// descendant whose parent exits loses its link to it.
    pub async fn note_descendants(&mut self, search: DescendantSearch) {
        match search {
            DescendantSearch::Now => self.group.note_descendants().await,
            DescendantSearch::Deferred => {}
        }
    }

    /// Stops the program with increasing force, within 600 ms. The transport must be dropped first, which closes
    /// standard input. Processes that the program left behind are killed in any case.
    pub async fn stop(mut self, search: DescendantSearch) -> ProcessExit {
        let steps = [
            (StopStep::CloseStdin, None, CLOSE_GRACE),
            (StopStep::Interrupt, Some(Signal::INT), INTERRUPT_GRACE),
            (StopStep::Terminate, Some(Signal::TERM), TERMINATE_GRACE),
        ];
        for (step, signal, grace) in steps {
            if let Some(signal) = signal {
                self.group.signal_program(signal);
            }
            if let Ok(status) = timeout(grace, self.child.wait()).await {
                return self.finish(status.ok(), step, search).await;
            }
        }
        self.group.kill_program().await;
        let status = timeout(KILL_GRACE, self.child.wait()).await;
        self.finish(status.ok().and_then(Result::ok), StopStep::Kill, search).await
    }

    /// Ends the collecting task and searches for descendants. The search reads the whole process table, so it runs
    /// on a blocking thread.
    async fn finish(
        mut self,
        status: Option<ExitStatus>,
        step: StopStep,
        search: DescendantSearch,
    ) -> ProcessExit {
        if self.group.kill_remaining() {
            let status = status.map(display);
            info!(program = %self.name.display(), status, ?step, "process stopped");
        }
        let descendants = self.group.take_descendants();
        let Process { stderr_requests, stderr_task, .. } = self;
        if let Some(descendants) = descendants {
            let killing = move || match search {
                DescendantSearch::Now => descendants.kill(),
                DescendantSearch::Deferred => descendants.kill_without_mark(),
            };
            let _panicked = tokio::task::spawn_blocking(killing).await;
        }
        drop(stderr_requests);
        let _ended_or_slow = timeout(INTERRUPT_GRACE, stderr_task).await;
        ProcessExit { status, step }
    }
}

/// Reads standard error until it closes, so that the program never blocks on it, and keeps the end.
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

//! A short-lived command whose output is read: it runs in its own process group, with one pipe for both output
//! streams.
//! Reading the pipe, limits and timeouts are left to the caller.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::field::display;
use tracing::info;

use super::cgroup::CgroupUse;
use super::descendants::OWNER_VARIABLE;
use super::group::{DescendantSet, LeaderRole, ProcessGroup};
use super::program::{ProcessOptions, Program, StartError};
use super::stop::{KILL_GRACE, ProcessExit, StopStep, TERMINATE_GRACE};
use super::supervisor::supervised_command;
use super::watchdog::WatchdogProgram;

/// A running command and its descendants. Dropping it kills all of them.
#[derive(Debug)]
pub struct RunningCommand {
    /// The file name of the program, for logs.
    name: OsString,
    child: Child,
    group: ProcessGroup,
    /// The search for descendants, once the command has exited.
    killing: Option<JoinHandle<()>>,
}

/// Whether a command runs below a supervisor.
#[derive(Debug, Clone, Copy)]
pub enum Supervision<'a> {
    /// It does not. A descendant that cleared its environment, started a session and lost its parent before the
    /// command ended is then found only if the command has a cgroup.
    Unsupervised,
    /// It runs below this program, which finds every descendant, and needs no cgroup.
    Supervised(&'a WatchdogProgram),
}

/// Starts a command without standard input. Its output comes through the pipe in order. Must be called inside a
/// runtime.
pub fn spawn(
    program: &Program,
    options: &ProcessOptions,
    supervision: Supervision<'_>,
) -> Result<(Receiver, RunningCommand), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = options.process_set.next_program_mark();
    let (reader, writer) = io::pipe().map_err(fail)?;
    let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(fail)?;
    let (supervisor, role, cgroups) = match supervision {
        Supervision::Supervised(program) => {
            (Some(program), LeaderRole::Supervisor, CgroupUse::Never)
        }
        Supervision::Unsupervised => (None, LeaderRole::Program, options.cgroups),
    };
    let descendants = DescendantSet::prepare(mark, cgroups);
    let child = match spawn_leader(program, descendants.mark(), writer, supervisor) {
        Ok(child) => child,
        Err(error) => {
            descendants.discard();
            return Err(fail(error));
        }
    };
    let group = ProcessGroup::new(&child, descendants, options, role)
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let name = program.name();
    info!(program = %name.display(), pid = child.id(), "process started");
    Ok((output, RunningCommand { name, child, group, killing: None }))
}

/// Starts the program or its supervisor. Both streams go to the pipe, of which this process keeps no write end: the
/// pipe would never reach its end while one is open.
fn spawn_leader(
    program: &Program,
    mark: &str,
    writer: io::PipeWriter,
    supervisor: Option<&WatchdogProgram>,
) -> io::Result<Child> {
    let mut command = match supervisor {
        Some(supervisor) => supervised_command(program, supervisor)?,
        None => {
            let mut command = Command::new(&program.command);
            command.args(&program.args);
            command
        }
    };
    command
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env(OWNER_VARIABLE, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer.try_clone()?))
        .stderr(Stdio::from(writer))
        .process_group(0);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    command.spawn()
}

impl RunningCommand {
    /// Waits until the command exits by itself, and kills all of its descendants. Cancel safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        if self.group.kill_remaining() {
            info!(program = %self.name.display(), %status, "process exited");
        }
        self.kill_descendants().await;
        Ok(status)
    }

    /// Stops the command with increasing force, and kills all of its descendants.
    pub async fn stop(mut self) -> ProcessExit {
        self.group.note_descendants().await;
        self.group.signal_program(Signal::TERM);
        let (status, step) = match timeout(TERMINATE_GRACE, self.child.wait()).await {
            Ok(status) => (status.ok(), StopStep::Terminate),
            Err(_) => {
                self.group.kill_program().await;
                let status = timeout(KILL_GRACE, self.child.wait()).await;
                (status.ok().and_then(Result::ok), StopStep::Kill)
            }
        };
        if self.group.kill_remaining() {
            let status = status.map(display);
            info!(program = %self.name.display(), status, ?step, "process stopped");
        }
        self.kill_descendants().await;
        ProcessExit { status, step }
    }

    /// The search reads the whole process table, so it runs on a blocking thread; there it goes on when the caller is
    /// gone. Cancel safe: the next call waits for the same search.
    async fn kill_descendants(&mut self) {
        if let Some(descendants) = self.group.take_descendants() {
            self.killing = Some(tokio::task::spawn_blocking(move || descendants.kill()));
        }
        if let Some(killing) = &mut self.killing {
            let _panicked = killing.await;
            self.killing = None;
        }
    }
}

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
use tokio::time::timeout;
use tracing::field::display;
use tracing::info;

use super::descendants::{self, OWNER_VARIABLE};
use super::group::ProcessGroup;
use super::program::{ProcessOptions, Program, StartError};
use super::stop::{KILL_GRACE, ProcessExit, StopStep, TERMINATE_GRACE};

/// A running command and its descendants. Dropping it kills all of them.
#[derive(Debug)]
pub struct RunningCommand {
    /// The file name of the program, for logs.
    name: OsString,
    child: Child,
    group: ProcessGroup,
}

/// Starts a command without standard input. Its output comes through the pipe in order. Must be called inside a
/// runtime.
pub fn spawn(
    program: &Program,
    options: &ProcessOptions,
) -> Result<(Receiver, RunningCommand), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = options.process_set.next_program_mark();
    let (reader, writer) = io::pipe().map_err(fail)?;
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env(OWNER_VARIABLE, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::from(writer.try_clone().map_err(fail)?))
        .stderr(Stdio::from(writer))
        .process_group(0);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let child = command.spawn().map_err(fail)?;
    // The builder holds copies of the write end; the pipe would never reach its end while they are open.
    drop(command);
    let group = ProcessGroup::new(&child, mark, options.watchdog.clone())
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(fail)?;
    let name = program.name();
    info!(program = %name.display(), pid = child.id(), "process started");
    Ok((output, RunningCommand { name, child, group }))
}

impl RunningCommand {
    /// Waits until the command exits by itself, and kills what it left behind in its group. Processes that left the
    /// group are killed with the process set. Cancel safe.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        if self.group.kill_remaining() {
            info!(program = %self.name.display(), %status, "process exited");
        }
        self.group.mark = None;
        Ok(status)
    }

    /// Stops the command with increasing force, and kills all of its descendants.
    pub async fn stop(mut self) -> ProcessExit {
        self.group.signal_all(Signal::TERM);
        let (status, step) = match timeout(TERMINATE_GRACE, self.child.wait()).await {
            Ok(status) => (status.ok(), StopStep::Terminate),
            Err(_) => {
                self.group.signal_all(Signal::KILL);
                let status = timeout(KILL_GRACE, self.child.wait()).await;
                (status.ok().and_then(Result::ok), StopStep::Kill)
            }
        };
        if self.group.kill_remaining() {
            let status = status.map(display);
            info!(program = %self.name.display(), status, ?step, "process stopped");
        }
        if let Some(mark) = self.group.mark.take() {
            let _found = tokio::task::spawn_blocking(move || descendants::kill_marked(&mark)).await;
        }
        ProcessExit { status, step }
    }
}

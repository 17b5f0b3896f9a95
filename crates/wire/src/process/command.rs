//! A command that is run for what it says: in a group of its own, with one pipe for both of its output streams.
//! Who reads that pipe, how much of it is kept and how long it may take is decided above.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

use rustix::process::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::descendants::{self, OWNER_VARIABLE};
use super::group::ProcessGroup;
use super::program::{ProcessOptions, Program, StartError};
use super::stop::{KILL_GRACE, ProcessExit, StopStep, TERMINATE_GRACE};

/// A running command and everything it started. Dropping it kills them all at once.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
    group: ProcessGroup,
}

/// Starts a command that reads nothing. What it says comes out of the pipe in the order it was said. Must be called
/// inside a runtime.
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
    // It holds our copies of the pipe's end, without which the pipe would never end.
    drop(command);
    let group = ProcessGroup::new(&child, mark, options.watchdog.clone())
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let output = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(fail)?;
    Ok((output, RunningCommand { child, group }))
}

impl RunningCommand {
    /// Waits until the command has ended by itself, and kills what it left behind in its group. Whoever left the
    /// group is found at the end of the flock. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.kill_remaining();
        self.group.mark = None;
        Ok(status)
    }

    /// Ends the command, politely first, and everybody whom it started, in whatever group.
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
        self.group.kill_remaining();
        if let Some(mark) = self.group.mark.take() {
            let _found = tokio::task::spawn_blocking(move || descendants::kill_marked(&mark)).await;
        }
        ProcessExit { status, step }
    }
}

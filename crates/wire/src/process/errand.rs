//! A command that is run for what it says: in a group of its own, with one pipe for both of its output streams.
//! Who reads that pipe, how much of it is kept and how long it may take is decided above.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering;

use rustix::process::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::kin::{self, MARK};
use super::{
    AFTER_KILL, AFTER_TERMINATE, Ended, Group, Keeping, Program, Push, STARTED, StartError,
};

/// A running command and everything it started. Dropping it kills them all at once.
#[derive(Debug)]
pub struct Errand {
    child: Child,
    group: Group,
}

/// Starts a command that reads nothing. What it says comes out of the pipe in the order it was said. Must be called
/// inside a runtime.
pub fn send(program: &Program, keeping: &Keeping) -> Result<(Receiver, Errand), StartError> {
    let fail = |source| StartError { command: program.command.clone(), source };
    let mark = kin::Owner::this().mark(keeping.flock.0, STARTED.fetch_add(1, Ordering::Relaxed));
    let (reader, writer) = io::pipe().map_err(fail)?;
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env(MARK, &mark)
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
    let group = Group::of(&child, mark, keeping.guard.clone())
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let said = Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(fail)?;
    Ok((said, Errand { child, group }))
}

impl Errand {
    /// Waits until the command has ended by itself, and kills what it left behind in its group. Whoever left the
    /// group is found at the end of the flock. May be dropped and called again.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group.finish();
        self.group.mark = None;
        Ok(status)
    }

    /// Ends the command, politely first, and everybody whom it started, in whatever group.
    pub async fn stop(mut self) -> Ended {
        self.group.send(Signal::TERM);
        let (status, after) = match timeout(AFTER_TERMINATE, self.child.wait()).await {
            Ok(status) => (status.ok(), Push::Terminate),
            Err(_) => {
                self.group.send(Signal::KILL);
                let status = timeout(AFTER_KILL, self.child.wait()).await;
                (status.ok().and_then(Result::ok), Push::Kill)
            }
        };
        self.group.finish();
        if let Some(mark) = self.group.mark.take() {
            let _found = tokio::task::spawn_blocking(move || kin::kill_marked(&mark)).await;
        }
        Ended { status, after }
    }
}

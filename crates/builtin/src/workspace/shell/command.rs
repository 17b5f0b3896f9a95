//! One shell command: its input, how it ends, and waiting for its end while its output is recorded.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::process::command::RunningCommand;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::output_log::OutputLog;

/// How long a process outside the command's group may keep its output open after the command ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs a command and writes its final working folder to a file: `$1` is the command, `$2` the file.
pub(super) const FOREGROUND_SCRIPT: &str =
    "__swb=$2; set -- \"$1\"; trap 'pwd -P >\"$__swb\"' EXIT; eval \"$1\"";

/// Runs a command whose working folder does not matter.
pub(super) const BACKGROUND_SCRIPT: &str = "eval \"$1\"";

/// A command to run.
#[derive(Debug, Clone)]
pub(crate) struct CommandSpec {
    pub(crate) command: String,
    /// The shell's working folder.
    pub(crate) working_dir: PathBuf,
    /// The folder for outputs.
    pub(crate) output_dir: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobExit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) cause: ExitCause,
}

impl JobExit {
    /// How the command ended; `None` after a success.
    pub(crate) fn describe(&self) -> Option<String> {
        match (self.cause, self.code, self.signal) {
            (ExitCause::Timeout, _, _) => Some("it timed out and was ended".to_owned()),
            (ExitCause::Killed, _, _) => Some("it was ended on request".to_owned()),
            (ExitCause::Exited, Some(0), _) => None,
            (ExitCause::Exited, Some(code), _) => Some(format!("exit code {code}")),
            (ExitCause::Exited, None, Some(signal)) => Some(format!("ended by signal {signal}")),
            (ExitCause::Exited, None, None) => Some("it ended".to_owned()),
        }
    }
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCause {
    /// It exited.
    Exited,
    /// Its timeout expired.
    Timeout,
    /// It was killed on request.
    Killed,
}

/// A finished foreground command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) exit: JobExit,
    pub(crate) output: OutputLog,
    /// The working folder it left, if known.
    pub(crate) working_dir: Option<PathBuf>,
}

/// When a command is ended.
pub(super) struct StopConditions {
    pub(super) timeout: Duration,
    pub(super) kill: Arc<Notify>,
}

/// Waits for a command and records its output. Dropping the future kills the command and its descendants.
pub(super) async fn wait_for_exit(
    mut pipe: Receiver,
    mut command: RunningCommand,
    output: &OutputLog,
    stop_conditions: StopConditions,
) -> JobExit {
    let deadline = Instant::now() + stop_conditions.timeout;
    let mut buffer = vec![0; 64 * 1024];
    let mut is_open = true;
    let ended = loop {
        tokio::select! {
            biased;
            () = sleep_until(deadline) => break Err(ExitCause::Timeout),
            () = stop_conditions.kill.notified() => break Err(ExitCause::Killed),
            status = command.wait() => break Ok(status.ok()),
            read = pipe.read(&mut buffer), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => output.append(&buffer[..count]),
            },
        }
    };
    let (status, cause) = match ended {
        Ok(status) => (status, ExitCause::Exited),
        Err(cause) => (command.stop().await.status, cause),
    };
    let rest = async {
        while is_open {
            match pipe.read(&mut buffer).await {
                Ok(0) | Err(_) => is_open = false,
                Ok(count) => output.append(&buffer[..count]),
            }
        }
    };
    let _still_open = timeout(DRAIN_TIMEOUT, rest).await;
    JobExit {
        code: status.and_then(|it: ExitStatus| it.code()),
        signal: status.and_then(|it| it.signal()),
        cause,
    }
}

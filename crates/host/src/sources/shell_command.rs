//! Runs a user-configured command in the shell and captures its output. Dropping the future kills the command and its
//! descendants. The caller sets the timeout and interprets the output.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use switchboard_wire::process::child::ProcessGroupGuard;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long to wait for the streams to end after the command exits. Descendants that hold them open longer are
/// killed.
const STREAM_GRACE: Duration = Duration::from_millis(200);

/// A command and its inputs.
pub(crate) struct ShellCommand<'a> {
    pub(crate) command: &'a str,
    /// Its standard input.
    pub(crate) input: &'a str,
    pub(crate) folder: &'a Path,
    /// Its whole environment; `None` inherits ours.
    pub(crate) variables: Option<&'a BTreeMap<String, String>>,
    /// Limit per output stream. One byte more is read, so that the caller can see that the limit was exceeded.
    pub(crate) max_bytes: u64,
}

/// The result of a command.
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ShellCommand<'_> {
    /// Runs the command in the shell.
    pub(crate) async fn run(&self) -> io::Result<CommandOutput> {
        let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
        let mut command_line = Command::new(shell);
        if let Some(variables) = self.variables {
            command_line.env_clear().envs(variables);
        }
        let mut process_group = ProcessGroupGuard::prepare(&mut command_line);
        let mut child = command_line
            .args([flag, self.command])
            .current_dir(self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        process_group.attach(&child);
        let stdin = child.stdin.take();
        let write_input = async {
            if let Some(mut stdin) = stdin {
                // A command need not read its input.
                let _unread = stdin.write_all(self.input.as_bytes()).await;
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = async {
            tokio::join!(
                write_input,
                read_all(stdout, self.max_bytes),
                read_all(stderr, self.max_bytes)
            )
        };
        tokio::pin!(streams);
        let (status, stdout_text, stderr_text) = tokio::select! {
            ((), stdout_text, stderr_text) = &mut streams => (child.wait().await, stdout_text, stderr_text),
            status = child.wait() => {
                let ((), stdout_text, stderr_text) = match timeout(STREAM_GRACE, &mut streams).await {
                    Ok(streams) => streams,
                    // Descendants of the command hold the streams open.
                    Err(_) => {
                        process_group.kill();
                        streams.await
                    }
                };
                (status, stdout_text, stderr_text)
            }
        };
        Ok(CommandOutput { status: status?, stdout: stdout_text?, stderr: stderr_text? })
    }
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(max_bytes + 1).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

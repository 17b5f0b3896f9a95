//! Runs a command of the person's in the shell, for what it prints. It ends when nobody waits for it any more, and so
//! does everything that it started. How long it may take, and what its words mean, is decided by whoever runs it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use switchboard_wire::process::child::ProcessGroupGuard;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long what a command printed may take to arrive once it has ended. Who holds its streams open then is no part
/// of the answer.
const STREAM_GRACE: Duration = Duration::from_millis(200);

/// A command, and what it is given.
pub(crate) struct ShellCommand<'a> {
    pub(crate) command: &'a str,
    /// What it reads.
    pub(crate) input: &'a str,
    pub(crate) folder: &'a Path,
    /// Its whole environment; ours where there is none.
    pub(crate) variables: Option<&'a BTreeMap<String, String>>,
    /// How much is read of each stream; one byte more says that there is more.
    pub(crate) max_bytes: u64,
}

/// What came of a command.
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    /// On standard output.
    pub(crate) stdout: String,
    /// On standard error.
    pub(crate) stderr: String,
}

impl ShellCommand<'_> {
    /// Runs it in the shell, which is where people write such commands for.
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
        let feeding = async {
            if let Some(mut stdin) = stdin {
                // A command that does not want to know need not read.
                let _unread = stdin.write_all(self.input.as_bytes()).await;
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = async {
            tokio::join!(
                feeding,
                read_all(stdout, self.max_bytes),
                read_all(stderr, self.max_bytes)
            )
        };
        tokio::pin!(streams);
        let (status, printed, complained) = tokio::select! {
            ((), printed, complained) = &mut streams => (child.wait().await, printed, complained),
            status = child.wait() => {
                let ((), printed, complained) = match timeout(STREAM_GRACE, &mut streams).await {
                    Ok(streams) => streams,
                    // Whom it left behind holds the streams open.
                    Err(_) => {
                        process_group.kill();
                        streams.await
                    }
                };
                (status, printed, complained)
            }
        };
        Ok(CommandOutput { status: status?, stdout: printed?, stderr: complained? })
    }
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(max_bytes + 1).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

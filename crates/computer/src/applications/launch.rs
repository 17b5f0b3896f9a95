//! Starts an application, detached: it goes on when this program ends.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::applications::desktop_entry::Application;
use crate::error::{ComputerError, Result};

/// Starts an application with this environment.
pub(crate) fn start(application: &Application, environment: &[(String, String)]) -> Result<()> {
    let name = application.name.clone();
    let Some((program, arguments)) = application.command.split_first() else {
        return Err(ComputerError::NotStartable { name });
    };
    // It would fail in a process that tells nothing.
    if !is_installed(program, environment) {
        return Err(ComputerError::NotStartable { name });
    }
    // `setsid` starts it in a session of its own and ends at once, so that it is no child of ours.
    let mut command = Command::new("setsid");
    command.args(["--fork", "--", program]).args(arguments);
    command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let source = std::io::Error::other(format!("setsid: {status}"));
            Err(ComputerError::Start { name, source })
        }
        Err(source) => Err(ComputerError::Start { name, source }),
    }
}

/// Whether a program is there, by its path or in the folders of programs.
fn is_installed(program: &str, environment: &[(String, String)]) -> bool {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return is_program(Path::new(program));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let mut folders = path.map(|(_, value)| value.split(':')).into_iter().flatten();
    folders.any(|it| is_program(&Path::new(it).join(program)))
}

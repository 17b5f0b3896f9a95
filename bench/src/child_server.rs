//! Servers that belong to a measurement: started for it, and ended with it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::echo_server;
use crate::failure::Failure;

/// A server on its standard streams. Dropping it ends it.
pub struct StdioServer {
    /// Where it reads from.
    pub input: ChildStdin,
    /// Where it writes to.
    pub output: ChildStdout,
    _child: KillOnDrop,
}

impl StdioServer {
    /// Starts a server.
    pub fn start(command: &[OsString]) -> Result<StdioServer, Failure> {
        let (program, arguments) = command.split_first().ok_or(Failure::InvalidRequest)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|error| Failure::NotStarted { program: program.into(), error })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::InvalidRequest);
        };
        Ok(StdioServer { input, output, _child: KillOnDrop(child) })
    }
}

/// A server that listens. Dropping it ends it.
pub struct ListeningServer {
    /// Where, as it says itself.
    pub address: String,
    child: KillOnDrop,
}

impl ListeningServer {
    /// Starts an echo server of this kind.
    pub fn start_echo(kind: &str) -> Result<ListeningServer, Failure> {
        ListeningServer::start_command(&echo_command(kind)?)
    }

    /// Starts a server and waits until it has said where it listens, with the address as its last word.
    pub fn start_command(command: &[OsString]) -> Result<ListeningServer, Failure> {
        let (program, arguments) = command.split_first().ok_or(Failure::InvalidRequest)?;
        let mut command = Command::new(program);
        command.args(arguments);
        ListeningServer::spawn(command)
    }

    /// The same with a command that has surroundings of its own.
    pub fn spawn(mut child: Command) -> Result<ListeningServer, Failure> {
        let program = PathBuf::from(child.get_program());
        child.stdin(Stdio::null()).stdout(Stdio::piped());
        let fail = |error| Failure::NotStarted { program: program.clone(), error };
        let mut child = KillOnDrop(child.spawn().map_err(fail)?);
        let output = child.0.stdout.take().ok_or(Failure::InvalidRequest)?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(fail)?;
        let address = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        Ok(ListeningServer { address, child })
    }

    /// Starts a server that listens where it was told to. It says nothing, or nothing that is of use.
    pub fn start_at(mut child: Command, address: String) -> Result<ListeningServer, Failure> {
        let program = PathBuf::from(child.get_program());
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().map_err(|error| Failure::NotStarted { program, error })?;
        Ok(ListeningServer { address, child: KillOnDrop(child) })
    }

    /// Its number among the system's processes.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

/// The command that makes this program an echo server.
pub fn echo_command(kind: &str) -> Result<[OsString; 3], Failure> {
    Ok([own_program()?.into(), echo_server::SUBCOMMAND.into(), kind.into()])
}

/// Where this program is.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::NotStarted { program: "swb-bench".into(), error })
}

/// A process that does not outlive its owner.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _gone_already = self.0.wait();
    }
}

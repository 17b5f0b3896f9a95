//! Servers that belong to a measurement: started for it, and ended with it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::echo;
use crate::failure::Failure;

/// A server on its standard streams. Dropping it ends it.
pub struct Piped {
    /// Where it reads from.
    pub input: ChildStdin,
    /// Where it writes to.
    pub output: ChildStdout,
    _child: Ended,
}

impl Piped {
    /// Starts a server.
    pub fn start(command: &[OsString]) -> Result<Piped, Failure> {
        let (program, arguments) = command.split_first().ok_or(Failure::Question)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|error| Failure::NotStarted { program: program.into(), error })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Question);
        };
        Ok(Piped { input, output, _child: Ended(child) })
    }
}

/// A server that listens. Dropping it ends it.
pub struct Listening {
    /// Where, as it says itself.
    pub address: String,
    child: Ended,
}

impl Listening {
    /// Starts an echo server of this kind.
    pub fn start(kind: &str) -> Result<Listening, Failure> {
        Listening::of(&echo_command(kind)?)
    }

    /// Starts a server and waits until it has said where it listens, with the address as its last word.
    pub fn of(command: &[OsString]) -> Result<Listening, Failure> {
        let (program, arguments) = command.split_first().ok_or(Failure::Question)?;
        let mut command = Command::new(program);
        command.args(arguments);
        Listening::spawn(command)
    }

    /// The same with a command that has surroundings of its own.
    pub fn spawn(mut child: Command) -> Result<Listening, Failure> {
        let program = PathBuf::from(child.get_program());
        child.stdin(Stdio::null()).stdout(Stdio::piped());
        let fail = |error| Failure::NotStarted { program: program.clone(), error };
        let mut child = Ended(child.spawn().map_err(fail)?);
        let output = child.0.stdout.take().ok_or(Failure::Question)?;
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said).map_err(fail)?;
        let address = said.split_whitespace().next_back().unwrap_or_default().to_owned();
        Ok(Listening { address, child })
    }

    /// Starts a server that listens where it was told to. It says nothing, or nothing that is of use.
    pub fn silently(mut child: Command, address: String) -> Result<Listening, Failure> {
        let program = PathBuf::from(child.get_program());
        child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().map_err(|error| Failure::NotStarted { program, error })?;
        Ok(Listening { address, child: Ended(child) })
    }

    /// Its number among the system's processes.
    pub fn process(&self) -> u32 {
        self.child.0.id()
    }
}

/// The command that makes this program an echo server.
pub fn echo_command(kind: &str) -> Result<[OsString; 3], Failure> {
    Ok([own_program()?.into(), echo::WORD.into(), kind.into()])
}

/// Where this program is.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::NotStarted { program: "swb-bench".into(), error })
}

/// A process that does not outlive its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _gone_already = self.0.wait();
    }
}

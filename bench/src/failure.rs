//! The failures of a benchmark, and how they are printed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::config_counts::ConfigCounts;

/// Why a benchmark could not measure.
#[derive(Debug)]
pub enum Failure {
    /// No benchmark has this name.
    UnknownArgument(String),
    /// The environment variables of cargo, which name the repository, are missing.
    NotStartedByCargo,
    /// The output of cargo names no executable.
    NoExecutable,
    /// A file could not be read or written.
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A program could not be started.
    NotStarted {
        /// The path of the program.
        program: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A program exited with a failure.
    Failed {
        /// The path of the program.
        program: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// A response is not the expected JSON.
    InvalidJson(serde_json::Error),
    /// A client or server of the benchmark failed.
    ClientFailed {
        /// The name of the client or server.
        name: &'static str,
        /// The cause.
        error: Box<dyn Error + Send + Sync>,
    },
    /// The arguments of a client are not `stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL`, or its output is invalid.
    InvalidRequest,
    /// Not all servers were connected before the timeout.
    NotConnected {
        /// The number of connected servers.
        connected: usize,
        /// The number of configured servers.
        of: usize,
    },
    /// The arguments of the inner program are not `N -- COMMAND`.
    InvalidArguments,
    /// The arguments of a hot path are not `NAME TIMES`, or no hot path has this name.
    InvalidHotPath,
    /// The output of valgrind has no count.
    NotCounted {
        /// The hot path.
        name: &'static str,
        /// The standard error of valgrind.
        stderr: String,
    },
    /// The number of hot paths that cost more than the record allows, or whose counts differ between runs.
    InstructionsChanged(usize),
    /// The record of instructions does not match the existing hot paths.
    RecordMismatch {
        /// The hot paths that are missing from the record, or recorded but absent.
        names: String,
    },
    /// The benchmarks that failed.
    BenchmarksFailed(String),
    /// The system does not report the resource usage of processes.
    Usage(nix::Error),
    /// The program under test reports another configuration than the benchmark wrote.
    ConfigMismatch {
        /// The configuration that was written.
        expected: ConfigCounts,
        /// The configuration that the program reports.
        actual: ConfigCounts,
    },
    /// A program's list lacks a server that was configured for it.
    ServerNotListed {
        /// The program, and its arguments.
        label: &'static str,
        /// The server's name.
        server: String,
    },
}

impl Failure {
    /// A failure with this file.
    pub fn file(path: &Path, error: io::Error) -> Failure {
        Failure::File { path: path.to_owned(), error }
    }

    /// A failure of a client or server of the benchmark.
    pub fn client(name: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure::ClientFailed { name, error: error.into() }
    }

    /// Prints the failure to standard error.
    pub fn print(&self) {
        eprintln!("error: {self}");
        if let Failure::Failed { stderr, .. } | Failure::NotCounted { stderr, .. } = self {
            eprint!("{stderr}");
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            eprintln!("  caused by: {error}");
            cause = error.source();
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::UnknownArgument(word) => {
                write!(out, "no benchmark is called `{word}`; `cargo xtask bench help` lists them")
            }
            Failure::NotStartedByCargo => out
                .write_str("the repository is unknown; start this program as `cargo xtask bench`"),
            Failure::NoExecutable => out.write_str("cargo did not say where it put the program"),
            Failure::File { path, .. } => write!(out, "trouble with `{}`", path.display()),
            Failure::NotStarted { program, .. } => {
                write!(out, "could not start `{}`", program.display())
            }
            Failure::Failed { program, status, .. } => {
                write!(out, "`{}` failed ({status})", program.display())
            }
            Failure::InvalidJson(_) => out.write_str("an answer was not understood"),
            Failure::ClientFailed { name, .. } => write!(out, "`{name}` broke off"),
            Failure::InvalidRequest => {
                out.write_str("expected `stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL`")
            }
            Failure::NotConnected { connected, of } => {
                write!(out, "only {connected} of {of} servers were connected in time")
            }
            Failure::InvalidArguments => out.write_str("expected `N -- COMMAND…`"),
            Failure::InvalidHotPath => out.write_str("expected `NAME TIMES` of a hot path"),
            Failure::NotCounted { name, .. } => {
                write!(out, "valgrind did not say what it counted for `{name}`")
            }
            Failure::InstructionsChanged(count) => write!(
                out,
                "{count} hot paths are not as recorded; where that is meant, run `cargo xtask instructions --bless`"
            ),
            Failure::RecordMismatch { names } => write!(
                out,
                "the record and the hot paths differ in {names}; run `cargo xtask instructions --bless`"
            ),
            Failure::BenchmarksFailed(names) => write!(out, "could not be measured: {names}"),
            Failure::Usage(_) => out.write_str("could not ask what processes used"),
            Failure::ConfigMismatch { expected, actual } => {
                write!(out, "built {expected}, but swb sees {actual}")
            }
            Failure::ServerNotListed { label, server } => {
                write!(out, "{label} does not list `{server}`")
            }
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::File { error, .. } | Failure::NotStarted { error, .. } => Some(error),
            Failure::InvalidJson(error) => Some(error),
            Failure::Usage(error) => Some(error),
            Failure::ClientFailed { error, .. } => Some(error.as_ref()),
            Failure::UnknownArgument(_)
            | Failure::NotStartedByCargo
            | Failure::NoExecutable
            | Failure::Failed { .. }
            | Failure::InvalidRequest
            | Failure::NotConnected { .. }
            | Failure::InvalidArguments
            | Failure::InvalidHotPath
            | Failure::BenchmarksFailed(_)
            | Failure::NotCounted { .. }
            | Failure::InstructionsChanged(_)
            | Failure::RecordMismatch { .. }
            | Failure::ConfigMismatch { .. }
            | Failure::ServerNotListed { .. } => None,
        }
    }
}

/// The standard output of a command that must succeed.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let program = PathBuf::from(command.get_program());
    let output = command
        .output()
        .map_err(|error| Failure::NotStarted { program: program.clone(), error })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::Failed { program, status: output.status, stderr });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

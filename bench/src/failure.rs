//! What can stop a benchmark, and how it is printed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::config_counts::ConfigCounts;

/// Why nothing could be measured.
#[derive(Debug)]
pub enum Failure {
    /// No benchmark has this name.
    UnknownArgument(String),
    /// Nobody said where the repository is.
    NotStartedByCargo,
    /// Cargo built something, and did not say where.
    NoExecutable,
    /// A file could not be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A program could not be started.
    NotStarted {
        /// Which.
        program: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A program reported failure.
    Failed {
        /// Which.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to the error stream.
        stderr: String,
    },
    /// An answer is not the JSON that was expected.
    InvalidJson(serde_json::Error),
    /// A client or a server of ours broke off.
    ClientFailed {
        /// Which.
        name: &'static str,
        /// Why.
        error: Box<dyn Error + Send + Sync>,
    },
    /// A client was asked something else than `stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL`, or answered so.
    InvalidRequest,
    /// Servers were not connected in time.
    NotConnected {
        /// How many were.
        connected: usize,
        /// How many should be.
        of: usize,
    },
    /// The inner program was called with something else than `N -- COMMAND`.
    InvalidArguments,
    /// A hot path was asked for otherwise than as `NAME TIMES`, or there is none of that name.
    InvalidHotPath,
    /// Valgrind did not say what it counted.
    NotCounted {
        /// The hot path.
        name: &'static str,
        /// What it said instead.
        stderr: String,
    },
    /// So many hot paths cost more than the record allows, or do not cost the same twice.
    InstructionsChanged(usize),
    /// The record of instructions does not fit the hot paths that there are.
    RecordMismatch {
        /// The hot paths that it lacks, or has and should not.
        names: String,
    },
    /// These benchmarks came to no end.
    BenchmarksFailed(String),
    /// The system does not say what its processes used.
    Usage(nix::Error),
    /// The program under test does not see the configuration that was built for it.
    ConfigMismatch {
        /// What was built.
        expected: ConfigCounts,
        /// What the program sees.
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
    /// A failure of this file.
    pub fn file(path: &Path, error: io::Error) -> Failure {
        Failure::File { path: path.to_owned(), error }
    }

    /// A failure of a client or a server of ours.
    pub fn client(name: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure::ClientFailed { name, error: error.into() }
    }

    /// Tells the person.
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

/// What a command that ends well writes to its output stream.
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

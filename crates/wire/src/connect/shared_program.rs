//! A server whose program another process of the user runs for several clients. How that process is found and what it
//! is asked for is left to the implementation of [`SharedProgram`].

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::process::StartError;
use crate::protocol::era::Era;

/// A program that several clients may use.
pub trait SharedProgram: Send + Sync {
    /// Attaches to the program, which is started if it does not run.
    fn attach(&self) -> BoxFuture<'_, Result<Attachment, AttachError>>;
}

/// A stream of messages from and to a shared program. Dropping it detaches; the program goes on.
#[derive(Debug)]
pub struct Attachment {
    /// Messages of the server.
    pub reader: BufReader<OwnedReadHalf>,
    /// Messages to the server.
    pub writer: OwnedWriteHalf,
    /// The era that other clients agreed on with the server.
    pub era: Option<Era>,
    /// The process behind it.
    pub process: std::sync::Arc<dyn SharedProcess>,
}

/// A process that another process runs.
pub trait SharedProcess: fmt::Debug + Send + Sync {
    /// The process id, when the client attached.
    fn pid(&self) -> Option<u32>;

    /// How the process ended; `None` while it runs, and when nothing is known.
    fn exit(&self) -> BoxFuture<'_, Option<SharedExit>>;
}

/// How a shared program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedExit {
    /// The exit status, if the program exited by itself.
    pub status: Option<ExitStatus>,
    /// The end of its standard error output.
    pub stderr: Vec<u8>,
    /// The start of its first output that was not a message.
    pub malformed: Option<String>,
}

impl SharedExit {
    /// The exit status for the number that the system returned.
    pub fn status_from_raw(status: i32) -> ExitStatus {
        ExitStatus::from_raw(status)
    }
}

/// Why a client did not attach.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The program cannot be shared; the client may run one of its own.
    #[error("the server cannot be shared: {reason}")]
    NotShared {
        /// Why.
        reason: String,
        /// Whether the server itself is the reason, so that the next attempt fails as well.
        cause: NotSharedCause,
    },
}

/// What prevents sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSharedCause {
    /// The server belongs to one session.
    Server,
    /// The other process cannot be used at the moment.
    Host,
}

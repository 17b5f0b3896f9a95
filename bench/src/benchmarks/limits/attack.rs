//! The abusive client: opens sessions, connections or streams, or makes calls, as fast as it can, and ends after a time.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::authorization;
use crate::benchmarks::gateway::load::{Era, HttpClient};
use crate::failure::Failure;

/// The word that makes this program the abusive client: `KIND ADDRESS SECONDS`.
pub const SUBCOMMAND: &str = "__attack";
/// The name of the abusive client.
pub const CLIENT: &str = "abusive";

const CONNECTIONS: usize = 64;
const IDLE_CONNECTIONS: usize = 9_500;
/// The size of the results that are never read.
const UNREAD_BYTES: usize = 1_000_000;
/// The pause after an error, which keeps a refused client from only measuring the kernel.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(5);

/// What the abusive client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackKind {
    /// Opens sessions and never ends one.
    Sessions,
    /// Makes calls on many connections.
    Calls,
    /// Opens connections and sends nothing.
    IdleConnections,
    /// Makes calls with large results and reads none of them.
    UnreadResults,
}

impl AttackKind {
    /// All kinds, in the order of the table.
    pub const ALL: [AttackKind; 4] = [
        AttackKind::Sessions,
        AttackKind::Calls,
        AttackKind::IdleConnections,
        AttackKind::UnreadResults,
    ];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            AttackKind::Sessions => "sessions",
            AttackKind::Calls => "calls",
            AttackKind::IdleConnections => "idle-connections",
            AttackKind::UnreadResults => "unread-results",
        }
    }

    /// The words in the table.
    pub fn label(self) -> &'static str {
        match self {
            AttackKind::Sessions => "opens sessions without end, on 64 connections",
            AttackKind::Calls => "makes calls without a pause, on 64 connections",
            AttackKind::IdleConnections => "keeps 9,500 connections open without a token",
            AttackKind::UnreadResults => {
                "makes calls with 1 MB results and reads none, on 64 connections"
            }
        }
    }
}

/// Attacks a gateway for some seconds.
pub fn run(words: &[OsString]) -> Result<(), Failure> {
    let words: Vec<_> = words.iter().map(|it| it.to_string_lossy()).collect();
    let [kind, address, seconds] = words.as_slice() else {
        return Err(Failure::InvalidArguments);
    };
    let kind = AttackKind::ALL.into_iter().find(|it| it.name() == kind);
    let (Some(kind), Ok(seconds)) = (kind, seconds.parse()) else {
        return Err(Failure::InvalidArguments);
    };
    let fail = |error| Failure::client("attack", error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(fail)?;
    runtime.block_on(async {
        let _over = timeout(Duration::from_secs(seconds), attack(kind, address)).await;
    });
    Ok(())
}

async fn attack(kind: AttackKind, address: &str) {
    let count = match kind {
        AttackKind::IdleConnections => IDLE_CONNECTIONS,
        AttackKind::Sessions | AttackKind::Calls | AttackKind::UnreadResults => CONNECTIONS,
    };
    let mut connections = JoinSet::new();
    for _ in 0..count {
        let address = address.to_owned();
        connections.spawn(async move {
            loop {
                // Refused and closed connections are opened again.
                let _refused = abuse(kind, &address).await;
                sleep(PAUSE_AFTER_ERROR).await;
            }
        });
    }
    while connections.join_next().await.is_some() {}
}

/// Uses one connection until it is closed.
async fn abuse(kind: AttackKind, address: &str) -> io::Result<()> {
    if kind == AttackKind::IdleConnections {
        let host = address.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let stream = TcpStream::connect(host).await?;
        stream.readable().await?;
        return Ok(());
    }
    let mut client = HttpClient::connect(address, Era::Legacy, &authorization(CLIENT)).await?;
    match kind {
        AttackKind::Sessions | AttackKind::IdleConnections => loop {
            if client.initialize().await.is_err() {
                sleep(PAUSE_AFTER_ERROR).await;
            }
        },
        AttackKind::Calls => {
            client.initialize().await?;
            loop {
                client.call(super::RESULT_BYTES).await?;
            }
        }
        AttackKind::UnreadResults => {
            client.initialize().await?;
            loop {
                client.send_call(UNREAD_BYTES).await?;
            }
        }
    }
}

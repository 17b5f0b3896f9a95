//! The connection to the store. One task keeps it: while there is none, every operation fails at once instead of waiting,
//! because a request must not wait for a store that is away.

use std::time::Duration;

use ::redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::connection::Connection;
use super::target::StoreTarget;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an operation may take. The library's own limit for a single answer is shorter.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
/// The delay between attempts to connect.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// The capacity of the queue of reported failures. More say nothing new.
const FAILURE_CAPACITY: usize = 8;

/// A connection with its number, so that a late failure of an older one is not counted for it.
#[derive(Clone)]
struct Current {
    number: u64,
    connection: Connection,
}

/// The way to the store.
pub(super) struct Link {
    current: watch::Receiver<Option<Current>>,
    failures: mpsc::Sender<u64>,
}

impl Link {
    /// A link, and the future that keeps it connected until it is dropped.
    pub(super) fn new(target: StoreTarget) -> (Link, impl Future<Output = ()> + Send + 'static) {
        let (published, current) = watch::channel(None);
        let (failures, reported) = mpsc::channel(FAILURE_CAPACITY);
        (Link { current, failures }, keep_connected(target, published, reported))
    }

    /// Runs an operation. Without an error if the store is away; otherwise with the store's refusal.
    pub(super) async fn call<T>(
        &self,
        operation: impl AsyncFnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, Option<RedisError>> {
        let current = self.current.borrow().clone();
        let Some(Current { number, mut connection }) = current else { return Err(None) };
        let outcome = timeout(OPERATION_TIMEOUT, operation(&mut connection)).await;
        let error = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if is_refusal(&error) => return Err(Some(error)),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let kind = error.map(|it| it.kind());
        info!(?kind, "the connection to the store failed");
        let _reported_already = self.failures.try_send(number);
        Err(None)
    }
}

/// Does the store work, but refuse this command? All other failures end the connection: after a failover, for example, the
/// server that we reach may be read-only.
fn is_refusal(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Extension
            | ErrorKind::UnexpectedReturnType
            | ErrorKind::Client
            | ErrorKind::Server(
                ServerErrorKind::ResponseError
                    | ServerErrorKind::ExecAbort
                    | ServerErrorKind::NoScript
                    | ServerErrorKind::CrossSlot
                    | ServerErrorKind::NoPerm
                    | ServerErrorKind::NotBusy
                    | ServerErrorKind::NoSub
            )
    )
}

async fn keep_connected(
    mut target: StoreTarget,
    published: watch::Sender<Option<Current>>,
    mut failures: mpsc::Receiver<u64>,
) {
    let mut number = 0;
    let mut is_known_away = false;
    loop {
        let connecting = tokio::select! {
            connected = timeout(CONNECT_TIMEOUT, target.connect()) => connected,
            () = published.closed() => return,
        };
        match connecting {
            Ok(Ok(connection)) => {
                number += 1;
                info!(number, "connected to the store");
                is_known_away = false;
                let _link_gone = published.send(Some(Current { number, connection }));
                if !has_failed(number, &mut failures, &published).await {
                    return;
                }
                let _link_gone = published.send(None);
            }
            Ok(Err(error)) if !is_known_away => {
                is_known_away = true;
                warn!(kind = ?error.kind(), "the store cannot be reached");
            }
            Err(_) if !is_known_away => {
                is_known_away = true;
                warn!("the store cannot be reached: timeout");
            }
            Ok(Err(_)) | Err(_) => {}
        }
        tokio::select! {
            () = sleep(RETRY_DELAY) => {}
            () = published.closed() => return,
        }
    }
}

/// Waits until a connection has failed. Returns false if the link is gone.
async fn has_failed(
    number: u64,
    failures: &mut mpsc::Receiver<u64>,
    published: &watch::Sender<Option<Current>>,
) -> bool {
    loop {
        tokio::select! {
            failed = failures.recv() => match failed {
                Some(failed) if failed == number => return true,
                Some(_) => {}
                None => return false,
            },
            () = published.closed() => return false,
        }
    }
}

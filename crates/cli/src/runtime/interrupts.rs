//! The tokio runtime of one command, and the signals that interrupt it.

use crate::exit::Exit;
use crate::outcome::Failure;

/// A runtime with two worker threads.
pub fn tokio_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failure, "threads cannot be started").caused_by(error))
}

/// SIGINT, SIGTERM and SIGHUP (Ctrl-C on other platforms).
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: Option<[tokio::signal::unix::Signal; 3]>,
}

impl Interrupts {
    /// Starts listening. Must be called inside a runtime.
    pub fn listen() -> Interrupts {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let signals = match kinds.map(signal) {
                [Ok(interrupt), Ok(terminate), Ok(hangup)] => Some([interrupt, terminate, hangup]),
                [_, _, _] => None,
            };
            Interrupts { signals }
        }
        #[cfg(not(unix))]
        Interrupts {}
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        match &mut self.signals {
            Some([interrupt, terminate, hangup]) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
        #[cfg(not(unix))]
        let _cannot_be_heard = tokio::signal::ctrl_c().await;
    }
}

//! Forwards messages while a future runs, all of them before its output.

use std::future::Future;
use std::pin::pin;

use tokio::sync::mpsc;

/// Runs `work` and forwards messages meanwhile. Messages sent before `work` ended are forwarded before this returns.
pub(crate) async fn forward_until_done<T, O, F: Future<Output = ()>>(
    work: impl Future<Output = O>,
    mut messages: mpsc::Receiver<T>,
    forward: impl Fn(T) -> F,
) -> O {
    let mut work = pin!(work);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(message) = messages.recv() => forward(message).await,
            outcome = &mut work => break outcome,
        }
    };
    while let Ok(message) = messages.try_recv() {
        forward(message).await;
    }
    outcome
}

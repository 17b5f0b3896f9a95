//! Work during which something is said: all of it is told before the outcome, in order.

use std::future::Future;
use std::pin::pin;

use tokio::sync::mpsc;

/// Works, and tells what is heard meanwhile. What was said before the end is told before the outcome comes back.
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

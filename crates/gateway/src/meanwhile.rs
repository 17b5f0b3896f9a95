//! Work during which something is said: all of it is told before the outcome, in order.

use std::future::Future;
use std::pin::pin;

use tokio::sync::mpsc;

/// Works, and tells what is heard meanwhile. What was said before the end is told before the outcome comes back.
pub(crate) async fn forward_until_done<T, O, F: Future<Output = ()>>(
    work: impl Future<Output = O>,
    mut heard: mpsc::Receiver<T>,
    tell: impl Fn(T) -> F,
) -> O {
    let mut work = pin!(work);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(said) = heard.recv() => tell(said).await,
            outcome = &mut work => break outcome,
        }
    };
    while let Ok(said) = heard.try_recv() {
        tell(said).await;
    }
    outcome
}

//! The sessions that this replica takes over at the moment. Several requests for one session wait for the first of them.

use std::collections::HashMap;

use switchboard_wire::shared::Shared;
use tokio::sync::watch;

/// The sessions that are taken over. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Adoptions {
    /// Shared state: the first of several requests must be known to the others at once.
    running: Shared<HashMap<String, watch::Receiver<()>>>,
}

/// Whether a request takes a session over itself.
#[derive(Debug)]
pub(crate) enum Adoption {
    /// It does. Others wait until the guard is dropped.
    Begun(AdoptionGuard),
    /// Another request did meanwhile, or has failed to.
    Waited,
}

/// Held while a session is taken over.
#[derive(Debug)]
pub(crate) struct AdoptionGuard {
    adoptions: Adoptions,
    session: String,
    _others_wait: watch::Sender<()>,
}

impl Drop for AdoptionGuard {
    fn drop(&mut self) {
        self.adoptions.running.update(|running| running.remove(&self.session));
    }
}

/// Waits until a request has taken a session over, or has failed to.
async fn ended(mut running: watch::Receiver<()>) {
    let _dropped_at_the_end = running.changed().await;
}

impl Adoptions {
    /// Waits for the request that takes a session over, if there is one.
    pub(crate) async fn running(&self, session: &str) {
        if let Some(running) = self.running.read(|running| running.get(session).cloned()) {
            ended(running).await;
        }
    }

    /// Begins to take a session over, or waits for the request that does.
    pub(crate) async fn begin(&self, session: &str) -> Adoption {
        let (others_wait, waiting) = watch::channel(());
        let running = self.running.update(|running| match running.get(session) {
            Some(first) => Some(first.clone()),
            None => {
                running.insert(session.to_owned(), waiting);
                None
            }
        });
        match running {
            Some(first) => {
                ended(first).await;
                Adoption::Waited
            }
            None => Adoption::Begun(AdoptionGuard {
                adoptions: self.clone(),
                session: session.to_owned(),
                _others_wait: others_wait,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_of_another_replica_waits_for_a_takeover_of_its_session_only() {
        const SOON: Duration = Duration::from_secs(1);
        let adoptions = Adoptions::default();
        let Adoption::Begun(guard) = adoptions.begin("a").await else { panic!("it is the first") };
        timeout(SOON, adoptions.running("b")).await.expect("another session");
        let waiting = adoptions.running("a");
        tokio::pin!(waiting);
        assert!(timeout(SOON, &mut waiting).await.is_err(), "it is taken over");
        drop(guard);
        timeout(SOON, waiting).await.expect("it is here");
        timeout(SOON, adoptions.running("a")).await.expect("it is here");
    }
}

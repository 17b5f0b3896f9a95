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

impl Adoptions {
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
            Some(mut first) => {
                let _first_has_ended = first.changed().await;
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

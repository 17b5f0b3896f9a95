//! The sessions of legacy clients: which there are, whose they are, and the tasks that own them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::legacy_session::{Session, SessionTask};
use super::told;
use crate::guest::Guest;
use crate::relay::Relay;

/// How many sessions there may be at once, of all and of one principal.
const MOST: usize = 100_000;
/// How many new ones may wait to be taken up.
const NEW: usize = 64;

/// The sessions. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lobby {
    sessions: watch::Sender<HashMap<String, Arc<Session>>>,
    new: mpsc::Sender<SessionTask>,
    relay: Arc<Relay>,
    idle: Duration,
    ending: watch::Receiver<bool>,
}

impl Lobby {
    /// A lobby without sessions, and the work of keeping it, which ends when all ends.
    pub(super) fn new(
        relay: Arc<Relay>,
        idle: Duration,
        ending: watch::Receiver<bool>,
    ) -> (Lobby, impl Future<Output = ()> + Send + 'static) {
        let (new, from_clients) = mpsc::channel(NEW);
        let sessions = watch::Sender::default();
        let lobby = Lobby { sessions, new, relay, idle, ending: ending.clone() };
        let keeping = keep(lobby.sessions.clone(), lobby.relay.clone(), from_clients, ending);
        (lobby, keeping)
    }

    /// A new session. None where there are too many.
    pub(super) async fn open(&self, guest: Arc<Guest>, version: &str) -> Option<Arc<Session>> {
        if self.sessions.borrow().len() >= MOST {
            return None;
        }
        let id = name();
        guest.be_in_session(&id);
        let (session, task) = SessionTask::new(
            id.clone(),
            guest,
            version,
            (self.relay.clone(), self.idle, self.ending.clone()),
        );
        self.sessions.send_modify(|sessions| {
            sessions.insert(id, session.clone());
        });
        self.relay.meters.sessions.fetch_add(1, Ordering::Relaxed);
        self.new.send(task).await.ok()?;
        Some(session)
    }

    /// The session of that name, where it is this principal's.
    pub(super) fn find(&self, id: &str, principal: &str) -> Option<Arc<Session>> {
        let session = self.sessions.borrow().get(id).cloned()?;
        (*session.guest.principal == *principal).then_some(session)
    }

    /// Ends a session: from now on nobody finds it.
    pub(super) fn close(&self, session: &Session) {
        self.sessions.send_modify(|sessions| {
            sessions.remove(&session.id);
        });
        session.end();
    }
}

async fn keep(
    sessions: watch::Sender<HashMap<String, Arc<Session>>>,
    relay: Arc<Relay>,
    mut new: mpsc::Receiver<SessionTask>,
    mut ending: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            Some(task) = new.recv() => {
                tasks.spawn(task.run());
            }
            Some(over) = tasks.join_next() => {
                relay.meters.sessions.fetch_sub(1, Ordering::Relaxed);
                if let Ok(id) = over {
                    sessions.send_modify(|it| drop(it.remove(&id)));
                }
            }
            () = told(&mut ending) => break,
        }
    }
    // Those that are being used end with their connections.
    new.close();
    while let Some(task) = new.recv().await {
        tasks.spawn(task.run());
    }
    while tasks.join_next().await.is_some() {}
}

/// A name that nobody can guess.
fn name() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

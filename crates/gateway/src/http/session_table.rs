//! The sessions of legacy clients: which there are, whose they are, and the tasks that own them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::server::wait_until_true;
use super::session::{Session, SessionTask};
use crate::downstream::client::Client;
use crate::relay::Relay;

/// How many sessions there may be at once, of all and of one principal.
const MAX_SESSIONS: usize = 100_000;
/// How many new ones may wait to be taken up.
const NEW_TASK_CAPACITY: usize = 64;

/// The sessions. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SessionTable {
    sessions: watch::Sender<HashMap<String, Arc<Session>>>,
    new_tasks: mpsc::Sender<SessionTask>,
    relay: Arc<Relay>,
    idle_timeout: Duration,
    shutdown: watch::Receiver<bool>,
}

impl SessionTable {
    /// A lobby without sessions, and the work of keeping it, which ends when all ends.
    pub(crate) fn new(
        relay: Arc<Relay>,
        idle_timeout: Duration,
        shutdown: watch::Receiver<bool>,
    ) -> (SessionTable, impl Future<Output = ()> + Send + 'static) {
        let (new, receiver) = mpsc::channel(NEW_TASK_CAPACITY);
        let sessions = watch::Sender::default();
        let table = SessionTable {
            sessions,
            new_tasks: new,
            relay,
            idle_timeout,
            shutdown: shutdown.clone(),
        };
        let running = run_sessions(table.sessions.clone(), table.relay.clone(), receiver, shutdown);
        (table, running)
    }

    /// A new session. None where there are too many.
    pub(crate) async fn open(&self, client: Arc<Client>, version: &str) -> Option<Arc<Session>> {
        if self.sessions.borrow().len() >= MAX_SESSIONS {
            return None;
        }
        let id = random_session_id();
        client.set_session_id(&id);
        let (session, task) = SessionTask::new(
            id.clone(),
            client,
            version,
            (self.relay.clone(), self.idle_timeout, self.shutdown.clone()),
        );
        self.sessions.send_modify(|sessions| {
            sessions.insert(id, session.clone());
        });
        self.relay.metrics.sessions.fetch_add(1, Ordering::Relaxed);
        self.new_tasks.send(task).await.ok()?;
        Some(session)
    }

    /// The session of that name, where it is this principal's.
    pub(crate) fn get(&self, id: &str, principal: &str) -> Option<Arc<Session>> {
        let session = self.sessions.borrow().get(id).cloned()?;
        (*session.client.principal == *principal).then_some(session)
    }

    /// Ends a session: from now on nobody finds it.
    pub(crate) fn close(&self, session: &Session) {
        self.sessions.send_modify(|sessions| {
            sessions.remove(&session.id);
        });
        session.close();
    }
}

async fn run_sessions(
    sessions: watch::Sender<HashMap<String, Arc<Session>>>,
    relay: Arc<Relay>,
    mut new: mpsc::Receiver<SessionTask>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            Some(task) = new.recv() => {
                tasks.spawn(task.run());
            }
            Some(over) = tasks.join_next() => {
                relay.metrics.sessions.fetch_sub(1, Ordering::Relaxed);
                if let Ok(id) = over {
                    sessions.send_modify(|it| drop(it.remove(&id)));
                }
            }
            () = wait_until_true(&mut shutdown) => break,
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
fn random_session_id() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

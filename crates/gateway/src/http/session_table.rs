//! The sessions of legacy clients, by id, and the tasks that run them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::downstream::client::Client;
use crate::http::session::{Session, SessionTask};
use crate::http::shutdown::wait_until_true;
use crate::relay::Relay;

/// The largest number of sessions.
const MAX_SESSIONS: usize = 100_000;
/// The capacity of the queue of new session tasks.
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
    /// An empty table, and the future that runs its sessions until shutdown.
    pub(crate) fn new(
        relay: Arc<Relay>,
        idle_timeout: Duration,
        shutdown: watch::Receiver<bool>,
    ) -> (SessionTable, impl Future<Output = ()> + Send + 'static) {
        let (new_tasks, receiver) = mpsc::channel(NEW_TASK_CAPACITY);
        let table = SessionTable {
            sessions: watch::Sender::default(),
            new_tasks,
            relay,
            idle_timeout,
            shutdown: shutdown.clone(),
        };
        let running = run_sessions(table.sessions.clone(), table.relay.clone(), receiver, shutdown);
        (table, running)
    }

    /// Opens a session. None if there are too many.
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

    /// The session with this id, if it belongs to the principal.
    pub(crate) fn get(&self, id: &str, principal: &str) -> Option<Arc<Session>> {
        let session = self.sessions.borrow().get(id).cloned()?;
        (*session.client.principal == *principal).then_some(session)
    }

    /// Removes a session and ends its task.
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
    mut new_tasks: mpsc::Receiver<SessionTask>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            Some(task) = new_tasks.recv() => {
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
    // Sessions in use end with their connections.
    new_tasks.close();
    while let Some(task) = new_tasks.recv().await {
        tasks.spawn(task.run());
    }
    while tasks.join_next().await.is_some() {}
}

/// An id that cannot be guessed: 128 random bits.
fn random_session_id() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

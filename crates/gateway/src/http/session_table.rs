//! The sessions of legacy clients, by id, and the tasks that run them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aws_lc_rs::rand;
use switchboard_auth::resource_server::Credential;
use switchboard_wire::shared::Shared;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tracing::info;

use crate::downstream::client::Client;
use crate::http::limits::accounts::{Accounts, ReplayBudget};
use crate::http::limits::client_account::{ClientAccount, ClientReservation};
use crate::http::revocation::Revocations;
use crate::http::session::{Session, SessionTask, SessionTimeouts};
use crate::http::shutdown::wait_until_true;
use crate::relay::Relay;
use crate::shared::session_log::{RestoredSession, SessionLog};

/// The capacity of the queue of new session tasks.
const NEW_TASK_CAPACITY: usize = 64;

/// How a session begins.
#[derive(Debug)]
pub(crate) enum SessionStart {
    /// It lives on this replica only, under this id.
    Local(String),
    /// It is in the store under this id.
    Logged(String, SessionLog),
    /// Another replica has left it.
    TakenOver(String, SessionLog, Box<RestoredSession>),
}

impl SessionStart {
    /// A new session that lives here only.
    pub(crate) fn new() -> SessionStart {
        SessionStart::Local(random_session_id())
    }
}

/// The sessions by id. Shared state: every request of a legacy client looks its session up.
type Sessions = Shared<HashMap<String, Arc<Session>>>;

/// The sessions. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SessionTable {
    sessions: Sessions,
    new_tasks: mpsc::Sender<SessionTask>,
    relay: Arc<Relay>,
    accounts: Accounts,
    timeouts: SessionTimeouts,
    revocations: Revocations,
    shutdown: watch::Receiver<bool>,
}

impl SessionTable {
    /// An empty table, and the future that runs its sessions until shutdown.
    pub(crate) fn new(
        (relay, revocations): (Arc<Relay>, Revocations),
        accounts: Accounts,
        timeouts: SessionTimeouts,
        shutdown: watch::Receiver<bool>,
    ) -> (SessionTable, impl Future<Output = ()> + Send + 'static) {
        let (new_tasks, receiver) = mpsc::channel(NEW_TASK_CAPACITY);
        let table = SessionTable {
            sessions: Sessions::default(),
            new_tasks,
            relay,
            accounts,
            timeouts,
            revocations,
            shutdown: shutdown.clone(),
        };
        let running = run_sessions(table.sessions.clone(), table.relay.clone(), receiver, shutdown);
        (table, running)
    }

    /// Opens a session, which holds its slot until its task has ended. None at shutdown.
    pub(crate) async fn open(
        &self,
        (client, credential): (Arc<Client>, Credential),
        version: &str,
        (account, session_slot): (ClientAccount, ClientReservation),
        start: SessionStart,
    ) -> Option<Arc<Session>> {
        let (id, log) = match start {
            SessionStart::Local(id) => (id, None),
            SessionStart::Logged(id, log) => (id, Some((log, None))),
            SessionStart::TakenOver(id, log, restored) => (id, Some((log, Some(*restored)))),
        };
        client.set_session_id(&id);
        let (session, task) = SessionTask::new(
            (id.clone(), version),
            (client, account.clone(), credential),
            (ReplayBudget::new(self.accounts.clone(), account.own), session_slot),
            (self.relay.clone(), self.revocations.clone()),
            (self.timeouts, self.shutdown.clone()),
        );
        let task = match log {
            Some((log, restored)) => task.with_log(log, restored),
            None => task,
        };
        // The slot comes first: once the session is in the table, its task starts for sure.
        let slot = self.new_tasks.reserve().await.ok()?;
        self.sessions.update(|sessions| sessions.insert(id, session.clone()));
        self.relay.metrics.sessions.fetch_add(1, Ordering::Relaxed);
        let (principal, digest) = (&*session.client.principal, session.client.session_digest());
        info!(principal, session = digest, version, "session opened");
        slot.send(task);
        Some(session)
    }

    /// The session with this id, if it belongs to the principal.
    pub(crate) fn get(&self, id: &str, principal: &str) -> Option<Arc<Session>> {
        let session = self.sessions.read(|sessions| sessions.get(id).cloned())?;
        (*session.client.principal == *principal).then_some(session)
    }

    /// All sessions, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<Arc<Session>> =
            self.sessions.read(|sessions| sessions.values().cloned().collect());
        all.sort_by_key(|it| it.client.id);
        all
    }

    /// Removes a session and ends its task.
    pub(crate) fn close(&self, session: &Arc<Session>) {
        remove(&self.sessions, session);
        session.close();
    }
}

/// Removes a session, and not a later one with its id.
fn remove(sessions: &Sessions, session: &Arc<Session>) {
    sessions.update(|sessions| {
        if sessions.get(&session.id).is_some_and(|it| Arc::ptr_eq(it, session)) {
            sessions.remove(&session.id);
        }
    });
}

/// Runs a session. It is in the table for as long as it takes requests: a later request finds its next owner.
async fn run_session(task: SessionTask, sessions: Sessions) {
    let session = task.session().clone();
    let ended = task.run().await;
    remove(&sessions, &session);
    ended.finish().await;
}

async fn run_sessions(
    sessions: Sessions,
    relay: Arc<Relay>,
    mut new_tasks: mpsc::Receiver<SessionTask>,
    mut shutdown: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    // A task that panicked cannot say which session it ran.
    let mut by_task: HashMap<Id, Arc<Session>> = HashMap::new();
    loop {
        tokio::select! {
            Some(task) = new_tasks.recv() => {
                let session = task.session().clone();
                by_task.insert(tasks.spawn(run_session(task, sessions.clone())).id(), session);
            }
            Some(over) = tasks.join_next_with_id() => {
                relay.metrics.sessions.fetch_sub(1, Ordering::Relaxed);
                let task_id = over.map_or_else(|panicked| panicked.id(), |(id, ())| id);
                if let Some(session) = by_task.remove(&task_id) {
                    remove(&sessions, &session);
                }
            }
            () = wait_until_true(&mut shutdown) => break,
        }
    }
    // Sessions in use end with their connections.
    new_tasks.close();
    while let Some(task) = new_tasks.recv().await {
        tasks.spawn(run_session(task, sessions.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

/// An id that cannot be guessed: 128 random bits.
pub(crate) fn random_session_id() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

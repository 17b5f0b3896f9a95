//! The handle of the engine: commands for its actor, and the snapshots that it publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::permission::PermissionRules;
use tokio::sync::{mpsc, oneshot, watch};

use crate::connection::dedicated::DedicatedConnection;
use crate::connection::handle::ConnectionHandle;
use crate::engine::changes::Changes;
use crate::engine::snapshot::Snapshot;
use crate::login::pending::LoginProgress;
use crate::sources::desired_server::DesiredServer;

/// A command for the engine.
#[derive(Debug)]
pub(super) enum EngineCommand {
    /// Make these the servers that run.
    Apply { servers: Vec<DesiredServer>, reply: oneshot::Sender<Changes> },
    /// Make this the server of the connected IDE, beside the servers of the configuration.
    SetIde { server: Option<Box<DesiredServer>>, done: oneshot::Sender<()> },
    /// Make these the rules that hide tools.
    SetRules { rules: Arc<PermissionRules>, done: oneshot::Sender<()> },
    /// Open a dedicated connection.
    OpenDedicated {
        server: String,
        dedicated: DedicatedConnection,
        reply: oneshot::Sender<Option<ConnectionHandle>>,
    },
    /// Close the dedicated connections with a key.
    CloseDedicated { key: String },
    /// Start a login, or pass a pasted text to the one under way.
    Login { server: String, pasted: Option<String>, reply: oneshot::Sender<LoginProgress> },
    /// Stop all servers and the engine.
    Shutdown { done: oneshot::Sender<()> },
}

/// A handle of the engine. The engine stops when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct EngineHandle {
    commands: mpsc::Sender<EngineCommand>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

impl EngineHandle {
    pub(super) fn new(
        commands: mpsc::Sender<EngineCommand>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
    ) -> EngineHandle {
        EngineHandle { commands, snapshots }
    }

    /// Makes these the servers that run. Servers with an unchanged definition run on.
    pub(crate) async fn apply(&self, servers: Vec<DesiredServer>) -> Changes {
        let (reply, applied) = oneshot::channel();
        match self.commands.send(EngineCommand::Apply { servers, reply }).await {
            Ok(()) => applied.await.unwrap_or_default(),
            Err(_) => Changes::default(),
        }
    }

    /// Makes this the server of the connected IDE.
    pub(crate) async fn set_ide(&self, server: Option<DesiredServer>) {
        let (done, set) = oneshot::channel();
        let command = EngineCommand::SetIde { server: server.map(Box::new), done };
        if self.commands.send(command).await.is_ok() {
            let _engine_gone = set.await;
        }
    }

    /// Makes these the rules that hide tools.
    pub(crate) async fn set_rules(&self, rules: PermissionRules) {
        let (done, set) = oneshot::channel();
        let command = EngineCommand::SetRules { rules: Arc::new(rules), done };
        if self.commands.send(command).await.is_ok() {
            let _engine_gone = set.await;
        }
    }

    /// Starts a login at a server, or returns the one under way; `None` where there is no such server.
    pub(crate) async fn begin_login(&self, server: &str) -> Option<LoginProgress> {
        self.login_progress(server, None).await
    }

    /// Passes a pasted text to the login at a server; `None` where no login waits.
    pub(crate) async fn submit_to_login(
        &self,
        server: &str,
        pasted: String,
    ) -> Option<LoginProgress> {
        self.login_progress(server, Some(pasted)).await
    }

    async fn login_progress(&self, server: &str, pasted: Option<String>) -> Option<LoginProgress> {
        let (reply, progress) = oneshot::channel();
        let command = EngineCommand::Login { server: server.to_owned(), pasted, reply };
        self.commands.send(command).await.ok()?;
        progress.await.ok()
    }

    /// The current snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// The current and all later snapshots.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// The shared connections, by server.
    pub(crate) fn connections(&self) -> Arc<BTreeMap<String, ConnectionHandle>> {
        self.snapshots.borrow().connections.clone()
    }

    /// The shared connection of a server.
    pub(crate) fn connection(&self, server: &str) -> Option<ConnectionHandle> {
        self.connections().get(server).cloned()
    }

    /// The dedicated connection, opened now where there is none, or the shared one.
    pub(crate) async fn connection_for(
        &self,
        server: &str,
        dedicated: Option<&DedicatedConnection>,
    ) -> Option<ConnectionHandle> {
        let Some(dedicated) = dedicated else { return self.connection(server) };
        let key = (server.to_owned(), dedicated.key.clone());
        if let Some(handle) = self.snapshots.borrow().dedicated.get(&key) {
            return Some(handle.clone());
        }
        let (reply, opened) = oneshot::channel();
        let (server, dedicated) = (server.to_owned(), dedicated.clone());
        let command = EngineCommand::OpenDedicated { server, dedicated, reply };
        self.commands.send(command).await.ok()?;
        opened.await.ok()?
    }

    /// Closes the dedicated connections with a key.
    pub(crate) async fn close_dedicated(&self, key: &str) {
        let command = EngineCommand::CloseDedicated { key: key.to_owned() };
        let _engine_gone = self.commands.send(command).await;
    }

    /// Stops all servers. Returns when their processes have ended.
    pub(crate) async fn shutdown(&self) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(EngineCommand::Shutdown { done }).await.is_ok() {
            let _engine_gone = stopped.await;
        }
    }
}

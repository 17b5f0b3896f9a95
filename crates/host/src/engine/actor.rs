//! The actor of the engine: starts and stops connections, collects their views and publishes snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::entry::server::{Fingerprint, ProgramBinding, ToolFilter, TransportKind};
use switchboard_config::permission::PermissionRules;
use switchboard_wire::process::SetDescendants;
use switchboard_wire::process::child::DescendantSearch;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;
use tracing::{debug, info, warn};

use crate::connection::actor;
use crate::connection::actor::ConnectionOptions;
use crate::connection::context::ConnectionContext;
use crate::connection::dedicated::{DedicatedConnection, DedicatedConnections};
use crate::connection::handle::{ClosingConnection, ConnectionHandle};
use crate::connection::status::ServerView;
use crate::engine::changes::Changes;
use crate::engine::handle::{EngineCommand, EngineHandle};
use crate::engine::snapshot::Snapshot;
use crate::login::pending::{LoginProgress, LoginTarget, PendingLogins};
use crate::sources::desired_server::DesiredServer;

/// The capacity of the queues of commands and of views.
const QUEUE_CAPACITY: usize = 256;
/// How often idle dedicated connections are looked for.
const DEDICATED_SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Makes an engine without servers.
pub(crate) fn new(context: Arc<ConnectionContext>) -> (EngineHandle, Engine) {
    let (command_sender, commands) = mpsc::channel(QUEUE_CAPACITY);
    let (report_sender, reports) = mpsc::channel(QUEUE_CAPACITY);
    let (snapshot_sender, snapshots) = watch::channel(Arc::new(Snapshot::default()));
    let engine = Engine {
        context,
        commands,
        reports,
        report_sender,
        snapshots: snapshot_sender,
        servers: BTreeMap::new(),
        configured: Vec::new(),
        ide: None,
        closing_tasks: JoinSet::new(),
        workers: JoinSet::new(),
        rules: Arc::default(),
        closing: BTreeMap::new(),
        dedicated: DedicatedConnections::default(),
        pending_logins: PendingLogins::default(),
    };
    (EngineHandle::new(command_sender, snapshots), engine)
}

/// The engine. It does nothing before [`Engine::spawn`].
pub(crate) struct Engine {
    context: Arc<ConnectionContext>,
    commands: mpsc::Receiver<EngineCommand>,
    reports: mpsc::Receiver<Arc<ServerView>>,
    report_sender: mpsc::Sender<Arc<ServerView>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    servers: BTreeMap<String, ManagedServer>,
    /// The servers of the configuration.
    configured: Vec<DesiredServer>,
    /// The server of the connected IDE.
    ide: Option<DesiredServer>,
    closing_tasks: JoinSet<()>,
    /// Tasks that follow the snapshots. They are aborted at shutdown.
    workers: JoinSet<()>,
    rules: Arc<PermissionRules>,
    /// Connections that are being closed. A successor waits for them, because two processes at once might compete for
    /// a file or a port.
    closing: BTreeMap<String, ClosingConnection>,
    dedicated: DedicatedConnections,
    pending_logins: PendingLogins,
}

struct ManagedServer {
    fingerprint: Fingerprint,
    program: ProgramBinding,
    handle: ConnectionHandle,
    task: JoinHandle<()>,
    view: Arc<ServerView>,
    tool_filter: ToolFilter,
}

/// Whether connections were added or removed since the last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionSet {
    Unchanged,
    Changed,
}

impl Engine {
    /// Starts the engine. `workers` end with it.
    pub(crate) fn spawn(mut self, workers: JoinSet<()>) -> JoinHandle<()> {
        self.workers = workers;
        tokio::spawn(self.run())
    }

    async fn run(mut self) {
        let mut sweep = interval(DEDICATED_SWEEP_INTERVAL);
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(EngineCommand::Shutdown { done }) => {
                        self.shut_down().await;
                        let _caller_gone = done.send(());
                        return;
                    }
                    Some(command) => self.run_command(command),
                    None => return self.shut_down().await,
                },
                Some(view) = self.reports.recv() => {
                    self.update_view(view);
                    while let Ok(view) = self.reports.try_recv() {
                        self.update_view(view);
                    }
                    self.publish(ConnectionSet::Unchanged);
                }
                Some(_) = self.closing_tasks.join_next() => {
                    self.closing.retain(|_, it| !it.is_closed());
                }
                Some(()) = self.pending_logins.next_finished() => {}
                _ = sweep.tick() => if self.dedicated.close_idle(&mut self.closing_tasks) {
                    self.publish(ConnectionSet::Changed);
                },
            }
        }
    }

    fn run_command(&mut self, command: EngineCommand) {
        match command {
            EngineCommand::Apply { servers, reply } => {
                self.configured = servers;
                let changes = self.apply();
                let _caller_gone = reply.send(changes);
            }
            EngineCommand::SetIde { server, done } => {
                self.ide = server.map(|it| *it);
                self.apply();
                let _caller_gone = done.send(());
            }
            EngineCommand::SetRules { rules, done } => {
                debug!(rules = rules.entries().len(), "permission rules replaced");
                self.rules = rules;
                self.publish(ConnectionSet::Unchanged);
                let _caller_gone = done.send(());
            }
            EngineCommand::OpenDedicated { server, dedicated, reply } => {
                let _caller_gone = reply.send(self.open_dedicated(&server, dedicated));
            }
            EngineCommand::CloseDedicated { key } => {
                if self.dedicated.close_key(&key, &mut self.closing_tasks) {
                    self.publish(ConnectionSet::Changed);
                }
            }
            EngineCommand::Login { server, pasted, reply } => {
                if let Some(progress) = self.login(&server, pasted) {
                    let _caller_gone = reply.send(progress);
                }
            }
            // `run` handles it before it gets here.
            EngineCommand::Shutdown { .. } => {}
        }
    }

    fn open_dedicated(
        &mut self,
        server: &str,
        dedicated: DedicatedConnection,
    ) -> Option<ConnectionHandle> {
        let main = &self.servers.get(server)?.handle;
        let connect = (&self.context, &self.report_sender);
        let handle = self.dedicated.open(main, dedicated, connect, &mut self.closing_tasks);
        self.publish(ConnectionSet::Changed);
        handle
    }

    fn login(&mut self, server: &str, pasted: Option<String>) -> Option<LoginProgress> {
        let handle = &self.servers.get(server)?.handle;
        match pasted {
            None => {
                let target = LoginTarget {
                    desired: handle.desired().clone(),
                    login_slot: handle.login_slot().clone(),
                    context: self.context.login.clone(),
                };
                let handle = handle.clone();
                let reconnect = async move { handle.reconnect().await };
                Some(self.pending_logins.begin(target, reconnect))
            }
            Some(text) => self.pending_logins.submit(server, text),
        }
    }

    /// Takes the current view of a server. A late report of a connection that was replaced has no effect.
    fn update_view(&mut self, view: Arc<ServerView>) {
        if let Some(managed) = self.servers.get_mut(&view.name) {
            managed.view = managed.handle.view();
        }
    }

    fn apply(&mut self) -> Changes {
        // A server of the configuration with the same name has precedence.
        let desired = self.ide.iter().chain(&self.configured).cloned();
        let mut desired: BTreeMap<String, DesiredServer> =
            desired.map(|it| (it.name().to_owned(), it)).collect();
        for (name, server) in &self.context.embedded {
            let Some(server) = server.desired(name) else { continue };
            if desired.insert(name.clone(), server).is_some() {
                warn!(server = name, "a configured server has the name of an embedded one");
            }
        }
        let mut changes = Changes::default();
        let current: Vec<String> = self.servers.keys().cloned().collect();
        for name in current {
            let is_same = |new: &DesiredServer| {
                self.servers.get(&name).is_some_and(|it| {
                    it.fingerprint == new.fingerprint
                        && it.program == new.spec.program
                        && it.handle.desired().plugin == new.plugin
                })
            };
            match desired.get(&name) {
                Some(new) if is_same(new) => {
                    desired.remove(&name);
                    changes.kept.push(name);
                }
                Some(_) => {
                    self.stop_server(&name);
                    changes.restarted.push(name);
                }
                None => {
                    self.stop_server(&name);
                    changes.stopped.push(name);
                }
            }
        }
        for (name, new) in desired {
            self.start_server(new);
            if changes.restarted.binary_search(&name).is_err() {
                changes.started.push(name);
            }
        }
        info!(
            started = changes.started.join(","),
            restarted = changes.restarted.join(","),
            stopped = changes.stopped.join(","),
            kept = changes.kept.len(),
            "servers applied"
        );
        self.publish(ConnectionSet::Changed);
        changes.without(|name| self.context.embedded.contains_key(name))
    }

    fn start_server(&mut self, desired: DesiredServer) {
        let name = desired.name().to_owned();
        let (fingerprint, program) = (desired.fingerprint.clone(), desired.spec.program.clone());
        let tool_filter = desired.spec.common.tools.clone();
        let options = ConnectionOptions {
            predecessor: self.closing.get(&name).cloned(),
            client_capabilities: None,
            default_handler: None,
        };
        let (context, reports) = (self.context.clone(), self.report_sender.clone());
        let (handle, task) = actor::spawn(desired, context, reports, options);
        let view = handle.view();
        let managed = ManagedServer { fingerprint, program, handle, task, view, tool_filter };
        self.servers.insert(name, managed);
    }

    fn stop_server(&mut self, name: &str) {
        let Some(managed) = self.servers.remove(name) else { return };
        self.pending_logins.cancel(name);
        self.dedicated.close_server(name, &mut self.closing_tasks);
        self.closing.insert(name.to_owned(), managed.handle.closing());
        self.closing_tasks.spawn(async move {
            managed.handle.stop(DescendantSearch::Now).await;
            let _panicked = managed.task.await;
        });
    }

    fn publish(&mut self, connections: ConnectionSet) {
        let (managed, rules, dedicated) = (&self.servers, &self.rules, &self.dedicated);
        let is_embedded = |name: &str| self.context.embedded.contains_key(name);
        self.snapshots.send_modify(|snapshot| {
            let (connections, tool_filters, dedicated) = match connections {
                ConnectionSet::Unchanged => (
                    snapshot.connections.clone(),
                    snapshot.tool_filters.clone(),
                    snapshot.dedicated.clone(),
                ),
                ConnectionSet::Changed => (
                    Arc::new(
                        managed.iter().map(|(k, it)| (k.clone(), it.handle.clone())).collect(),
                    ),
                    Arc::new(
                        managed.iter().map(|(k, it)| (k.clone(), it.tool_filter.clone())).collect(),
                    ),
                    Arc::new(dedicated.handles()),
                ),
            };
            let views = managed.iter().map(|(name, it)| (name.clone(), it.view.clone()));
            let (embedded, servers) = views.partition(|(name, _)| is_embedded(name));
            let (revision, rules) = (snapshot.revision + 1, rules.clone());
            *snapshot = Arc::new(Snapshot {
                revision,
                servers,
                embedded,
                connections,
                dedicated,
                tool_filters,
                rules,
            });
        });
    }

    /// Stops all servers at once, then looks once for descendants that left their process groups.
    async fn shut_down(&mut self) {
        self.pending_logins.shut_down().await;
        let mut had_processes = false;
        let process_set = self.context.descendants;
        // Before the first program stops: its descendants lose their links to it.
        let finding = move || SetDescendants::find(process_set);
        let descendants = tokio::task::spawn_blocking(finding).await;
        self.dedicated.close_all(&mut self.closing_tasks);
        for managed in std::mem::take(&mut self.servers).into_values() {
            had_processes |= managed.view.transport == TransportKind::Stdio;
            self.closing_tasks.spawn(async move {
                managed.handle.stop(DescendantSearch::Deferred).await;
                let _panicked = managed.task.await;
            });
        }
        loop {
            tokio::select! {
                ended = self.closing_tasks.join_next() => if ended.is_none() { break },
                // Connections that are being closed still report, and must not block on a full queue.
                _ = self.reports.recv() => {}
            }
        }
        if let (true, Ok(descendants)) = (had_processes, descendants) {
            let _panicked = tokio::task::spawn_blocking(move || descendants.kill()).await;
        }
        self.publish(ConnectionSet::Changed);
        self.workers.shutdown().await;
        self.context.stderr_log.flush().await;
        if let Some(Some(account)) = self.context.account_token.get() {
            account.close().await;
        }
        self.context.state_writer.flush().await;
    }
}

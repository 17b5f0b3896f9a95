//! The handle of a connection: commands for its actor, and the view that the actor publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::process::child::DescendantSearch;
use tokio::sync::{mpsc, oneshot, watch};

use crate::connection::resource_subscriptions::ResourceActivity;
use crate::connection::status::{ActiveConnection, ServerView, Status};
use crate::login::method::LoginMethod;
use crate::login::server_login::LoginSlot;
use crate::sources::desired_server::DesiredServer;

/// A command for a connection's actor.
#[derive(Debug)]
pub(super) enum ConnectionCommand {
    /// Connect, because a caller wants to use the connection.
    Connect,
    /// Close the connection and open it again.
    Reconnect,
    /// Take note of a failed call.
    CallFailed { generation: u64, error: CallError },
    /// Subscribe to a resource. The reply is `None` where there are too many subscriptions.
    Subscribe { uri: String, reply: oneshot::Sender<Option<watch::Receiver<ResourceActivity>>> },
    /// Drop the subscriptions without receivers. The sender is dropped when the server has been told.
    Unsubscribe { done: Option<oneshot::Sender<()>> },
    /// Fetch all lists again, because they may have changed.
    RefreshLists,
    /// Publish a view, because something changed that it depends on.
    Publish,
    /// Close the connection for good.
    Stop { search: DescendantSearch, done: oneshot::Sender<()> },
}

/// A handle of a connection's actor. The actor ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle {
    commands: mpsc::Sender<ConnectionCommand>,
    view: watch::Receiver<Arc<ServerView>>,
    desired: Arc<DesiredServer>,
    login_slot: LoginSlot,
    use_count: Arc<UseCount>,
}

/// How many uses of a connection began, and how many are under way.
#[derive(Debug, Default)]
pub(super) struct UseCount {
    total: AtomicU64,
    current: AtomicU64,
}

impl UseCount {
    /// Whether a use is under way.
    pub(super) fn is_in_use(&self) -> bool {
        self.current.load(Ordering::Relaxed) > 0
    }
}

/// A use of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionUse(Arc<UseCount>);

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that is being closed.
#[derive(Debug, Clone)]
pub(crate) struct ClosingConnection(watch::Receiver<Arc<ServerView>>);

impl ClosingConnection {
    /// Whether the actor has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits until the actor has ended.
    pub(super) async fn closed(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl ConnectionHandle {
    pub(super) fn new(
        commands: mpsc::Sender<ConnectionCommand>,
        view: watch::Receiver<Arc<ServerView>>,
        desired: DesiredServer,
        (login_slot, use_count): (LoginSlot, Arc<UseCount>),
    ) -> ConnectionHandle {
        let desired = Arc::new(desired);
        ConnectionHandle { commands, view, desired, login_slot, use_count }
    }

    /// The current view.
    pub(crate) fn view(&self) -> Arc<ServerView> {
        self.view.borrow().clone()
    }

    /// Counts a use of the connection until the result is dropped.
    pub(crate) fn begin_use(&self) -> ConnectionUse {
        self.use_count.total.fetch_add(1, Ordering::Relaxed);
        self.use_count.current.fetch_add(1, Ordering::Relaxed);
        ConnectionUse(self.use_count.clone())
    }

    /// The number of uses so far.
    pub(crate) fn total_uses(&self) -> u64 {
        self.use_count.total.load(Ordering::Relaxed)
    }

    /// Whether a use is under way.
    pub(crate) fn is_in_use(&self) -> bool {
        self.use_count.is_in_use()
    }

    /// The server that it connects to.
    pub(crate) fn desired(&self) -> &DesiredServer {
        &self.desired
    }

    /// How a user signs in to the server.
    pub(crate) fn login_method(&self) -> Option<LoginMethod> {
        LoginMethod::for_server(&self.desired)
    }

    /// The login at the server.
    pub(crate) fn login_slot(&self) -> &LoginSlot {
        &self.login_slot
    }

    /// Waits for the end of the connection.
    pub(crate) fn closing(&self) -> ClosingConnection {
        ClosingConnection(self.view.clone())
    }

    /// Sends a notification, where the server is connected.
    pub(crate) async fn notify(&self, method: &'static str) {
        let active = self.view.borrow().active.clone();
        if let Some(active) = active {
            let _closed = active.client.notify(method, None).await;
        }
    }

    /// The same with parameters.
    pub(crate) async fn notify_with(&self, method: &'static str, params: &Json) {
        let active = self.view.borrow().active.clone();
        if let Some(active) = active {
            let params = Payload::from_json(params.to_string().into());
            let _closed = active.client.notify(method, Some(params)).await;
        }
    }

    /// Closes the connection and opens it again. Returns when the actor has the command.
    pub(crate) async fn reconnect(&self) {
        let _actor_gone = self.commands.send(ConnectionCommand::Reconnect).await;
    }

    /// Has all lists fetched again, where the server is connected.
    pub(crate) async fn refresh_lists(&self) {
        let _actor_gone = self.commands.send(ConnectionCommand::RefreshLists).await;
    }

    /// Asks for a new view, because something changed that it depends on.
    pub(crate) async fn publish(&self) {
        let _actor_gone = self.commands.send(ConnectionCommand::Publish).await;
    }

    /// Reports a failed call. The actor decides what that means for the connection.
    pub(crate) async fn report_failure(&self, active: &ActiveConnection, error: &CallError) {
        let generation = active.generation;
        let command = ConnectionCommand::CallFailed { generation, error: error.clone() };
        let _actor_gone = self.commands.send(command).await;
    }

    /// Subscribes to a resource; `None` where there are too many subscriptions or the actor has ended.
    pub(crate) async fn subscribe(&self, uri: &str) -> Option<watch::Receiver<ResourceActivity>> {
        let (reply, activity) = oneshot::channel();
        let command = ConnectionCommand::Subscribe { uri: uri.to_owned(), reply };
        self.commands.send(command).await.ok()?;
        activity.await.ok().flatten()
    }

    /// Says that a receiver was dropped. Where the actor's queue is full, the actor checks by itself later.
    pub(crate) fn unsubscribe_soon(&self) {
        let _checked_later = self.commands.try_send(ConnectionCommand::Unsubscribe { done: None });
    }

    /// The same; returns when the server has been told.
    pub(crate) async fn unsubscribe(&self) {
        let (done, told) = oneshot::channel();
        if self.commands.send(ConnectionCommand::Unsubscribe { done: Some(done) }).await.is_ok() {
            let _actor_gone = told.await;
        }
    }

    /// Stops the connection. Returns when the server's processes have ended.
    pub(crate) async fn stop(&self, search: DescendantSearch) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(ConnectionCommand::Stop { search, done }).await.is_ok() {
            let _actor_gone = stopped.await;
        }
    }

    /// An open connection of a later generation than `seen`, opened now where there is none. The error is the view
    /// that says why there is none.
    pub(crate) async fn ensure_active(
        &self,
        seen: Option<u64>,
    ) -> Result<ActiveConnection, Arc<ServerView>> {
        let is_newer = |active: &ActiveConnection| seen.is_none_or(|seen| active.generation > seen);
        if let Some(active) = self.view.borrow().active.as_ref().filter(|it| is_newer(it)) {
            return Ok(active.clone());
        }
        let mut view = self.view.clone();
        let first = view.borrow_and_update().active.clone();
        if let Some(active) = first.filter(is_newer) {
            return Ok(active);
        }
        if self.commands.send(ConnectionCommand::Connect).await.is_err() {
            return Err(self.view());
        }
        // The actor publishes a view after every command, even where nothing changed.
        loop {
            if view.changed().await.is_err() {
                return Err(self.view());
            }
            let now = view.borrow_and_update().clone();
            match (now.active.clone().filter(is_newer), now.status.is_settled()) {
                (Some(active), _) => return Ok(active),
                (None, true) if now.status != Status::Connected => return Err(now),
                (None, true | false) => {}
            }
        }
    }
}

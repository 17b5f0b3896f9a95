//! Requests that wait for input from their client. Each keeps running, so that a server can withdraw its request or
//! fail. A request whose client does not return within the TTL is cancelled.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::multi_round_trip::pending::{PendingRequest, Step};

/// The largest number of suspended requests, of all accounts and of one.
const MAX_SUSPENDED: usize = 4096;
const MAX_PER_ACCOUNT: usize = 64;
/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 256;

/// The suspended requests. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SuspendedRequests {
    commands: mpsc::Sender<Command>,
    count: watch::Receiver<usize>,
}

#[derive(Debug)]
enum Command {
    Suspend { pending: Box<PendingRequest>, id: oneshot::Sender<Option<u64>> },
    Take { id: u64, reply: oneshot::Sender<Option<Box<PendingRequest>>> },
    List { reply: oneshot::Sender<Vec<SuspendedView>> },
}

/// A suspended request, as the dashboard shows it.
#[derive(Debug, Clone)]
pub(crate) struct SuspendedView {
    pub(crate) id: u64,
    pub(crate) principal: Arc<str>,
    pub(crate) method: String,
    /// How long it has been suspended.
    pub(crate) age: Duration,
}

type ReplyTo = oneshot::Sender<Option<Box<PendingRequest>>>;

impl SuspendedRequests {
    /// No requests, and the task that owns them. The task ends when the last clone is dropped.
    pub(crate) fn new(
        ttl: Duration,
    ) -> (SuspendedRequests, impl Future<Output = ()> + Send + 'static) {
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        let (publish, count) = watch::channel(0);
        (SuspendedRequests { commands, count }, run(receiver, ttl, publish))
    }

    /// The number of suspended requests.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Suspends a request and returns its id. None if there are too many.
    pub(crate) async fn suspend(&self, pending: PendingRequest) -> Option<u64> {
        let (id, suspended_id) = oneshot::channel();
        let command = Command::Suspend { pending: Box::new(pending), id };
        self.commands.send(command).await.ok()?;
        suspended_id.await.ok()?
    }

    /// The suspended requests, oldest first.
    pub(crate) async fn list(&self) -> Vec<SuspendedView> {
        let (reply, listed) = oneshot::channel();
        match self.commands.send(Command::List { reply }).await {
            Ok(()) => listed.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Takes a request out. None if there is none with this id.
    pub(crate) async fn take(&self, id: u64) -> Option<PendingRequest> {
        let (reply, taken) = oneshot::channel();
        self.commands.send(Command::Take { id, reply }).await.ok()?;
        taken.await.ok().flatten().map(|it| *it)
    }
}

async fn run(mut commands: mpsc::Receiver<Command>, ttl: Duration, count: watch::Sender<usize>) {
    // With the account of each.
    let mut suspended: HashMap<u64, (Arc<str>, oneshot::Sender<ReplyTo>)> = HashMap::new();
    let mut views: BTreeMap<u64, (SuspendedView, Instant)> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut last_id = 0;
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Suspend { pending, id }) => {
                    let account = pending.request().client().account.clone();
                    let of_account = suspended.values().filter(|it| it.0 == account).count();
                    if suspended.len() >= MAX_SUSPENDED || of_account >= MAX_PER_ACCOUNT {
                        warn!(account = &*account, "request refused: too many wait for input");
                        let _client_gone = id.send(None);
                        continue;
                    }
                    last_id += 1;
                    let (reply_to, taken_by) = oneshot::channel();
                    suspended.insert(last_id, (account, reply_to));
                    views.insert(last_id, (view(last_id, &pending), Instant::now()));
                    tasks.spawn(drive(last_id, pending, taken_by, Instant::now() + ttl));
                    let _client_gone = id.send(Some(last_id));
                }
                Some(Command::List { reply }) => {
                    let aged = |(view, since): &(SuspendedView, Instant)| SuspendedView {
                        age: since.elapsed(),
                        ..view.clone()
                    };
                    let _reader_gone = reply.send(views.values().map(aged).collect());
                }
                Some(Command::Take { id, reply }) => match suspended.remove(&id) {
                    Some((_, reply_to)) => {
                        views.remove(&id);
                        let _over = reply_to.send(reply);
                    }
                    None => {
                        let _client_gone = reply.send(None);
                    }
                },
                None => break,
            },
            Some(over) = tasks.join_next() => {
                if let Ok(id) = over {
                    suspended.remove(&id);
                    views.remove(&id);
                }
            }
        }
        let _no_readers = count.send(suspended.len());
    }
    tasks.shutdown().await;
}

fn view(id: u64, pending: &PendingRequest) -> SuspendedView {
    let request = pending.request();
    SuspendedView {
        id,
        principal: request.principal().clone(),
        method: request.method.as_str().to_owned(),
        age: Duration::ZERO,
    }
}

/// Runs a suspended request until it is taken or its TTL expires. Its notifications are dropped.
async fn drive(
    id: u64,
    mut pending: Box<PendingRequest>,
    mut taken_by: oneshot::Receiver<ReplyTo>,
    deadline: Instant,
) -> u64 {
    let mut outcome = None;
    loop {
        tokio::select! {
            biased;
            reply_to = &mut taken_by => {
                if let Ok(reply_to) = reply_to {
                    pending.restore_outcome(outcome);
                    let _client_gone = reply_to.send(Some(pending));
                }
                return id;
            }
            () = sleep_until(deadline) => {
                debug!("request cancelled: its client sent no input in time");
                return id;
            }
            step = pending.next(), if outcome.is_none() => match step {
                Step::Notification(_) | Step::InputRequired(_) => {}
                Step::Complete(done) => outcome = Some(done),
            },
        }
    }
}

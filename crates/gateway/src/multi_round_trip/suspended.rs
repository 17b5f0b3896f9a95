//! Calls that wait for a client to come back with answers. Each goes on by itself meanwhile, so that a server that
//! gives up is heard; who does not come back in time has its call called off.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::multi_round_trip::pending::{PendingRequest, Step};

/// How many calls may wait, of all and of one principal.
const MAX_SUSPENDED: usize = 4096;
const MAX_PER_PRINCIPAL: usize = 64;
/// How many commands may wait.
const COMMAND_CAPACITY: usize = 256;

/// The way to where calls wait.
#[derive(Debug, Clone)]
pub(crate) struct SuspendedRequests {
    commands: mpsc::Sender<Command>,
    count: watch::Receiver<usize>,
}

#[derive(Debug)]
enum Command {
    Suspend { pending: Box<PendingRequest>, principal: Arc<str>, id: oneshot::Sender<Option<u64>> },
    Take { id: u64, reply: oneshot::Sender<Option<Box<PendingRequest>>> },
}

type ReplyTo = oneshot::Sender<Option<Box<PendingRequest>>>;

impl SuspendedRequests {
    /// A place, and the work of keeping it. That ends with the last way to it.
    pub(crate) fn new(
        ttl: Duration,
    ) -> (SuspendedRequests, impl Future<Output = ()> + Send + 'static) {
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        let (publish, count) = watch::channel(0);
        (SuspendedRequests { commands, count }, run(receiver, ttl, publish))
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Has a call wait. None where there is no room.
    pub(crate) async fn suspend(
        &self,
        pending: PendingRequest,
        principal: Arc<str>,
    ) -> Option<u64> {
        let (id, suspended_id) = oneshot::channel();
        self.commands
            .send(Command::Suspend { pending: Box::new(pending), principal, id })
            .await
            .ok()?;
        suspended_id.await.ok()?
    }

    /// Takes a call out. None where there is none of that number.
    pub(crate) async fn take(&self, id: u64) -> Option<PendingRequest> {
        let (reply, taken) = oneshot::channel();
        self.commands.send(Command::Take { id, reply }).await.ok()?;
        taken.await.ok().flatten().map(|it| *it)
    }
}

async fn run(mut commands: mpsc::Receiver<Command>, ttl: Duration, count: watch::Sender<usize>) {
    let mut suspended: HashMap<u64, (Arc<str>, oneshot::Sender<ReplyTo>)> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut last_id = 0;
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Suspend { pending, principal, id }) => {
                    let of_principal = suspended.values().filter(|it| it.0 == principal).count();
                    if suspended.len() >= MAX_SUSPENDED || of_principal >= MAX_PER_PRINCIPAL {
                        let _client_gone = id.send(None);
                        continue;
                    }
                    last_id += 1;
                    let (reply_to, taken_by) = oneshot::channel();
                    suspended.insert(last_id, (principal, reply_to));
                    tasks.spawn(drive(last_id, pending, taken_by, Instant::now() + ttl));
                    let _client_gone = id.send(Some(last_id));
                }
                Some(Command::Take { id, reply }) => match suspended.remove(&id) {
                    Some((_, reply_to)) => {
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
                }
            }
        }
        count.send_replace(suspended.len());
    }
    tasks.shutdown().await;
}

/// Works on until somebody comes for it or its time is over. What is said meanwhile is for nobody.
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
            () = sleep_until(deadline) => return id,
            step = pending.next(), if outcome.is_none() => match step {
                Step::Notification(_) | Step::InputRequired(_) => {}
                Step::Complete(done) => outcome = Some(done),
            },
        }
    }
}

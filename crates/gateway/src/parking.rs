//! Calls that wait for a client to come back with answers. Each goes on by itself meanwhile, so that a server that
//! gives up is heard; who does not come back in time has its call called off.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::turn::{PendingRequest, Step};

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
    Suspend { turn: Box<PendingRequest>, whose: Arc<str>, number: oneshot::Sender<Option<u64>> },
    Take { number: u64, reply: oneshot::Sender<Option<Box<PendingRequest>>> },
}

type ReplyTo = oneshot::Sender<Option<Box<PendingRequest>>>;

impl SuspendedRequests {
    /// A place, and the work of keeping it. That ends with the last way to it.
    pub(crate) fn new(
        lasts: Duration,
    ) -> (SuspendedRequests, impl Future<Output = ()> + Send + 'static) {
        let (commands, from_clients) = mpsc::channel(COMMAND_CAPACITY);
        let (publish, count) = watch::channel(0);
        (SuspendedRequests { commands, count }, run(from_clients, lasts, publish))
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Has a call wait. None where there is no room.
    pub(crate) async fn suspend(&self, turn: PendingRequest, whose: Arc<str>) -> Option<u64> {
        let (number, parked) = oneshot::channel();
        self.commands.send(Command::Suspend { turn: Box::new(turn), whose, number }).await.ok()?;
        parked.await.ok()?
    }

    /// Takes a call out. None where there is none of that number.
    pub(crate) async fn take(&self, number: u64) -> Option<PendingRequest> {
        let (reply, taken) = oneshot::channel();
        self.commands.send(Command::Take { number, reply }).await.ok()?;
        taken.await.ok().flatten().map(|it| *it)
    }
}

async fn run(mut commands: mpsc::Receiver<Command>, lasts: Duration, count: watch::Sender<usize>) {
    let mut waiting: HashMap<u64, (Arc<str>, oneshot::Sender<ReplyTo>)> = HashMap::new();
    let mut keeping = JoinSet::new();
    let mut last = 0;
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Suspend { turn, whose, number }) => {
                    let of_one = waiting.values().filter(|it| it.0 == whose).count();
                    if waiting.len() >= MAX_SUSPENDED || of_one >= MAX_PER_PRINCIPAL {
                        let _client_gone = number.send(None);
                        continue;
                    }
                    last += 1;
                    let (wish, wished) = oneshot::channel();
                    waiting.insert(last, (whose, wish));
                    keeping.spawn(drive(last, turn, wished, Instant::now() + lasts));
                    let _client_gone = number.send(Some(last));
                }
                Some(Command::Take { number, reply }) => match waiting.remove(&number) {
                    Some((_, wish)) => {
                        let _over = wish.send(reply);
                    }
                    None => {
                        let _client_gone = reply.send(None);
                    }
                },
                None => break,
            },
            Some(over) = keeping.join_next() => {
                if let Ok(number) = over {
                    waiting.remove(&number);
                }
            }
        }
        count.send_replace(waiting.len());
    }
    keeping.shutdown().await;
}

/// Works on until somebody comes for it or its time is over. What is said meanwhile is for nobody.
async fn drive(
    number: u64,
    mut turn: Box<PendingRequest>,
    mut wished: oneshot::Receiver<ReplyTo>,
    until: Instant,
) -> u64 {
    let mut outcome = None;
    loop {
        tokio::select! {
            biased;
            wish = &mut wished => {
                if let Ok(wish) = wish {
                    turn.restore_outcome(outcome);
                    let _client_gone = wish.send(Some(turn));
                }
                return number;
            }
            () = sleep_until(until) => return number,
            step = turn.next(), if outcome.is_none() => match step {
                Step::Notification(_) | Step::InputRequired(_) => {}
                Step::Complete(done) => outcome = Some(done),
            },
        }
    }
}

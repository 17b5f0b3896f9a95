//! Futures that run together inside one task, as `FuturesUnordered` has it, but without its habit of waking the
//! task again whenever all of them have been looked at: with one call under way that is every time, and on
//! several threads it sends the task to another one.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;

/// How many are looked at before other tasks have their turn.
const POLL_BUDGET: usize = 128;

/// Futures that run when they are polled together. Dropping them drops all.
pub(crate) struct FuturesSet<T> {
    places: Vec<Slot<T>>,
    free: Vec<FutureKey>,
    line: Arc<ReadyQueue>,
}

/// Where one of them is. Given to another when that one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutureKey(usize);

struct Slot<T> {
    future: Option<BoxFuture<'static, T>>,
    bell: Arc<SlotWaker>,
    waker: Waker,
}

/// Those that want to be looked at.
#[derive(Default)]
struct ReadyQueue {
    /// Holds each place once at most, so it is as long as the places are many.
    waiting: Mutex<VecDeque<usize>>,
    /// Is the task at it? Then it looks at the line once more before it rests, and need not be woken: a task that is
    /// woken while it runs is put behind all others, and another thread is woken to take it.
    is_looked_at: AtomicBool,
    task: AtomicWaker,
}

/// What a future rings when it wants to be looked at.
struct SlotWaker {
    place: usize,
    is_waiting: AtomicBool,
    line: Arc<ReadyQueue>,
}

impl ReadyQueue {
    /// The lock is held for a push or a pop only.
    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_polling(&self) -> PollGuard<'_> {
        self.is_looked_at.store(true, Ordering::SeqCst);
        PollGuard(self)
    }

    /// The first in line. Where there is none, who comes later wakes the task.
    fn pop(&self) -> Option<usize> {
        let mut waiting = self.lock();
        let first = waiting.pop_front();
        if first.is_none() {
            // Under the lock: who stands in line after this sees it.
            self.is_looked_at.store(false, Ordering::SeqCst);
        }
        first
    }
}

/// Somebody looks at the line until this is dropped.
struct PollGuard<'a>(&'a ReadyQueue);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.is_looked_at.store(false, Ordering::SeqCst);
    }
}

impl SlotWaker {
    /// Stands in line, unless it does already.
    fn enqueue(&self) -> bool {
        let is_new = !self.is_waiting.swap(true, Ordering::AcqRel);
        if is_new {
            self.line.lock().push_back(self.place);
        }
        is_new
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.enqueue() && !self.line.is_looked_at.load(Ordering::SeqCst) {
            self.line.task.wake();
        }
    }
}

impl<T> FuturesSet<T> {
    pub(crate) fn new() -> FuturesSet<T> {
        FuturesSet { places: Vec::new(), free: Vec::new(), line: Arc::default() }
    }

    /// Adds one. It runs when they are next polled, which nobody is woken for.
    pub(crate) fn insert(&mut self, future: impl Future<Output = T> + Send + 'static) -> FutureKey {
        let key = self.free.pop().unwrap_or_else(|| {
            let place = self.places.len();
            let bell =
                SlotWaker { place, is_waiting: AtomicBool::new(false), line: self.line.clone() };
            let bell = Arc::new(bell);
            let waker = Waker::from(bell.clone());
            self.places.push(Slot { future: None, bell, waker });
            FutureKey(place)
        });
        let place = &mut self.places[key.0];
        place.future = Some(Box::pin(future));
        place.bell.enqueue();
        key
    }

    /// Drops one that has not ended.
    pub(crate) fn remove(&mut self, key: FutureKey) {
        if self.places[key.0].future.take().is_some() {
            self.free.push(key);
        }
    }

    /// Comes back with what one of them ended with.
    pub(crate) fn poll(&mut self, task: &mut Context<'_>) -> Poll<T> {
        self.line.task.register(task.waker());
        let _looking = self.line.start_polling();
        for _ in 0..POLL_BUDGET {
            let Some(number) = self.line.pop() else { return Poll::Pending };
            let place = &mut self.places[number];
            place.bell.is_waiting.store(false, Ordering::Release);
            let Some(future) = &mut place.future else { continue };
            if let Poll::Ready(end) = future.as_mut().poll(&mut Context::from_waker(&place.waker)) {
                place.future = None;
                self.free.push(FutureKey(number));
                return Poll::Ready(end);
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};

    use tokio::sync::{mpsc, oneshot};
    use tokio::task::yield_now;

    use super::*;

    async fn next<T>(together: &mut FuturesSet<T>) -> T {
        poll_fn(|task| together.poll(task)).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_ends_once_whoever_wakes_it_and_however_often_the_waiting_is_dropped() {
        const COUNT: usize = 1000;
        let mut together = FuturesSet::new();
        let mut senders = Vec::new();
        for number in 0..COUNT {
            let (sender, receiver) = oneshot::channel::<usize>();
            together.insert(async move {
                yield_now().await;
                receiver.await.expect("it is sent") + number
            });
            senders.push(sender);
        }
        let sending = tokio::spawn(async move {
            for (number, sender) in senders.into_iter().enumerate().rev() {
                sender.send(COUNT * number).expect("it is waited for");
                yield_now().await;
            }
        });
        let mut ends = Vec::new();
        while ends.len() < COUNT {
            tokio::select! {
                biased;
                end = next(&mut together) => ends.push(end),
                () = yield_now() => {}
            }
        }
        sending.await.expect("it ends");
        ends.sort_unstable();
        assert_eq!(ends, (0..COUNT).map(|number| number * (COUNT + 1)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn one_that_is_removed_is_dropped_at_once_and_its_place_used_again() {
        let mut together = FuturesSet::new();
        let (held, mut is_dropped) = mpsc::channel::<()>(1);
        let first = together.insert(async move {
            let _held = held;
            pending::<u8>().await
        });
        together.remove(first);
        together.remove(first);
        assert_eq!(is_dropped.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        let second = together.insert(async { 2 });
        assert_eq!(second, first);
        let third = together.insert(async { 3 });
        assert_ne!(third, first);
        assert_eq!((next(&mut together).await, next(&mut together).await), (2, 3));
    }

    #[tokio::test]
    async fn one_that_is_never_done_lets_other_tasks_have_their_turn() {
        let mut together = FuturesSet::<()>::new();
        together.insert(async {
            loop {
                let mut is_over = false;
                poll_fn(|task| {
                    task.waker().wake_by_ref();
                    match std::mem::replace(&mut is_over, true) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        });
        let other = tokio::spawn(async { 7 });
        tokio::select! {
            () = next(&mut together) => panic!("it never ends"),
            other = other => assert_eq!(other.expect("it ends"), 7),
        }
    }
}

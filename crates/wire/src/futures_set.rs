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
    slots: Vec<Slot<T>>,
    free: Vec<FutureKey>,
    ready_queue: Arc<ReadyQueue>,
}

/// Where one of them is. Given to another when that one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutureKey(usize);

struct Slot<T> {
    future: Option<BoxFuture<'static, T>>,
    slot_waker: Arc<SlotWaker>,
    waker: Waker,
}

/// Those that want to be looked at.
#[derive(Default)]
struct ReadyQueue {
    /// Holds each place once at most, so it is as long as the places are many.
    ready: Mutex<VecDeque<usize>>,
    /// Is the task at it? Then it looks at the line once more before it rests, and need not be woken: a task that is
    /// woken while it runs is put behind all others, and another thread is woken to take it.
    is_polling: AtomicBool,
    task: AtomicWaker,
}

/// What a future rings when it wants to be looked at.
struct SlotWaker {
    slot: usize,
    is_queued: AtomicBool,
    ready_queue: Arc<ReadyQueue>,
}

impl ReadyQueue {
    /// The lock is held for a push or a pop only.
    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_polling(&self) -> PollGuard<'_> {
        self.is_polling.store(true, Ordering::SeqCst);
        PollGuard(self)
    }

    /// The first in line. Where there is none, who comes later wakes the task.
    fn pop(&self) -> Option<usize> {
        let mut ready = self.lock();
        let first = ready.pop_front();
        if first.is_none() {
            // Under the lock: who stands in line after this sees it.
            self.is_polling.store(false, Ordering::SeqCst);
        }
        first
    }
}

/// Somebody looks at the line until this is dropped.
struct PollGuard<'a>(&'a ReadyQueue);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.is_polling.store(false, Ordering::SeqCst);
    }
}

impl SlotWaker {
    /// Stands in line, unless it does already.
    fn enqueue(&self) -> bool {
        let is_new = !self.is_queued.swap(true, Ordering::AcqRel);
        if is_new {
            self.ready_queue.lock().push_back(self.slot);
        }
        is_new
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.enqueue() && !self.ready_queue.is_polling.load(Ordering::SeqCst) {
            self.ready_queue.task.wake();
        }
    }
}

impl<T> FuturesSet<T> {
    pub(crate) fn new() -> FuturesSet<T> {
        FuturesSet { slots: Vec::new(), free: Vec::new(), ready_queue: Arc::default() }
    }

    /// Adds one. It runs when they are next polled, which nobody is woken for.
    pub(crate) fn insert(&mut self, future: impl Future<Output = T> + Send + 'static) -> FutureKey {
        let key = self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len();
            let slot_waker = SlotWaker {
                slot,
                is_queued: AtomicBool::new(false),
                ready_queue: self.ready_queue.clone(),
            };
            let slot_waker = Arc::new(slot_waker);
            let waker = Waker::from(slot_waker.clone());
            self.slots.push(Slot { future: None, slot_waker, waker });
            FutureKey(slot)
        });
        let slot = &mut self.slots[key.0];
        slot.future = Some(Box::pin(future));
        slot.slot_waker.enqueue();
        key
    }

    /// Drops one that has not ended.
    pub(crate) fn remove(&mut self, key: FutureKey) {
        if self.slots[key.0].future.take().is_some() {
            self.free.push(key);
        }
    }

    /// Comes back with what one of them ended with.
    pub(crate) fn poll(&mut self, task: &mut Context<'_>) -> Poll<T> {
        self.ready_queue.task.register(task.waker());
        let _polling = self.ready_queue.start_polling();
        for _ in 0..POLL_BUDGET {
            let Some(number) = self.ready_queue.pop() else { return Poll::Pending };
            let slot = &mut self.slots[number];
            slot.slot_waker.is_queued.store(false, Ordering::Release);
            let Some(future) = &mut slot.future else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&slot.waker))
            {
                slot.future = None;
                self.free.push(FutureKey(number));
                return Poll::Ready(output);
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

    async fn next<T>(futures: &mut FuturesSet<T>) -> T {
        poll_fn(|task| futures.poll(task)).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn each_future_completes_once_even_if_polling_is_interrupted() {
        const COUNT: usize = 1000;
        let mut futures = FuturesSet::new();
        let mut senders = Vec::new();
        for number in 0..COUNT {
            let (sender, receiver) = oneshot::channel::<usize>();
            futures.insert(async move {
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
        let mut outputs = Vec::new();
        while outputs.len() < COUNT {
            tokio::select! {
                biased;
                output = next(&mut futures) => outputs.push(output),
                () = yield_now() => {}
            }
        }
        sending.await.expect("it ends");
        outputs.sort_unstable();
        assert_eq!(outputs, (0..COUNT).map(|number| number * (COUNT + 1)).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_removed_future_is_dropped_at_once_and_its_slot_is_reused() {
        let mut futures = FuturesSet::new();
        let (held, mut is_dropped) = mpsc::channel::<()>(1);
        let first = futures.insert(async move {
            let _held = held;
            pending::<u8>().await
        });
        futures.remove(first);
        futures.remove(first);
        assert_eq!(is_dropped.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        let second = futures.insert(async { 2 });
        assert_eq!(second, first);
        let third = futures.insert(async { 3 });
        assert_ne!(third, first);
        assert_eq!((next(&mut futures).await, next(&mut futures).await), (2, 3));
    }

    #[tokio::test]
    async fn a_future_that_always_wakes_yields_to_other_tasks() {
        let mut futures = FuturesSet::<()>::new();
        futures.insert(async {
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
            () = next(&mut futures) => panic!("it never ends"),
            other = other => assert_eq!(other.expect("it ends"), 7),
        }
    }
}

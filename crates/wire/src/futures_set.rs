//! A set of futures that one task polls together, like `FuturesUnordered`, but without waking the task again after
//! every future has been polled. With one call in flight that extra wake happens every time, and on a
//! multi-threaded runtime it moves the task to another thread.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;

/// How many futures one poll runs before it yields to other tasks.
const POLL_BUDGET: usize = 128;

/// Futures that are polled together. Dropping the set drops all of them.
pub(crate) struct FuturesSet<T> {
    slots: Vec<Slot<T>>,
    free: Vec<FutureKey>,
    ready_queue: Arc<ReadyQueue>,
}

/// The slot of one future. Slots are reused after a future completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutureKey(usize);

struct Slot<T> {
    future: Option<BoxFuture<'static, T>>,
    slot_waker: Arc<SlotWaker>,
    waker: Waker,
}

/// The slots whose futures are ready to be polled.
#[derive(Default)]
struct ReadyQueue {
    /// Holds each slot at most once, so the number of slots bounds its length.
    ready: Mutex<VecDeque<usize>>,
    /// Whether the task is polling the set. It then checks the queue once more before it returns `Pending` and
    /// needs no wake: waking a running task puts it behind all others and wakes another thread to take it.
    is_polling: AtomicBool,
    task: AtomicWaker,
}

/// Wakes one future of the set.
struct SlotWaker {
    slot: usize,
    is_queued: AtomicBool,
    ready_queue: Arc<ReadyQueue>,
}

impl ReadyQueue {
    /// The lock is held only for one push or pop.
    fn lock(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_polling(&self) -> PollGuard<'_> {
        self.is_polling.store(true, Ordering::SeqCst);
        PollGuard(self)
    }

    /// The first slot in the queue. If there is none, a slot that is enqueued later wakes the task.
    fn pop(&self) -> Option<usize> {
        let mut ready = self.lock();
        let first = ready.pop_front();
        if first.is_none() {
            // Stored under the lock, so that a later `enqueue` sees it.
            self.is_polling.store(false, Ordering::SeqCst);
        }
        first
    }
}

/// Marks the queue as being polled until it is dropped.
struct PollGuard<'a>(&'a ReadyQueue);

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.is_polling.store(false, Ordering::SeqCst);
    }
}

impl SlotWaker {
    /// Queues the slot, and returns whether it was not queued before.
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

    /// Adds a future. It first runs at the next poll; nothing is woken.
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

    /// Drops a future that has not completed.
    pub(crate) fn remove(&mut self, key: FutureKey) {
        if self.slots[key.0].future.take().is_some() {
            self.free.push(key);
        }
    }

    /// Polls ready futures until one completes.
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

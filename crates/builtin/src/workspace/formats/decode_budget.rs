//! One budget for the memory of all pictures that are decoded at the same time, whatever the number of clients.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The memory for decoded pictures in bytes. As much as one picture may take, so that each of them can be decoded.
pub(super) const MAX_DECODED_BYTES: u64 = 256 * 1024 * 1024;

/// The budget of this process.
pub(super) static DECODE_BUDGET: DecodeBudget = DecodeBudget::new(MAX_DECODED_BYTES);

/// An amount of memory that is shared by threads.
#[derive(Debug)]
pub(super) struct DecodeBudget {
    available: Mutex<u64>,
    released: Condvar,
    total: u64,
}

/// A part of a budget. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct DecodePermit<'a> {
    budget: &'a DecodeBudget,
    bytes: u64,
}

impl DecodeBudget {
    const fn new(total: u64) -> DecodeBudget {
        DecodeBudget { available: Mutex::new(total), released: Condvar::new(), total }
    }

    /// Blocks until so many bytes are available. More than the total counts as the total.
    pub(super) fn acquire(&self, bytes: u64) -> DecodePermit<'_> {
        let bytes = bytes.min(self.total);
        let mut available = self.available();
        while *available < bytes {
            available = self.released.wait(available).unwrap_or_else(PoisonError::into_inner);
        }
        *available -= bytes;
        DecodePermit { budget: self, bytes }
    }

    fn available(&self) -> MutexGuard<'_, u64> {
        self.available.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DecodePermit<'_> {
    fn drop(&mut self) {
        *self.budget.available() += self.bytes;
        self.budget.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn threads_together_never_use_more_than_the_budget() {
        let budget = DecodeBudget::new(10);
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for bytes in [3, 10, 4, 1, 7, 99, 5, 2] {
                let (budget, used, most) = (&budget, &used, &most);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let permit = budget.acquire(bytes);
                        let now = used.fetch_add(permit.bytes, Ordering::SeqCst) + permit.bytes;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        used.fetch_sub(permit.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert_eq!(*budget.available(), 10);
    }
}

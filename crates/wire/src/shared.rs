//! State that several tasks change directly. Everything else that changes is owned by one task, which others reach
//! through a channel. `cargo xtask tidy` (rule `locks`) lists the files that may hold a [`Shared`].

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A value that several tasks read and change. It is a lock: reads run side by side, a change excludes all others.
///
/// Use it only where a caller needs the change at once and a queue to an owning task would cost a wait on the way of a
/// request. Closures must be short, cannot await, and must not use the same value again. Clones share the value. A
/// panic inside a closure does not lock out others: they see what it left behind.
pub struct Shared<T>(Arc<RwLock<T>>);

impl<T> Shared<T> {
    /// Shares a value.
    pub fn new(value: T) -> Shared<T> {
        Shared(Arc::new(RwLock::new(value)))
    }

    /// Reads the value.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the value. All that `update` reads and writes is one step for other tasks.
    pub fn update<R>(&self, update: impl FnOnce(&mut T) -> R) -> R {
        update(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Clone> Shared<T> {
    /// A copy of the value. Cheap where the value is an `Arc`.
    pub fn get(&self) -> T {
        self.read(T::clone)
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared::new(T::default())
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|value| f.debug_tuple("Shared").field(value).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_value_and_an_update_returns_its_result() {
        let shared = Shared::new(vec![1]);
        let clone = shared.clone();
        let length = clone.update(|it| {
            it.push(2);
            it.len()
        });
        assert_eq!(length, 2);
        assert_eq!(shared.get(), [1, 2]);
    }

    #[test]
    fn a_panic_in_an_update_does_not_lock_out_others() {
        let shared = Shared::new(1);
        let clone = shared.clone();
        let panicked = std::thread::spawn(move || clone.update(|_| panic!("as the test wants")));
        assert!(panicked.join().is_err());
        shared.update(|it| *it += 1);
        assert_eq!(shared.get(), 2);
    }
}

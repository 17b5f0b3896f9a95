//! State that several tasks change directly. All such state of the gateway is in a [`Shared`]; everything else is owned
//! by one task, which others reach through a channel. `cargo xtask tidy` (rule `locks`) lists the files that may use it.

use tokio::sync::watch;

/// A value that several tasks read and change. It is a lock: reads run side by side, a change excludes all others.
///
/// Use it only where a caller needs the change at once and a queue to an owning task would cost a wait on the way of a
/// request. Closures must be short, cannot await, and must not use the same value again. Clones share the value.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(watch::Sender<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        Shared(watch::Sender::new(value))
    }

    /// Reads the value.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.borrow())
    }

    /// Changes the value. All that `update` reads and writes is one step for other tasks.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut T) -> R) -> R {
        let mut result = None;
        self.0.send_modify(|value| result = Some(update(value)));
        result.expect("`send_modify` calls its closure once")
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
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
        assert_eq!(shared.read(|it| it.clone()), [1, 2]);
    }
}

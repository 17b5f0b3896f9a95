//! A token store whose locks also exclude other machines, for programs that share their logins over a network. The records
//! themselves stay where the inner store keeps them; their versions refuse a write of a holder that was too slow.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::{LoginKey, LoginRecord, StoreFuture, StoreLock, TokenStore, WriteOutcome};

/// A lock on all machines, free when it is dropped.
pub struct SharedLock(Box<dyn Send + Sync>);

impl SharedLock {
    /// A lock that is held as long as this value.
    pub fn new(guard: impl Send + Sync + 'static) -> SharedLock {
        SharedLock(Box::new(guard))
    }
}

impl fmt::Debug for SharedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedLock(_guard) = self;
        f.write_str("SharedLock")
    }
}

/// The future of a lock.
pub type SharedLockFuture<'a> = Pin<Box<dyn Future<Output = Option<SharedLock>> + Send + 'a>>;

/// Locks logins on all machines.
pub trait SharedLocks: Send + Sync {
    /// Waits for the lock of a login. None if it cannot be known who holds it: a second refresh may cost the login, but no
    /// refresh at all certainly does.
    fn lock<'a>(&'a self, key: &'a LoginKey) -> SharedLockFuture<'a>;
}

/// A store whose locks exclude other machines.
pub struct SharedlyLockedStore {
    inner: Arc<dyn TokenStore>,
    locks: Arc<dyn SharedLocks>,
}

impl SharedlyLockedStore {
    /// The same store with these locks besides its own.
    pub fn new(inner: Arc<dyn TokenStore>, locks: Arc<dyn SharedLocks>) -> SharedlyLockedStore {
        SharedlyLockedStore { inner, locks }
    }
}

impl TokenStore for SharedlyLockedStore {
    fn find<'a>(
        &'a self,
        server: &'a str,
        client: &'a str,
    ) -> StoreFuture<'a, Option<LoginRecord>> {
        self.inner.find(server, client)
    }

    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>> {
        self.inner.read(key)
    }

    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome> {
        self.inner.compare_and_swap(record)
    }

    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome> {
        self.inner.remove(key, version)
    }

    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>> {
        self.inner.all()
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock> {
        Box::pin(async move {
            // The machine's own lock first, so that processes of one machine do not poll the store.
            let own = self.inner.lock(key).await?;
            Ok(own.with_shared(self.locks.lock(key).await))
        })
    }
}

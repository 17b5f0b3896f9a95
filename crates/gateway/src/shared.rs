//! What the replicas of a gateway share: sessions with their events, request states that were used, owners of tasks,
//! request rates, pending approvals and locks. [`store`] is the trait of the storage, [`memory`] and
//! [`redis`] implement it; values are sealed before they leave the process. [`shared_state`] is what the gateway uses.

pub(crate) mod envelope;
pub(crate) mod fleet;
pub(crate) mod key_digest;
pub(crate) mod login_locks;
pub(crate) mod memory;
pub(crate) mod rate;
pub(crate) mod redis;
pub(crate) mod revocations;
pub(crate) mod seal_keys;
pub(crate) mod session_log;
pub(crate) mod shared_state;
pub(crate) mod store;
#[cfg(test)]
mod store_contract;

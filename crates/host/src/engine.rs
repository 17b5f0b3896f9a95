//! The engine: one actor owns which servers run and publishes a snapshot of all of them after every change.
//! Each connection has an actor of its own in `connection`; the pool of tools follows the snapshots in `pool`.

pub(crate) mod actor;
pub(crate) mod changes;
pub(crate) mod handle;
pub(crate) mod options;
pub(crate) mod snapshot;

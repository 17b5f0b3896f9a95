//! Resources of servers: reading with a cache, subscriptions, and skills.
//! Telling servers about subscriptions is left to `connection`.

pub(crate) mod cache;
pub(crate) mod skills;
pub(crate) mod subscription;

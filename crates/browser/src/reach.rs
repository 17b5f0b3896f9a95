//! What pages may reach: rules for origins and addresses, and the proxy that enforces them for everything that a page loads.

pub(crate) mod address;
pub(crate) mod guard;
pub(crate) mod origin_pattern;
pub(crate) mod proxy;

//! The environment of a run, which faults change: namespaces, disks, links and processes.

pub(crate) mod audit_log;
pub(crate) mod relay;
pub(crate) mod remote_network;
pub(crate) mod sandbox;
pub(crate) mod shared_home;
pub(crate) mod system;

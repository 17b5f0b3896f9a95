//! What the program runs on during the run: namespaces, disks, links and processes, which faults change.

pub(crate) mod audit_log;
pub(crate) mod relay;
pub(crate) mod remote_network;
pub(crate) mod sandbox;
pub(crate) mod system;

//! The shared host: one process of the user keeps the servers that several clients use, so that ten sessions run one
//! copy of each server.
//!
//! It keeps connections and nothing else. Configuration, policy, approvals, permissions and the audit log stay in each
//! client, which resolves an entry to a program and asks the host to run it ([`client`]). The host runs the program
//! once for all clients that ask for the same [key](protocol::AttachRequest::key) and carries their messages
//! ([`host`]). [`socket`] has the folder, the lock and the socket; [`protocol`] the requests of a client.

pub mod client;
pub mod host;
mod multiplexer;
pub mod protocol;
pub mod socket;

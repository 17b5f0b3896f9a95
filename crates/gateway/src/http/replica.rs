//! Sends requests to the other replicas of a gateway. A session runs on one replica, its owner; a request that reaches
//! another one is sent to the owner, whole and sealed, and the response comes back the same way. Requests never go through
//! the store. Who is asked is decided in `shared_sessions` and `request_owner`; `replica_server` is the other end.

pub(crate) mod adoptions;
pub(crate) mod forward;
mod locations;

pub(crate) use forward::{ClientRequest, Replicas};

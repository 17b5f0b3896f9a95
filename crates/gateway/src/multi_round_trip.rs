//! Requests of modern clients, which cannot be asked while they wait: a request that needs input is suspended, and its
//! client sends it again with the input. `relay` does the work; the fronts send the results.

pub(crate) mod modern_request;
pub(crate) mod pending;
pub(crate) mod suspended;

//! Typed requests and responses of the common methods. A response keeps the bytes that it was decoded from, so that
//! members without a field here are not lost. `Host::request` sends any other method.

pub(crate) mod completion;
pub(crate) mod content;
pub(crate) mod definitions;
pub(crate) mod prompt;
pub(crate) mod resource;
pub(crate) mod response;

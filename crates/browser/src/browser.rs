//! The browser: finding and starting it, the contexts of its sessions, and the routing of its events to them.

pub(crate) mod context;
pub(crate) mod download_events;
pub(crate) mod endpoint;
pub(crate) mod launch;
pub(crate) mod page_setup;
pub(crate) mod profile;
pub(crate) mod program;
pub(crate) mod router;
pub(crate) mod running;
pub(crate) mod shared;

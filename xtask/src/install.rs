//! Installs what the chores need: tools, node, system packages and the servers that tests talk to.

pub(crate) mod node;
pub(crate) mod servers;
pub(crate) mod system;
pub(crate) mod tools;

//! Installs what the commands need: tools, node, system packages and the third-party MCP servers used by the tests.

pub(crate) mod node;
pub(crate) mod servers;
pub(crate) mod system;
pub(crate) mod tools;

//! Names of the `_meta` members that the modern era defines.

/// The protocol version of a request.
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The description of the client.
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The capabilities of the client.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The description of the server.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The lowest level of log messages that the client wants during a request.
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The request that opened the subscription of a notification.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

//! Names of the `_meta` members that the modern era defines.

/// The version that a request is written in.
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who asks.
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the one who asks can do.
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who answers.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// How much the one who asks wants to hear meanwhile.
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The request that opened the subscription which a message belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

//! The rules of the two eras: which requests are accepted, the handshake results, and the metadata of results.

use serde_json::{Map, Value, json};

use crate::scripted::quirk::Quirk;
use crate::scripted::script::{Era, Script};

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The key under which messages of a subscription name the request that opened it.
pub const META_SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The era of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEra {
    Legacy,
    Modern,
}

/// A JSON-RPC error.
#[derive(Debug, Clone)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
    /// The HTTP status if the request is rejected.
    pub status: u16,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None, status: 200 }
    }

    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(-32602, message)
    }

    fn with_status(mut self, status: u16) -> RpcError {
        self.status = status;
        self
    }

    fn with_data(mut self, data: Value) -> RpcError {
        self.data = Some(data);
        self
    }

    /// A header is missing or does not match the body.
    pub fn header_mismatch(message: impl Into<String>) -> RpcError {
        RpcError::new(-32020, message).with_status(400)
    }

    fn method_not_found(method: &str, era: RequestEra) -> RpcError {
        let status = match era {
            RequestEra::Legacy => 200,
            RequestEra::Modern => 404,
        };
        RpcError::new(-32601, format!("there is no method `{method}`")).with_status(status)
    }

    pub fn to_response(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub enum RequestFailure {
    Error(RpcError),
    Crash,
}

impl From<RpcError> for RequestFailure {
    fn from(rpc_error: RpcError) -> RequestFailure {
        RequestFailure::Error(rpc_error)
    }
}

/// The protocol version in a request's `_meta`.
pub fn request_version(params: &Value) -> Option<&str> {
    params["_meta"][META_VERSION].as_str()
}

/// The state of the handshake of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    Complete,
    Pending,
}

/// The era of a request, or the error that rejects it.
pub fn check_request(
    script: &Script,
    initialized: Handshake,
    method: &str,
    params: &Value,
) -> Result<RequestEra, RpcError> {
    match request_era(script, method, params) {
        RequestEra::Legacy => check_legacy(initialized, method),
        RequestEra::Modern => check_modern(script, method, params),
    }
}

fn request_era(script: &Script, method: &str, params: &Value) -> RequestEra {
    match script.era {
        Era::Legacy => RequestEra::Legacy,
        Era::Modern => RequestEra::Modern,
        Era::Both if method == "server/discover" || request_version(params).is_some() => {
            RequestEra::Modern
        }
        Era::Both => RequestEra::Legacy,
    }
}

fn check_legacy(initialized: Handshake, method: &str) -> Result<RequestEra, RpcError> {
    let is_known = matches!(method, "initialize" | "ping" | "logging/setLevel")
        || matches!(method, "resources/subscribe" | "resources/unsubscribe")
        || is_in_both_eras(method);
    if !is_known {
        return Err(RpcError::method_not_found(method, RequestEra::Legacy));
    }
    if initialized == Handshake::Pending && !matches!(method, "initialize" | "ping") {
        return Err(RpcError::new(-32600, "`initialize` comes first"));
    }
    Ok(RequestEra::Legacy)
}

fn check_modern(script: &Script, method: &str, params: &Value) -> Result<RequestEra, RpcError> {
    if method == "initialize" {
        return Err(RpcError::method_not_found(method, RequestEra::Modern));
    }
    let meta = &params["_meta"];
    let missing =
        |key: &str| RpcError::invalid_params(format!("`_meta` lacks `{key}`")).with_status(400);
    let version = meta[META_VERSION].as_str().ok_or_else(|| missing(META_VERSION))?;
    let capabilities =
        meta[META_CAPABILITIES].as_object().ok_or_else(|| missing(META_CAPABILITIES))?;
    let supported = script.modern_versions();
    if !supported.contains(&version) {
        let data = json!({"supported": supported, "requested": version});
        return Err(RpcError::new(-32022, "unsupported protocol version")
            .with_data(data)
            .with_status(400));
    }
    if !(matches!(method, "server/discover" | "subscriptions/listen") || is_in_both_eras(method)) {
        return Err(RpcError::method_not_found(method, RequestEra::Modern));
    }
    if method == "tools/call" && params["name"] == "ask" {
        check_capabilities(params["arguments"]["kind"].as_str(), capabilities)?;
    }
    Ok(RequestEra::Modern)
}

/// A modern server may only use features that the client declared.
fn check_capabilities(
    kind: Option<&str>,
    capabilities: &Map<String, Value>,
) -> Result<(), RpcError> {
    let needed: &[&str] = match kind.unwrap_or("elicitation") {
        "elicitation" | "url" | "booking" | "long" | "unfit" => &["elicitation"],
        "sampling" => &["sampling"],
        "roots" => &["roots"],
        "all" => &["elicitation", "sampling", "roots"],
        _ => &[],
    };
    let missing: Map<String, Value> = needed
        .iter()
        .filter(|&&it| !capabilities.contains_key(it))
        .map(|&it| (it.to_owned(), json!({})))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(RpcError::new(-32021, "the client lacks a capability")
            .with_data(json!({"requiredCapabilities": missing}))
            .with_status(400)),
    }
}

fn is_in_both_eras(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "tools/call"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "prompts/list"
            | "prompts/get"
            | "completion/complete"
    )
}

/// The result of `initialize`.
pub fn initialize_result(script: &Script, params: &Value) -> Value {
    let supported_versions = script.legacy_versions();
    let requested = params["protocolVersion"].as_str().unwrap_or_default();
    let version = supported_versions
        .iter()
        .find(|&&it| it == requested)
        .or(supported_versions.last())
        .copied();
    let mut result = json!({
        "protocolVersion": version.unwrap_or("2025-11-25"),
        "capabilities": capabilities(script),
        "serverInfo": server_info(script),
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    result
}

/// The result of `server/discover`.
pub fn discover_result(script: &Script) -> Value {
    let mut result = json!({
        "supportedVersions": script.modern_versions(),
        "capabilities": capabilities(script),
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    result
}

fn server_info(script: &Script) -> Value {
    json!({"name": script.name, "version": "1.0.0"})
}

fn capabilities(script: &Script) -> Value {
    let mut capabilities = json!({"tools": {"listChanged": true}});
    if !script.has_quirk(&Quirk::NoCompletions) {
        capabilities["completions"] = json!({});
    }
    if script.era != Era::Modern {
        capabilities["logging"] = json!({});
    }
    if script.resources > 0 {
        capabilities["resources"] = json!({"listChanged": true, "subscribe": true});
    }
    if let Some(channel) = &script.channel {
        capabilities["experimental"] = channel.experimental();
    }
    if script.prompts > 0 {
        capabilities["prompts"] = json!({"listChanged": true});
    }
    capabilities
}

/// Adds the metadata that the era requires to a result.
pub fn add_result_metadata(script: &Script, era: RequestEra, method: &str, result: &mut Value) {
    if era == RequestEra::Legacy {
        return;
    }
    if result["resultType"].is_null() {
        result["resultType"] = json!("complete");
    }
    result["_meta"][META_SERVER_INFO] = server_info(script);
    let is_cacheable = matches!(method, "server/discover" | "resources/read");
    if is_cacheable || method.ends_with("/list") {
        result["ttlMs"] = json!(script.ttl_ms);
        result["cacheScope"] = json!("private");
    }
}

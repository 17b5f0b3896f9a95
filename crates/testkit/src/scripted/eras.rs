//! The rules of the two eras: which requests are let in, what a server says of itself, and what every result carries.

use serde_json::{Map, Value, json};

use crate::quirk::Quirk;
use crate::script::{Era, Script};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// Under this key every message of a subscription names the request that opened it.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The era of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Legacy,
    Modern,
}

/// An error as an answer.
#[derive(Debug, Clone)]
pub struct Trouble {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
    /// The HTTP status where the request was not let in.
    pub status: u16,
}

impl Trouble {
    pub fn new(code: i64, message: impl Into<String>) -> Trouble {
        Trouble { code, message: message.into(), data: None, status: 200 }
    }

    pub fn invalid(message: impl Into<String>) -> Trouble {
        Trouble::new(-32602, message)
    }

    fn status(mut self, status: u16) -> Trouble {
        self.status = status;
        self
    }

    fn data(mut self, data: Value) -> Trouble {
        self.data = Some(data);
        self
    }

    /// A header that is missing or says something else than the body.
    pub fn header(message: impl Into<String>) -> Trouble {
        Trouble::new(-32020, message).status(400)
    }

    fn unknown(method: &str, dialect: Dialect) -> Trouble {
        let status = match dialect {
            Dialect::Legacy => 200,
            Dialect::Modern => 404,
        };
        Trouble::new(-32601, format!("there is no method `{method}`")).status(status)
    }

    pub fn answer(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The version that a request names itself.
pub fn version_in(params: &Value) -> Option<&str> {
    params["_meta"][VERSION].as_str()
}

/// Whether `initialize` was answered in this conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    Yes,
    NotYet,
}

/// Decides in which era a request is answered, or why not at all.
pub fn admit(
    script: &Script,
    opened: Opened,
    method: &str,
    params: &Value,
) -> Result<Dialect, Trouble> {
    match dialect(script, method, params) {
        Dialect::Legacy => admit_legacy(opened, method),
        Dialect::Modern => admit_modern(script, method, params),
    }
}

fn dialect(script: &Script, method: &str, params: &Value) -> Dialect {
    match script.era {
        Era::Legacy => Dialect::Legacy,
        Era::Modern => Dialect::Modern,
        Era::Both if method == "server/discover" || version_in(params).is_some() => Dialect::Modern,
        Era::Both => Dialect::Legacy,
    }
}

fn admit_legacy(opened: Opened, method: &str) -> Result<Dialect, Trouble> {
    let is_known = matches!(method, "initialize" | "ping" | "logging/setLevel")
        || matches!(method, "resources/subscribe" | "resources/unsubscribe")
        || is_shared(method);
    if !is_known {
        return Err(Trouble::unknown(method, Dialect::Legacy));
    }
    if opened == Opened::NotYet && !matches!(method, "initialize" | "ping") {
        return Err(Trouble::new(-32600, "`initialize` comes first"));
    }
    Ok(Dialect::Legacy)
}

fn admit_modern(script: &Script, method: &str, params: &Value) -> Result<Dialect, Trouble> {
    if method == "initialize" {
        return Err(Trouble::unknown(method, Dialect::Modern));
    }
    let meta = &params["_meta"];
    let missing = |key: &str| Trouble::invalid(format!("`_meta` lacks `{key}`")).status(400);
    let version = meta[VERSION].as_str().ok_or_else(|| missing(VERSION))?;
    let capabilities = meta[CAPABILITIES].as_object().ok_or_else(|| missing(CAPABILITIES))?;
    let supported = script.modern_versions();
    if !supported.contains(&version) {
        let data = json!({"supported": supported, "requested": version});
        return Err(Trouble::new(-32022, "unsupported protocol version").data(data).status(400));
    }
    if !(matches!(method, "server/discover" | "subscriptions/listen") || is_shared(method)) {
        return Err(Trouble::unknown(method, Dialect::Modern));
    }
    if method == "tools/call" && params["name"] == "ask" {
        admit_question(params["arguments"]["kind"].as_str(), capabilities)?;
    }
    Ok(Dialect::Modern)
}

/// A modern server may only ask what the client said it can answer.
fn admit_question(kind: Option<&str>, capabilities: &Map<String, Value>) -> Result<(), Trouble> {
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
        false => Err(Trouble::new(-32021, "the client lacks a capability")
            .data(json!({"requiredCapabilities": missing}))
            .status(400)),
    }
}

fn is_shared(method: &str) -> bool {
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

/// The answer to `initialize`.
pub fn initialized(script: &Script, params: &Value) -> Value {
    let spoken = script.legacy_versions();
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let version = spoken.iter().find(|&&it| it == wanted).or(spoken.last()).copied();
    let mut result = json!({
        "protocolVersion": version.unwrap_or("2025-11-25"),
        "capabilities": capabilities(script),
        "serverInfo": server(script),
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    result
}

/// The answer to `server/discover`.
pub fn discovered(script: &Script) -> Value {
    let mut result = json!({
        "supportedVersions": script.modern_versions(),
        "capabilities": capabilities(script),
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = json!(instructions);
    }
    result
}

fn server(script: &Script) -> Value {
    json!({"name": script.name, "version": "1.0.0"})
}

fn capabilities(script: &Script) -> Value {
    let mut capabilities = json!({"tools": {"listChanged": true}});
    if !script.does(&Quirk::NoCompletions) {
        capabilities["completions"] = json!({});
    }
    if script.era != Era::Modern {
        capabilities["logging"] = json!({});
    }
    if script.resources > 0 {
        capabilities["resources"] = json!({"listChanged": true, "subscribe": true});
    }
    if script.prompts > 0 {
        capabilities["prompts"] = json!({"listChanged": true});
    }
    capabilities
}

/// Adds to a result what its era wants on it.
pub fn stamp(script: &Script, dialect: Dialect, method: &str, result: &mut Value) {
    if dialect == Dialect::Legacy {
        return;
    }
    if result["resultType"].is_null() {
        result["resultType"] = json!("complete");
    }
    result["_meta"][SERVER] = server(script);
    let may_be_kept = matches!(method, "server/discover" | "resources/read");
    if may_be_kept || method.ends_with("/list") {
        result["ttlMs"] = json!(script.ttl_ms);
        result["cacheScope"] = json!("private");
    }
}

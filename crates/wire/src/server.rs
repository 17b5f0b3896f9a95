//! The server role in both eras: which requests are accepted, how a server describes itself, and what every result
//! carries.
//! What the methods do is left to the server's implementation.

use serde_json::{Map, Value as Json, json};

use crate::jsonrpc::message::{Payload, RequestId, RpcError};
use crate::protocol::era::{Era, LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::protocol::errors::{code, rpc_error, with_data};
use crate::protocol::meta_key;

pub use crate::protocol::errors::{
    internal_error, invalid_params, method_not_found, missing_capability, resource_not_found,
};

/// How a server describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The name for programs.
    pub name: String,
    /// The name for users.
    pub title: Option<String>,
    /// The version of the server.
    pub version: String,
    /// Instructions for using the server.
    pub instructions: Option<String>,
    /// The server capabilities, as the specification writes them.
    pub capabilities: Map<String, Json>,
}

impl ServerIdentity {
    fn server_info(&self) -> Json {
        let mut info = json!({"name": self.name, "version": self.version});
        if let Some(title) = &self.title {
            info["title"] = json!(title);
        }
        info
    }
}

/// The state of one client at a server.
#[derive(Debug, Clone)]
pub struct ServerSession {
    identity: ServerIdentity,
    /// The capabilities that a legacy client sent in `initialize`.
    client_capabilities: Option<Json>,
}

/// The client metadata of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientContext {
    /// The era of the request and of its response.
    pub era: Era,
    /// The client capabilities, as the specification writes them.
    pub capabilities: Json,
    /// The token that progress notifications carry; absent if the client wants none.
    pub progress_token: Option<Json>,
    /// The lowest level of log messages that the client wants. Legacy clients set it with `logging/setLevel`
    /// instead.
    pub log_level: Option<String>,
}

impl ServerSession {
    /// The session of a client that has not initialized yet.
    pub fn new(identity: ServerIdentity) -> ServerSession {
        ServerSession { identity, client_capabilities: None }
    }

    /// Accepts a request, or returns the error to send.
    pub fn admit(&self, method: &str, params: &Json) -> Result<ClientContext, RpcError> {
        let meta = &params["_meta"];
        let context = |era, capabilities: &Json| ClientContext {
            era,
            capabilities: capabilities.clone(),
            progress_token: Some(&meta["progressToken"])
                .filter(|it| it.is_string() || it.is_number())
                .cloned(),
            log_level: meta[meta_key::LOG_LEVEL].as_str().map(str::to_owned),
        };
        if method == "server/discover" || meta[meta_key::VERSION].is_string() {
            return self.admit_modern(method, meta).map(|it| context(Era::Modern, it));
        }
        if !is_legacy_method(method) {
            return Err(method_not_found(method));
        }
        match (&self.client_capabilities, method) {
            (_, "initialize") => Ok(context(Era::Legacy, &params["capabilities"])),
            (Some(capabilities), _) => Ok(context(Era::Legacy, capabilities)),
            (None, _) => Err(rpc_error(code::INVALID_REQUEST, "`initialize` comes first")),
        }
    }

    fn admit_modern<'m>(&self, method: &str, meta: &'m Json) -> Result<&'m Json, RpcError> {
        let missing = |key: &str| invalid_params(&format!("`_meta` lacks `{key}`"));
        let version = meta[meta_key::VERSION].as_str().ok_or_else(|| missing(meta_key::VERSION))?;
        let capabilities = &meta[meta_key::CAPABILITIES];
        if !capabilities.is_object() {
            return Err(missing(meta_key::CAPABILITIES));
        }
        if !MODERN_VERSIONS.contains(&version) {
            let data = json!({"supported": MODERN_VERSIONS, "requested": version});
            let error =
                rpc_error(code::UNSUPPORTED_VERSION, "this protocol version is not supported");
            return Err(with_data(error, &data));
        }
        match is_modern_method(method) {
            true => Ok(capabilities),
            false => Err(method_not_found(method)),
        }
    }

    /// Handles `initialize`. Legacy requests are accepted afterwards.
    pub fn initialize(&mut self, params: &Json) -> Json {
        self.client_capabilities = Some(params["capabilities"].clone());
        let requested = params["protocolVersion"].as_str().unwrap_or_default();
        let version =
            LEGACY_VERSIONS.iter().find(|it| **it == requested).unwrap_or(&LEGACY_VERSIONS[0]);
        let identity = &self.identity;
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": identity.capabilities,
            "serverInfo": identity.server_info(),
        });
        if let Some(instructions) = &identity.instructions {
            result["instructions"] = json!(instructions);
        }
        result
    }

    /// Whether the client sent `initialize`.
    pub fn is_initialized(&self) -> bool {
        self.client_capabilities.is_some()
    }

    /// Handles `server/discover`.
    pub fn discover(&self) -> Json {
        let identity = &self.identity;
        let mut result =
            json!({"supportedVersions": MODERN_VERSIONS, "capabilities": identity.capabilities});
        if let Some(instructions) = &identity.instructions {
            result["instructions"] = json!(instructions);
        }
        result
    }

    /// Encodes a result with the members that its era requires.
    pub fn encode_result(&self, era: Era, method: &str, mut result: Json) -> Payload {
        if era == Era::Modern && result.is_object() {
            if result["resultType"].is_null() {
                result["resultType"] = json!("complete");
            }
            if !result["_meta"].is_object() {
                result["_meta"] = json!({});
            }
            result["_meta"][meta_key::SERVER_INFO] = self.identity.server_info();
            // Clients learn of changes by subscription, so no result promises a lifetime.
            if method == "server/discover"
                || method == "resources/read"
                || method.ends_with("/list")
            {
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
        }
        Payload::from_json(result.to_string().into())
    }
}

/// An `input_required` result: requests by name, and the state that the client sends back with its responses.
pub fn input_required(requests: &Json, state: &str) -> Json {
    json!({"resultType": "input_required", "inputRequests": requests, "requestState": state})
}

/// Adds the subscription id to the parameters of a notification.
pub fn with_subscription_id(mut params: Json, subscription: &RequestId) -> Json {
    params["_meta"] = json!({meta_key::SUBSCRIPTION_ID: subscription.to_json()});
    params
}

fn is_legacy_method(method: &str) -> bool {
    matches!(method, "initialize" | "logging/setLevel")
        || matches!(method, "resources/subscribe" | "resources/unsubscribe")
        || is_common_method(method)
}

fn is_modern_method(method: &str) -> bool {
    matches!(method, "server/discover" | "subscriptions/listen") || is_common_method(method)
}

fn is_common_method(method: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> ServerSession {
        ServerSession::new(ServerIdentity {
            name: "s".to_owned(),
            title: Some("S".to_owned()),
            version: "1".to_owned(),
            instructions: Some("Be kind.".to_owned()),
            capabilities: Map::from_iter([("tools".to_owned(), json!({}))]),
        })
    }

    fn modern(version: &str) -> Json {
        json!({"_meta": {meta_key::VERSION: version, meta_key::CAPABILITIES: {"roots": {}}}})
    }

    fn code_of(admitted: Result<ClientContext, RpcError>) -> i64 {
        admitted.expect_err("it is rejected").code
    }

    #[test]
    fn a_legacy_client_initializes_first() {
        let mut session = session();
        assert_eq!(code_of(session.admit("tools/list", &Json::Null)), -32600);
        let params =
            json!({"protocolVersion": LEGACY_VERSIONS[1], "capabilities": {"elicitation": {}}});
        assert_eq!(session.admit("initialize", &params).expect("it is accepted").era, Era::Legacy);
        let result = session.initialize(&params);
        assert_eq!(result["protocolVersion"], LEGACY_VERSIONS[1]);
        assert_eq!(result["serverInfo"], json!({"name": "s", "version": "1", "title": "S"}));
        let context = session.admit("tools/list", &Json::Null).expect("it is accepted");
        assert_eq!(context.capabilities, json!({"elicitation": {}}));
        assert_eq!(code_of(session.admit("subscriptions/listen", &Json::Null)), -32601);
        let unknown = session.initialize(&json!({"protocolVersion": "1999-01-01"}));
        assert_eq!(unknown["protocolVersion"], LEGACY_VERSIONS[0]);
    }

    #[test]
    fn a_modern_request_needs_no_session() {
        let session = session();
        let mut params = modern(MODERN_VERSIONS[0]);
        params["_meta"]["progressToken"] = json!(7);
        let context = session.admit("tools/call", &params).expect("it is accepted");
        assert_eq!((context.era, context.progress_token), (Era::Modern, Some(json!(7))));
        assert_eq!(context.capabilities, json!({"roots": {}}));
        assert_eq!(code_of(session.admit("initialize", &modern(MODERN_VERSIONS[0]))), -32601);
        assert_eq!(code_of(session.admit("server/discover", &Json::Null)), -32602);
        let error = session.admit("tools/list", &modern("2999-01-01")).expect_err("unknown");
        let data: Json = error.data.expect("data").decode().expect("JSON");
        assert_eq!((error.code, &data["supported"]), (-32022, &json!(MODERN_VERSIONS)));
    }

    #[test]
    fn results_have_the_members_of_their_era() {
        let session = session();
        let encoded = |era, method| -> Json {
            session.encode_result(era, method, json!({"a": 1})).decode().expect("JSON")
        };
        assert_eq!(encoded(Era::Legacy, "tools/list"), json!({"a": 1}));
        let server = json!({meta_key::SERVER_INFO: {"name": "s", "version": "1", "title": "S"}});
        assert_eq!(
            encoded(Era::Modern, "tools/call"),
            json!({"a": 1, "resultType": "complete", "_meta": server})
        );
        assert_eq!(encoded(Era::Modern, "tools/list")["cacheScope"], "private");
    }

    #[test]
    fn a_message_of_a_subscription_names_it() {
        let tagged =
            with_subscription_id(json!({"uri": "a:b"}), &RequestId::from_json(&json!("x")));
        assert_eq!(tagged, json!({"uri": "a:b", "_meta": {meta_key::SUBSCRIPTION_ID: "x"}}));
        assert_eq!(RequestId::from_json(&json!(5)), RequestId::Number(5));
    }
}

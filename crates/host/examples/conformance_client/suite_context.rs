//! The context of a scenario and the configuration made from it: client credentials go into the entry's `oauth`;
//! requested calls are made as given.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::config::scope::Scope;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::config::source::{Origin, Source};
use switchboard::config::template::Template;

/// The environment variable with the context.
pub const VARIABLE: &str = "MCP_CONFORMANCE_CONTEXT";

/// Context members that identify the client, each with the matching key of `oauth` in an entry.
const IDENTITY: &[(&str, &str)] = &[
    ("client_id", "clientId"),
    ("client_secret", "clientSecret"),
    ("private_key_pem", "privateKey"),
    ("valid_jwt", "workloadToken"),
];

/// A call that the scenario requests.
#[derive(Debug, Deserialize)]
struct RequestedCall {
    name: String,
    #[serde(default)]
    arguments: Json,
}

/// The context of a scenario.
#[derive(Debug, Default, Deserialize)]
pub struct SuiteContext {
    #[serde(default, rename = "toolCalls")]
    tool_calls: Vec<RequestedCall>,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

impl SuiteContext {
    /// Parses the variable; without it, the context is empty.
    pub fn from_variable(value: Option<String>) -> Result<SuiteContext, serde_json::Error> {
        value.map_or_else(|| Ok(SuiteContext::default()), |text| serde_json::from_str(&text))
    }

    /// The server as an entry of a configuration file.
    pub fn entry(&self, url: &str) -> Json {
        let mut entry = json!({"type": "http", "url": url});
        let credentials = IDENTITY
            .iter()
            .filter_map(|&(member, key)| Some((key.to_owned(), self.rest.get(member)?.clone())));
        let mut oauth: Map<String, Json> = credentials.collect();
        if self.rest.contains_key("valid_jwt") {
            oauth.insert("grant".to_owned(), "jwt_bearer".into());
        }
        if self.rest.contains_key("idp_issuer") {
            oauth.insert("xaa".to_owned(), Json::Bool(true));
        }
        if !oauth.is_empty() {
            entry["oauth"] = Json::Object(oauth);
        }
        entry
    }

    /// The identity provider, if the scenario names one.
    pub fn identity_provider(&self) -> Option<IdentityProvider> {
        let text = |member: &str| self.rest.get(member)?.as_str().map(str::to_owned);
        Some(IdentityProvider {
            issuer: text("idp_issuer")?,
            client_id: Template::from_literal(&text("idp_client_id")?),
            client_secret: None,
            callback_port: None,
            token_endpoint: text("idp_token_endpoint"),
            identity_token: text("idp_id_token").map(|it| Template::from_literal(&it)),
            origin: Origin { source: Source::program(Scope::Dynamic, "the suite"), position: None },
        })
    }

    /// The arguments of every requested call of a tool, without null values.
    pub fn calls_of(&self, tool: &str) -> Vec<Json> {
        let calls = self.tool_calls.iter().filter(|call| call.name == tool);
        let arguments = calls.map(|call| call.arguments.as_object().cloned().unwrap_or_default());
        arguments.map(|it| it.into_iter().filter(|(_, value)| !value.is_null()).collect()).collect()
    }
}

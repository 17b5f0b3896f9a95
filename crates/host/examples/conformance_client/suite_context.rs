//! What a scenario hands over, and the configuration that it becomes: who we are to an authorization server goes
//! into the entry's `oauth`, calls that it wishes for are made as they are.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use switchboard::config::scope::Scope;
use switchboard::config::settings::identity_provider::IdentityProvider;
use switchboard::config::source::{Origin, Source};
use switchboard::config::template::Template;

/// The variable in which the suite hands it over.
pub const VARIABLE: &str = "MCP_CONFORMANCE_CONTEXT";

/// Each member of a context that says who we are, and the key of `oauth` that says the same in an entry.
const IDENTITY: &[(&str, &str)] = &[
    ("client_id", "clientId"),
    ("client_secret", "clientSecret"),
    ("private_key_pem", "privateKey"),
    ("valid_jwt", "workloadToken"),
];

/// A call that a scenario wishes for.
#[derive(Debug, Deserialize)]
struct RequestedCall {
    name: String,
    #[serde(default)]
    arguments: Json,
}

/// What a scenario hands over.
#[derive(Debug, Default, Deserialize)]
pub struct SuiteContext {
    #[serde(default, rename = "toolCalls")]
    tool_calls: Vec<RequestedCall>,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

impl SuiteContext {
    /// Reads the variable; without one, nothing is handed over.
    pub fn from_variable(value: Option<String>) -> Result<SuiteContext, serde_json::Error> {
        value.map_or_else(|| Ok(SuiteContext::default()), |text| serde_json::from_str(&text))
    }

    /// The server as an entry of a configuration file.
    pub fn entry(&self, url: &str) -> Json {
        let mut entry = json!({"type": "http", "url": url});
        let known = IDENTITY
            .iter()
            .filter_map(|&(member, key)| Some((key.to_owned(), self.rest.get(member)?.clone())));
        let mut oauth: Map<String, Json> = known.collect();
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

    /// Who vouches, where the scenario says so.
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

    /// The arguments of every call of a tool that is wished for. An argument that is null is not given.
    pub fn calls_of(&self, tool: &str) -> Vec<Json> {
        let calls = self.tool_calls.iter().filter(|call| call.name == tool);
        let given = calls.map(|call| call.arguments.as_object().cloned().unwrap_or_default());
        given.map(|it| it.into_iter().filter(|(_, value)| !value.is_null()).collect()).collect()
    }
}

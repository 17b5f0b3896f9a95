//! The configuration of an [`AuthorizationServer`](super::AuthorizationServer): metadata locations, clients,
//! policies, quirks and faults. The other modules implement it.

use serde_json::Value;

use super::endpoint_fault::{Endpoint, EndpointFault, ResponseFault};
use crate::scripted::script::Script;

/// The location of the protected resource metadata (RFC 9728).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceMetadataLocation {
    /// At the well-known path, followed by the resource's path.
    #[default]
    AtPath,
    /// At the well-known path of the root, as if the whole host were one resource.
    AtRoot,
    /// At a path that only the challenge names.
    InChallengeOnly,
    /// Not published.
    Absent,
}

/// The location of the authorization server metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerMetadataLocation {
    /// RFC 8414: the well-known part before the issuer's path.
    #[default]
    OauthInserted,
    /// The OpenID Connect document, with the well-known part before the issuer's path.
    OidcInserted,
    /// The OpenID Connect document at its standard location, after the issuer's path.
    OidcAppended,
    /// Not published: clients use the default endpoints of the 2025-03-26 protocol.
    Absent,
}

/// Where the authorization server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerOrigin {
    /// At its own origin.
    #[default]
    Separate,
    /// At the origin of the resource.
    SameAsResource,
}

/// The challenge for a request without a valid token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Challenge {
    /// One header that names the metadata.
    #[default]
    Full,
    /// One header without the metadata URL.
    WithoutMetadata,
    /// No header.
    None,
    /// Three headers, the relevant one last.
    Multiple,
}

/// How dynamic client registration behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// The client gets an id.
    #[default]
    Public,
    /// The client gets an id and a secret.
    WithSecret,
    /// The request is rejected.
    Refused,
    /// There is no registration endpoint.
    Absent,
}

/// Whether client metadata documents are supported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientMetadataDocuments {
    /// They are not supported.
    #[default]
    Unsupported,
    /// They are fetched.
    Supported,
}

/// How the user or the authorization server responds to an authorization request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// The user approves at once.
    #[default]
    Approves,
    /// The user denies.
    Denies,
    /// The user approves, and the server returns a wrong `state`.
    WrongState,
    /// The user approves, and the server omits `state`.
    NoState,
    /// The user sees a page with a link to approve.
    ShowsPage,
    /// The user approves, and the server redirects to the attacker.
    RedirectsToAttacker,
}

/// The `iss` parameter of the authorization response (RFC 9207).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerParameter {
    /// Announced and correct.
    #[default]
    Announced,
    /// Correct but not announced.
    Unannounced,
    /// Announced but missing.
    Missing,
    /// Names another issuer.
    Wrong,
    /// Neither announced nor sent.
    Absent,
}

/// Whether requests must name the resource (RFC 8707).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceIndicator {
    /// They must, and it must be the right one.
    #[default]
    Required,
    /// The parameter is ignored.
    Ignored,
}

/// Whether tokens are bound to a key (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DpopPolicy {
    /// Proofs are ignored.
    #[default]
    Ignored,
    /// A request with a proof gets a bound token.
    Optional,
    /// All tokens are bound.
    Required,
    /// All tokens are bound, and proofs need the server's nonce.
    RequiredWithNonce,
}

/// The responses to a device's polling (RFC 8628).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePolling {
    /// How often the response is `authorization_pending`.
    pub pending: usize,
    /// How often the response is `slow_down` after that.
    pub slow_down: usize,
    /// The final response.
    pub outcome: DeviceOutcome,
}

/// The final response to a device's polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOutcome {
    /// Tokens.
    Approved,
    /// The user denied.
    Denied,
    /// The code expired.
    Expired,
}

/// A preregistered client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreregisteredClient {
    /// The client id.
    pub id: String,
    /// The client secret.
    pub secret: Option<String>,
    /// The public key as a JWK, for signed assertions.
    pub key: Option<Value>,
}

/// A scope that a method or tool requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeRequirement {
    /// A method such as `tools/list`, or the name of a tool.
    pub target: String,
    /// The required scope.
    pub scope: String,
}

/// Unusual behaviour that is not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OAuthQuirk {
    /// Errors of the token endpoint have status 200 and `"ok": false`.
    ErrorsWithStatus200,
    /// An invalid refresh token gets this error code.
    RefreshErrorCode(String),
    /// `expires_in` is a string.
    ExpiresInAsString,
    /// `expires_in` is missing.
    NoExpiresIn,
    /// `token_type` is missing.
    NoTokenType,
    /// Tokens are inside `authed_user`.
    TokensInAuthedUser,
    /// Scopes are separated by commas.
    CommaSeparatedScopes,
    /// Refresh tokens are not rotated.
    NoRefreshRotation,
    /// No refresh tokens are issued.
    NoRefreshTokens,
    /// The authorization server metadata names another issuer.
    WrongIssuerInMetadata,
    /// The protected resource metadata names another resource.
    WrongResourceInMetadata,
    /// The metadata names this authorization endpoint.
    AuthorizationEndpoint(String),
    /// Tool calls always need a scope that the token does not have.
    AlwaysInsufficientScope,
}

/// The configuration of the servers.
#[derive(Debug, Clone)]
pub struct AuthorizationConfig {
    /// The script of the protected resource.
    pub script: Script,
    /// The location of the protected resource metadata.
    pub resource_metadata: ResourceMetadataLocation,
    /// The location of the authorization server metadata.
    pub issuer_metadata: IssuerMetadataLocation,
    /// The path of the issuer URL: empty, or with a leading slash.
    pub issuer_path: String,
    /// Where the authorization server is.
    pub issuer_origin: IssuerOrigin,
    /// The challenge for a request without a valid token.
    pub challenge: Challenge,
    /// The scope in the challenge.
    pub challenge_scope: Option<String>,
    /// How dynamic client registration behaves.
    pub registration: Registration,
    /// Whether client metadata documents are supported.
    pub client_metadata_documents: ClientMetadataDocuments,
    /// The preregistered clients.
    pub clients: Vec<PreregisteredClient>,
    /// The client id in assertions of the identity provider; the client's own id by default.
    pub id_jag_client: Option<String>,
    /// The supported client authentication methods at the token endpoint.
    pub auth_methods: Vec<String>,
    /// How the user responds.
    pub consent: Consent,
    /// The `iss` parameter of the authorization response.
    pub issuer_parameter: IssuerParameter,
    /// Whether requests must name the resource.
    pub resource_indicator: ResourceIndicator,
    /// Whether tokens are bound to a key.
    pub dpop: DpopPolicy,
    /// The scopes in the protected resource metadata.
    pub resource_scopes: Vec<String>,
    /// The scopes in the authorization server metadata.
    pub issuer_scopes: Vec<String>,
    /// The scopes that methods and tools require.
    pub scope_requirements: Vec<ScopeRequirement>,
    /// The lifetime of an access token in seconds.
    pub token_lifetime: u64,
    /// The delay of the token endpoint, so that requests can overlap.
    pub token_delay_ms: u64,
    /// The responses to device polling; without it device authorization is not supported.
    pub device: Option<DevicePolling>,
    /// Unusual behaviour.
    pub quirks: Vec<OAuthQuirk>,
    /// Faults of single endpoints.
    pub faults: Vec<EndpointFault>,
}

impl Default for AuthorizationConfig {
    fn default() -> AuthorizationConfig {
        AuthorizationConfig {
            script: Script::both(),
            resource_metadata: ResourceMetadataLocation::default(),
            issuer_metadata: IssuerMetadataLocation::default(),
            issuer_path: String::new(),
            issuer_origin: IssuerOrigin::default(),
            challenge: Challenge::default(),
            challenge_scope: None,
            registration: Registration::default(),
            client_metadata_documents: ClientMetadataDocuments::default(),
            clients: Vec::new(),
            id_jag_client: None,
            auth_methods: ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
                .map(str::to_owned)
                .to_vec(),
            consent: Consent::default(),
            issuer_parameter: IssuerParameter::default(),
            resource_indicator: ResourceIndicator::default(),
            dpop: DpopPolicy::default(),
            resource_scopes: Vec::new(),
            issuer_scopes: Vec::new(),
            scope_requirements: Vec::new(),
            token_lifetime: 3600,
            token_delay_ms: 0,
            device: None,
            quirks: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl AuthorizationConfig {
    /// A compliant configuration.
    pub fn compliant() -> AuthorizationConfig {
        AuthorizationConfig::default()
    }

    /// Adds a quirk.
    pub fn quirk(mut self, quirk: OAuthQuirk) -> AuthorizationConfig {
        self.quirks.push(quirk);
        self
    }

    /// Adds a permanent fault.
    pub fn fault(mut self, endpoint: Endpoint, kind: ResponseFault) -> AuthorizationConfig {
        self.faults.push(EndpointFault { endpoint, kind, after: 0, times: None });
        self
    }

    /// Adds a fault that happens once.
    pub fn fault_once(mut self, endpoint: Endpoint, kind: ResponseFault) -> AuthorizationConfig {
        self.faults.push(EndpointFault { endpoint, kind, after: 0, times: Some(1) });
        self
    }

    /// Adds a preregistered client.
    pub fn client(mut self, id: &str, secret: Option<&str>) -> AuthorizationConfig {
        let secret = secret.map(str::to_owned);
        self.clients.push(PreregisteredClient { id: id.to_owned(), secret, key: None });
        self
    }

    /// Adds a preregistered client with a public key.
    pub fn client_with_key(mut self, id: &str, key: Value) -> AuthorizationConfig {
        self.clients.push(PreregisteredClient { id: id.to_owned(), secret: None, key: Some(key) });
        self
    }

    /// Adds a required scope for a method or tool.
    pub fn scope_requirement(mut self, target: &str, scope: &str) -> AuthorizationConfig {
        self.scope_requirements
            .push(ScopeRequirement { target: target.to_owned(), scope: scope.to_owned() });
        self
    }

    /// Limits the client authentication methods.
    pub fn auth_methods(mut self, methods: &[&str]) -> AuthorizationConfig {
        self.auth_methods = methods.iter().map(|&it| it.to_owned()).collect();
        self
    }

    pub(crate) fn has_quirk(&self, quirk: &OAuthQuirk) -> bool {
        self.quirks.contains(quirk)
    }

    pub(crate) fn find_quirk<T>(&self, pick: impl Fn(&OAuthQuirk) -> Option<T>) -> Option<T> {
        self.quirks.iter().find_map(pick)
    }
}

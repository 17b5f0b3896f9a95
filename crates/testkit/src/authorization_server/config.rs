//! What an authority is and does, as a value: where its papers lie, whom it knows, what it demands, and what it does wrong.
//! The rest of `authority` plays it.

use serde_json::Value;

use super::endpoint_fault::{Endpoint, EndpointFault, ResponseFault};
use crate::scripted::script::Script;

/// Where the resource's metadata lies (RFC 9728).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceMetadataLocation {
    /// Behind the well-known path, with the resource's own path at its end.
    #[default]
    AtPath,
    /// At the root, as if the whole host were one resource.
    AtRoot,
    /// Somewhere that only a challenge names.
    InChallengeOnly,
    /// Nowhere.
    Absent,
}

/// Where the authorization server's metadata lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerMetadataLocation {
    /// RFC 8414: the well-known part comes before the issuer's path.
    #[default]
    OauthInserted,
    /// OpenID Connect's document, with its well-known part before the issuer's path.
    OidcInserted,
    /// OpenID Connect's document, where OpenID Connect puts it: after the issuer's path.
    OidcAppended,
    /// Nowhere: the endpoints are where the protocol of March 2025 guesses them.
    Absent,
}

/// Who is at which origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerOrigin {
    /// The authorization server has an origin of its own.
    #[default]
    Separate,
    /// It shares the origin of the resource.
    SameAsResource,
}

/// What a request without a good token is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Challenge {
    /// One header that names the metadata.
    #[default]
    Full,
    /// One header without a word about metadata.
    WithoutMetadata,
    /// No header at all.
    None,
    /// Three headers, ours the last.
    Multiple,
}

/// What becomes of a client that registers itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// It gets an id.
    #[default]
    Public,
    /// It gets an id and a secret.
    WithSecret,
    /// It is refused.
    Refused,
    /// There is no such endpoint.
    Absent,
}

/// Are documents taken that clients publish about themselves?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientMetadataDocuments {
    /// Not known.
    #[default]
    Unsupported,
    /// They are fetched.
    Supported,
}

/// What the person at the browser does, or what the server makes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// Says yes at once.
    #[default]
    Approves,
    /// Says no.
    Denies,
    /// Says yes, and the server sends back a state that nobody gave it.
    WrongState,
    /// Says yes, and the server forgets the state.
    NoState,
    /// Sees a page first, with a link that says yes.
    ShowsPage,
    /// Says yes, and is sent to somebody else's host.
    RedirectsToAttacker,
}

/// What an answer says about who sent it (RFC 9207).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerParameter {
    /// It is announced and right.
    #[default]
    Announced,
    /// It is right, though nobody announced it.
    Unannounced,
    /// It is announced and missing.
    Missing,
    /// It names somebody else.
    Wrong,
    /// It is neither announced nor there.
    Absent,
}

/// Must requests name the resource that a token is for (RFC 8707)?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceIndicator {
    /// Yes, and the right one.
    #[default]
    Required,
    /// Nobody looks.
    Ignored,
}

/// Are tokens bound to a key (RFC 9449)?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DpopPolicy {
    /// Nobody looks at proofs.
    #[default]
    Ignored,
    /// Whoever shows a proof gets a token that needs one.
    Optional,
    /// Every token needs proofs.
    Required,
    /// The same, with a number from the server in each of them.
    RequiredWithNonce,
}

/// What comes of a device's polling (RFC 8628).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePolling {
    /// How often it is told to wait.
    pub pending: usize,
    /// How often after that it is told to ask less often.
    pub slow_down: usize,
    /// How it ends.
    pub outcome: DeviceOutcome,
}

/// How a device's polling ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOutcome {
    /// With tokens.
    Approved,
    /// The person said no.
    Denied,
    /// Nobody came in time.
    Expired,
}

/// A client that is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreregisteredClient {
    /// Its id.
    pub id: String,
    /// Its secret, where it has one.
    pub secret: Option<String>,
    /// Its public key as a JWK, where it signs.
    pub key: Option<Value>,
}

/// What a method or tool needs besides a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeRequirement {
    /// A method such as `tools/list`, or the name of a tool.
    pub target: String,
    /// The scope that it takes.
    pub scope: String,
}

/// What an authority says that is unusual, though not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OAuthQuirk {
    /// Errors of the token endpoint come with status 200 and `"ok": false`.
    ErrorsWithStatus200,
    /// A dead refresh token is refused with this word.
    RefreshErrorCode(String),
    /// `expires_in` is a text.
    ExpiresInAsString,
    /// There is no `expires_in`.
    NoExpiresIn,
    /// There is no `token_type`.
    NoTokenType,
    /// Tokens are inside `authed_user`.
    TokensInAuthedUser,
    /// Scopes are separated by commas.
    CommaSeparatedScopes,
    /// A refresh token stays good when it is used.
    NoRefreshRotation,
    /// There are no refresh tokens.
    NoRefreshTokens,
    /// The metadata names another issuer.
    WrongIssuerInMetadata,
    /// The resource's metadata is about another resource.
    WrongResourceInMetadata,
    /// People are sent here to sign in, whatever it is.
    AuthorizationEndpoint(String),
    /// Whatever scope a token has, calls of tools need more.
    AlwaysInsufficientScope,
}

/// What an authority is and does.
#[derive(Debug, Clone)]
pub struct AuthorizationConfig {
    /// The server behind the gate.
    pub script: Script,
    /// Where its metadata lies.
    pub resource_metadata: ResourceMetadataLocation,
    /// Where the authorization server's metadata lies.
    pub issuer_metadata: IssuerMetadataLocation,
    /// The path of the issuer's address; empty, or with a slash at its beginning.
    pub issuer_path: String,
    /// Who is at which origin.
    pub issuer_origin: IssuerOrigin,
    /// What a request without a good token is told.
    pub challenge: Challenge,
    /// The scope that a challenge asks for.
    pub challenge_scope: Option<String>,
    /// What becomes of a client that registers itself.
    pub registration: Registration,
    /// Are documents taken that clients publish?
    pub client_metadata_documents: ClientMetadataDocuments,
    /// Clients that are known beforehand.
    pub clients: Vec<PreregisteredClient>,
    /// The id that the identity provider's clients have at the authorization server; the same where none is said.
    pub id_jag_client: Option<String>,
    /// How clients may show who they are at the token endpoint.
    pub auth_methods: Vec<String>,
    /// What the person does.
    pub consent: Consent,
    /// What an answer says about who sent it.
    pub issuer_parameter: IssuerParameter,
    /// Must requests name the resource?
    pub resource_indicator: ResourceIndicator,
    /// Are tokens bound to a key?
    pub dpop: DpopPolicy,
    /// The scopes that the resource's metadata lists.
    pub resource_scopes: Vec<String>,
    /// The scopes that the authorization server lists.
    pub issuer_scopes: Vec<String>,
    /// What needs which scope.
    pub scope_requirements: Vec<ScopeRequirement>,
    /// How long a token for the resource lives, in seconds.
    pub token_lifetime: u64,
    /// How long an exchange for tokens takes, so that several can meet.
    pub token_delay_ms: u64,
    /// What comes of a device's polling; without it there are no devices.
    pub device: Option<DevicePolling>,
    /// What is unusual.
    pub quirks: Vec<OAuthQuirk>,
    /// What goes wrong.
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
    /// An authority that does everything right.
    pub fn compliant() -> AuthorizationConfig {
        AuthorizationConfig::default()
    }

    /// With one more habit.
    pub fn quirk(mut self, quirk: OAuthQuirk) -> AuthorizationConfig {
        self.quirks.push(quirk);
        self
    }

    /// With something that goes wrong every time.
    pub fn fault(mut self, at: Endpoint, how: ResponseFault) -> AuthorizationConfig {
        self.faults.push(EndpointFault { endpoint: at, kind: how, after: 0, times: None });
        self
    }

    /// With something that goes wrong once.
    pub fn fault_once(mut self, at: Endpoint, how: ResponseFault) -> AuthorizationConfig {
        self.faults.push(EndpointFault { endpoint: at, kind: how, after: 0, times: Some(1) });
        self
    }

    /// With a client that is known beforehand.
    pub fn client(mut self, id: &str, secret: Option<&str>) -> AuthorizationConfig {
        let secret = secret.map(str::to_owned);
        self.clients.push(PreregisteredClient { id: id.to_owned(), secret, key: None });
        self
    }

    /// With a client that is known beforehand by its public key.
    pub fn client_with_key(mut self, id: &str, key: Value) -> AuthorizationConfig {
        self.clients.push(PreregisteredClient { id: id.to_owned(), secret: None, key: Some(key) });
        self
    }

    /// With a scope that a method or tool needs.
    pub fn scope_requirement(mut self, target: &str, scope: &str) -> AuthorizationConfig {
        self.scope_requirements
            .push(ScopeRequirement { target: target.to_owned(), scope: scope.to_owned() });
        self
    }

    /// Taking only these ways of showing who a client is.
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

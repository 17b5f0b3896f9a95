//! The connectors of an account: listed by its API, remembered for starts without a network, and reached through its
//! proxy. The account's token is shown to the API's own origin and to nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use switchboard_auth::discovery::auth_server_metadata::AuthServerMetadata;
use switchboard_auth::fetch::origin_guard::{AllowedAddresses, CheckedUrl};
use switchboard_auth::fetch::{FetchError, FetchRequest, FetchResponse};
use switchboard_auth::registration::{ClientAuthMethod as Showing, ClientProvenance, OAuthClient};
use switchboard_auth::secret::Secret;
use switchboard_auth::token::response::TokenType;
use switchboard_auth::token_provider::TokenProvider;
use switchboard_auth::token_provider::refresher::{Refresher, TrustSettings};
use switchboard_auth::token_store;
use switchboard_auth::token_store::{LoginKey, LoginRecord, LoginStatus, StoredTokens};
use switchboard_config::entry::name::ServerName;
use switchboard_config::entry::server::sha256;
use switchboard_config::file::layer::{FileShape, Layer, Naming};
use switchboard_config::scope::Scope;
use switchboard_config::settings::connector_account::ConnectorAccount;
use switchboard_config::source::Source;
use switchboard_config::template::Template;
use switchboard_wire::http::client::{Authorize, OutboundRequest, ResponseHead, RetryDecision};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::connection::resolve::HostEnv;
use crate::failure::{ConnectionFailure, Evidence, FailureKind};
use crate::host::{ConnectionContext, Host};
use crate::login::dynamic_headers::{DynamicHeaders, HeaderSource, HeadersFuture, OriginBound};
use crate::login::server_login::{ServerLoginError, error_chain};
use crate::sources::paths::Paths;
use crate::sources::secrets;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// What every connector's name begins with.
const PREFIX: &str = "claude.ai ";
/// As which client an account's login is kept: no server's entry can say this.
const CLIENT_ID: &str = "connector account";
/// How long the whole list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most that is taken of a list.
const MAX_CONNECTORS: usize = 500;
const MAX_PAGES: usize = 50;
const MAX_NAME_CHARS: usize = 80;
const MAX_URL_BYTES: usize = 4096;
const MAX_CURSOR_BYTES: usize = 1024;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// How often a page is asked for.
const MAX_ATTEMPTS: usize = 3;
/// How long a token that the settings name is shown before it is looked up again.
const TOKEN_TTL: Duration = Duration::from_secs(5 * 60);

/// A connector as the account lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connector {
    /// What the account knows it by.
    pub id: String,
    /// The name of its server here.
    pub name: String,
    /// Where the proxy reaches it.
    pub url: String,
}

/// An account's connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorList {
    /// Those that can be used.
    pub connectors: Vec<Connector>,
    /// How many others were listed that cannot.
    pub skipped: usize,
    /// When the account said so, in seconds since 1970.
    pub listed_at: u64,
    /// Why this is what it said the last time, where it is.
    pub stale_reason: Option<String>,
}

/// What is kept of a listing.
#[derive(Serialize, Deserialize)]
struct CachedConnectors {
    at: u64,
    connectors: Vec<Connector>,
}

/// Why there is no list of connectors.
#[derive(Debug, Error)]
pub enum ConnectorsError {
    /// There is no account.
    #[error("no connector account is set up: `connectorAccount` in your settings names one")]
    NoAccount,
    /// The account's token cannot be had.
    #[error("the token of your connector account cannot be used")]
    Token(#[source] Arc<ServerLoginError>),
    /// The account does not take the token.
    #[error("the token of your connector account is refused")]
    TokenRefused,
    /// Nobody answered.
    #[error("your connector account could not be asked")]
    Fetch(#[source] FetchError),
    /// It took too long.
    #[error("your connector account did not list its connectors within {} s", LIST_TIMEOUT.as_secs())]
    Timeout,
    /// It answered with something else.
    #[error("your connector account answered with HTTP {0} and no list of connectors")]
    InvalidResponse(u16),
}

impl ConnectorList {
    /// How long ago the account said so.
    pub fn age(&self) -> Duration {
        Duration::from_secs(now().saturating_sub(self.listed_at))
    }

    /// The servers that come of it.
    pub fn layer(&self) -> Layer {
        let entry = |it: &Connector| {
            // An account names no variable and no secret of this machine.
            let url = it.url.replace('$', "$$");
            (it.name.clone(), json!({"type": "connector-proxy", "url": url}))
        };
        let servers: serde_json::Map<String, Json> = self.connectors.iter().map(entry).collect();
        let text = json!({"mcpServers": servers}).to_string();
        let name = match self.age().as_secs() {
            0..HOUR => "your connector account".to_owned(),
            age @ HOUR..DAY => format!("your connector account (listed {} h ago)", age / HOUR),
            age => format!("your connector account (listed {} days ago)", age / DAY),
        };
        let source = Source::program(Scope::Connectors, &name);
        Layer::read(&source, &text, Naming::Plain, FileShape::Wrapped)
    }

    fn with_stale_reason(mut self, error: &ConnectorsError) -> ConnectorList {
        self.stale_reason = Some(error_chain(error));
        self
    }
}

/// What the account said the last time, where that is known. Reads a file; blocks.
pub fn cached_connectors(paths: &Paths, account: &ConnectorAccount) -> Option<ConnectorList> {
    let Ok(FileContent::Text(text)) =
        text_file::read_text(&cache_path(paths, account), AllowedFiles::RegularOnly)
    else {
        return None;
    };
    let CachedConnectors { at, connectors } = serde_json::from_str(&text).ok()?;
    let origin = Url::parse(&account.api_url).ok()?.origin();
    let listed =
        connectors.into_iter().map(|it| ApiConnector { id: it.id, name: it.name, url: it.url });
    let (connectors, skipped) = usable_connectors(listed, &origin);
    Some(ConnectorList { connectors, skipped, listed_at: at, stale_reason: None })
}

fn cache_path(paths: &Paths, account: &ConnectorAccount) -> PathBuf {
    let key = sha256(account.api_url.as_bytes());
    paths.connectors().join(format!("{}.json", &key[..32]))
}

/// The account's token, shown to its API's origin alone.
pub(crate) struct AccountToken {
    url: Url,
    authorizer: Arc<OriginBound>,
    stored: Option<Arc<TokenProvider>>,
    configured: Option<Arc<DynamicHeaders>>,
}

impl fmt::Debug for AccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

impl AccountToken {
    /// That of the settings' account, where there is one: the token that the settings name, else the login that is kept.
    pub(crate) async fn open(
        context: &ConnectionContext,
    ) -> Result<Option<Arc<AccountToken>>, ConnectionFailure> {
        let Some(account) = &context.login_options.account else { return Ok(None) };
        let Ok(url) = Url::parse(&account.api_url) else { return Ok(None) };
        let origin = url.origin();
        if let Some(token) = &account.token {
            let token = ConfiguredToken { token: token.clone(), env: context.env.clone() };
            let named = Arc::new(DynamicHeaders::new(token, TOKEN_TTL));
            let shown = Arc::new(OriginBound { origin, inner: named.clone() });
            return Ok(Some(Arc::new(AccountToken {
                url,
                authorizer: shown,
                stored: None,
                configured: Some(named),
            })));
        }
        let services = context.login_services().await?;
        let trust = TrustSettings {
            server: url.clone(),
            trusted_urls: Vec::new(),
            proxies: services.proxies().to_vec(),
            signing_key: None,
        };
        let refresher =
            Refresher::new(services.token_store().clone(), services.fetch().clone(), trust);
        let keeper = Arc::new(TokenProvider::new(refresher, CLIENT_ID));
        let shown = Arc::new(OriginBound { origin, inner: keeper.clone() });
        Ok(Some(Arc::new(AccountToken {
            url,
            authorizer: shown,
            stored: Some(keeper),
            configured: None,
        })))
    }

    /// For every request to a connector.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.authorizer.clone()
    }

    /// Why a connector at this URL wants a login.
    pub(crate) async fn refusal_reason(&self, url: &Url) -> String {
        if !self.authorizer.is_for(url) {
            return "it is not at your connector account's own address, and is shown no token"
                .into();
        }
        if let Some(trouble) = self.configured.as_ref().and_then(|it| it.last_error()) {
            return trouble;
        }
        let outbound = OutboundRequest { method: &Method::GET, url };
        let is_wanting = self.stored.as_ref().is_some_and(|it| it.required_action().is_some());
        match is_wanting && self.authorizer.headers(outbound).await.is_empty() {
            true => "no token of your connector account is kept".to_owned(),
            false => ConnectorsError::TokenRefused.to_string(),
        }
    }
}

/// A token that the settings name.
struct ConfiguredToken {
    token: Template,
    env: HostEnv,
}

impl HeaderSource for ConfiguredToken {
    fn produce(&self) -> HeadersFuture<'_> {
        Box::pin(async move {
            let (token, env) = (self.token.clone(), self.env.clone());
            let revealing = tokio::task::spawn_blocking(move || bearer_header(&token, &env)).await;
            revealing.unwrap_or_else(|_| Err("the token could not be looked up".to_owned()))
        })
    }
}

/// Blocks while a secret is fetched.
fn bearer_header(token: &Template, env: &HostEnv) -> Result<HeaderMap, String> {
    let mut unset = BTreeSet::new();
    let variables: BTreeMap<String, String> = env.variables.clone();
    let text = token.expand(&variables.into_iter().collect(), &mut unset);
    if let Some(name) = unset.first() {
        return Err(format!("`connectorAccount.token` names {name}, which is not set"));
    }
    let token = secrets::reveal_text(&text, &env.home)
        .map_err(|error| format!("`connectorAccount.token`: {}", error_chain(&error)))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| "`connectorAccount.token` cannot be sent as a header".to_owned())?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
}

/// A connector as the API writes it.
#[derive(Deserialize)]
struct ApiConnector {
    #[serde(default)]
    id: String,
    name: String,
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConnectorPage {
    connectors: Vec<Json>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl Host {
    /// The account's connectors: as it lists them now, else as it did the last time, with the reason.
    pub async fn connectors(&self) -> Result<ConnectorList, ConnectorsError> {
        let context = self.context();
        let account = context.login_options.account.as_ref().ok_or(ConnectorsError::NoAccount)?;
        let listed = match timeout(LIST_TIMEOUT, fetch_list(context)).await {
            Ok(listed) => listed,
            Err(_) => Err(ConnectorsError::Timeout),
        };
        let path = cache_path(&context.paths, account);
        match listed {
            Ok(listing) => {
                let kept = CachedConnectors {
                    at: listing.listed_at,
                    connectors: listing.connectors.clone(),
                };
                if let Ok(text) = serde_json::to_string(&kept) {
                    context.state_writer.write_file(path, text + "\n");
                }
                Ok(listing)
            }
            Err(error) => {
                let (paths, account) = (context.paths.clone(), account.clone());
                let looking = move || cached_connectors(&paths, &account);
                let known = tokio::task::spawn_blocking(looking).await.ok().flatten();
                known.map(|it| it.with_stale_reason(&error)).ok_or(error)
            }
        }
    }

    /// Keeps a token for the connector account, in place of the one before.
    pub async fn store_account_token(
        &self,
        token: Secret,
        ttl: Option<Duration>,
    ) -> Result<(), ServerLoginError> {
        let context = self.context();
        let unusable = |cause| ServerLoginError::Unavailable(Arc::new(cause));
        let account = context.login_options.account.as_ref().ok_or_else(|| {
            let detail = Evidence::Detail(ConnectorsError::NoAccount.to_string());
            unusable(ConnectionFailure::new(FailureKind::InvalidConfig).with_evidence(detail))
        })?;
        let services = context.login_services().await.map_err(unusable)?;
        let record = token_record(account, token, ttl);
        token_store::overwrite(&**services.token_store(), record).await?;
        Ok(())
    }
}

async fn fetch_list(context: &ConnectionContext) -> Result<ConnectorList, ConnectorsError> {
    let token =
        |cause| ConnectorsError::Token(Arc::new(ServerLoginError::Unavailable(Arc::new(cause))));
    let services = context.login_services().await.map_err(token)?;
    let bearer = context.account_token().await.map_err(token)?.ok_or(ConnectorsError::NoAccount)?;
    let (mut connectors_listed, mut skipped) = (Vec::new(), 0);
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut url = bearer.url.clone();
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let answer = fetch_page(&bearer, url, |request| services.fetch().fetch(request)).await?;
        let page: ConnectorPage = serde_json::from_slice(&answer.body)
            .ok()
            .filter(|_| answer.is_success())
            .ok_or(ConnectorsError::InvalidResponse(answer.status))?;
        for item in page.connectors {
            match serde_json::from_value::<ApiConnector>(item) {
                Ok(it) => connectors_listed.push(it),
                Err(_) => skipped += 1,
            }
        }
        cursor = page.next_cursor.filter(|it| it.len() <= MAX_CURSOR_BYTES && !it.is_empty());
        if cursor.is_none() || connectors_listed.len() >= MAX_CONNECTORS {
            break;
        }
    }
    let (connectors, unfit) =
        usable_connectors(connectors_listed.into_iter(), &bearer.url.origin());
    Ok(ConnectorList { connectors, skipped: skipped + unfit, listed_at: now(), stale_reason: None })
}

/// Asks, and asks again where there is a better token to show.
async fn fetch_page<'f>(
    bearer: &AccountToken,
    url: Url,
    fetch: impl Fn(FetchRequest) -> switchboard_auth::fetch::FetchFuture<'f>,
) -> Result<FetchResponse, ConnectorsError> {
    for _ in 0..MAX_ATTEMPTS {
        let shown =
            bearer.authorizer.headers(OutboundRequest { method: &Method::GET, url: &url }).await;
        // A person typed it, in settings.
        let mut request =
            FetchRequest::get(CheckedUrl { url: url.clone(), allowed: AllowedAddresses::Any });
        let authorization = shown.get(header::AUTHORIZATION).cloned();
        request.headers.extend(shown);
        let answer = fetch(request).await.map_err(ConnectorsError::Fetch)?;
        let reception = ResponseHead {
            status: answer.status,
            headers: &answer.headers,
            authorization: authorization.as_ref(),
        };
        if answer.status != 401 && answer.status != 403 {
            bearer.authorizer.on_response(reception);
            return Ok(answer);
        }
        if bearer.authorizer.on_unauthorized(reception).await == RetryDecision::GiveUp {
            break;
        }
    }
    Err(ConnectorsError::TokenRefused)
}

/// Those that can be used, each under a name of its own, and how many cannot.
fn usable_connectors(
    connectors_listed: impl Iterator<Item = ApiConnector>,
    origin: &url::Origin,
) -> (Vec<Connector>, usize) {
    let (mut taken, mut skipped) = (Vec::<Connector>::new(), 0);
    for ApiConnector { id, name, url } in connectors_listed {
        let is_same_origin = url.len() <= MAX_URL_BYTES
            && Url::parse(&url).is_ok_and(|it| it.origin() == *origin && it.username().is_empty());
        let is_taken = |name: &str| taken.iter().any(|it| it.name == name);
        let name = server_name(&name, is_taken);
        match name.filter(|_| is_same_origin && taken.len() < MAX_CONNECTORS) {
            Some(name) => {
                let id = id.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
                taken.push(Connector { id, name, url });
            }
            None => skipped += 1,
        }
    }
    (taken, skipped)
}

/// A server's name for a connector that is called so.
fn server_name(called: &str, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let called = called.strip_prefix(PREFIX).unwrap_or(called);
    let plain = |c: char| if c.is_control() || c == ':' { ' ' } else { c };
    let clean: String = called.chars().map(plain).take(MAX_NAME_CHARS).collect();
    let mut clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    while clean.contains("__") {
        clean = clean.replace("__", "_");
    }
    let is_readable = clean.chars().any(char::is_alphanumeric);
    let numbered = (2..=MAX_CONNECTORS).map(|number| format!("{PREFIX}{clean} {number}"));
    let mut names = std::iter::once(format!("{PREFIX}{clean}")).chain(numbered);
    let name = names.find(|name| !is_taken(name)).filter(|_| is_readable)?;
    ServerName::for_connector(&name).ok().map(|it| it.as_str().to_owned())
}

/// A token as a login.
fn token_record(account: &ConnectorAccount, token: Secret, ttl: Option<Duration>) -> LoginRecord {
    let issuer = account.api_url.clone();
    let server = Url::parse(&account.api_url).map_or_else(|_| issuer.clone(), String::from);
    let at = now();
    LoginRecord {
        key: LoginKey { server, issuer: issuer.clone(), client: CLIENT_ID.to_owned() },
        version: 0,
        status: LoginStatus::Good,
        tokens: StoredTokens {
            access_token: token,
            token_type: TokenType::Bearer,
            refresh_token: None,
            id_token: None,
            issued_at: at,
            expires_at: ttl.map(|it| at.saturating_add(it.as_secs())),
        },
        client: OAuthClient {
            id: CLIENT_ID.to_owned(),
            secret: None,
            method: Showing::None,
            issuer: issuer.clone(),
            redirect: None,
            provenance: ClientProvenance::Configured,
        },
        metadata: AuthServerMetadata {
            token_endpoint: issuer.clone(),
            issuer,
            authorization_endpoint: None,
            registration_endpoint: None,
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            token_endpoint_auth_methods_supported: None,
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
            dpop_signing_alg_values_supported: None,
            code_challenge_methods_supported: None,
            grant_types_supported: None,
        },
        resource: None,
        scopes: None,
        dpop_key: None,
        account: None,
        signed_in_at: at,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(connectors_listed: &[(&str, &str)]) -> (Vec<String>, usize) {
        let origin = Url::parse("https://api.example/v1").expect("a URL").origin();
        let one = |(name, url): &(&str, &str)| {
            let (name, url) = ((*name).to_owned(), (*url).to_owned());
            ApiConnector { id: String::new(), name, url }
        };
        let (connectors, skipped) = usable_connectors(connectors_listed.iter().map(one), &origin);
        (connectors.into_iter().map(|it| it.name).collect(), skipped)
    }

    #[test]
    fn names_are_made_fit_and_unique_and_other_origins_are_left_out() {
        let home = "https://api.example/p?mcp_url=x";
        let (names, skipped) = check(&[
            ("Slack", home),
            ("claude.ai Slack", home),
            ("a\u{1b}:b__ _c ", home),
            ("\n", home),
            ("Away", "https://elsewhere.example/p"),
            ("Other port", "https://api.example:8443/p"),
            ("User", "https://me@api.example/p"),
        ]);
        assert_eq!(names, ["claude.ai Slack", "claude.ai Slack 2", "claude.ai a b_ _c"]);
        assert_eq!(skipped, 4);
    }

    #[test]
    fn the_age_of_a_list_is_shown_where_it_has_one() {
        let source = |age: u64| {
            let at = now() - age;
            let listing = ConnectorList {
                connectors: Vec::new(),
                skipped: 0,
                listed_at: at,
                stale_reason: None,
            };
            listing.layer().source.to_string()
        };
        assert_eq!(source(60), "your connector account");
        assert_eq!(source(2 * HOUR + 5), "your connector account (listed 2 h ago)");
        assert_eq!(source(3 * DAY + 5), "your connector account (listed 3 days ago)");
    }

    #[test]
    fn an_account_names_no_variable_and_no_secret_of_this_machine() {
        let url = "https://api.example/p?a=${HOME}&b=${command:id}".to_owned();
        let (id, name) = (String::new(), "claude.ai X".to_owned());
        let connectors = vec![Connector { id, name, url: url.clone() }];
        let listing = ConnectorList { connectors, skipped: 0, listed_at: 0, stale_reason: None };
        let layer = listing.layer();
        let entry = layer.definitions[0].entry.clone().expect("a good entry");
        let name = ServerName::for_connector("claude.ai X").expect("a name");
        let variables = BTreeMap::from([("HOME".to_owned(), "canary".to_owned())]);
        let spec = entry.expand(name, &variables.into_iter().collect(), &mut BTreeSet::new());
        let written = spec.transport.url().expect("a URL");
        assert_eq!(secrets::reveal_text(written, "/".as_ref()).expect("plain").reveal(), url);
    }
}

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
use switchboard_auth::confidential::Secret;
use switchboard_auth::discovery::server_metadata::ServerMetadata;
use switchboard_auth::fetch::{Answer, FetchError, Request};
use switchboard_auth::keeper::Keeper;
use switchboard_auth::origin_guard::{Checked, Reach};
use switchboard_auth::refresh::{Refresher, Trust};
use switchboard_auth::registration::{Client, Method as Showing, Provenance};
use switchboard_auth::token::Kind;
use switchboard_auth::vault::{self, Held, Record, RecordKey, Standing};
use switchboard_config::account::Account;
use switchboard_config::entry::sha256;
use switchboard_config::layer::{Layer, Naming, Shape};
use switchboard_config::name::ServerName;
use switchboard_config::scope::Scope;
use switchboard_config::source::Source;
use switchboard_config::template::Template;
use switchboard_wire::network::{Authorize, Outbound, Reception, Verdict};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::address::Around;
use crate::cause::{Cause, CauseKind, Evidence};
use crate::engine::{Host, Settings};
use crate::places::Places;
use crate::read::{self, Content, Kinds};
use crate::reveal;
use crate::shown_headers::{OnlyAt, Producer, Producing, ShownHeaders};
use crate::signing::{SigningError, with_causes};

/// What every connector's name begins with.
const PREFIX: &str = "claude.ai ";
/// As which client an account's login is kept: no server's entry can say this.
const CLIENT: &str = "connector account";
/// How long the whole list may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is taken of a list.
const MOST: usize = 500;
const MOST_PAGES: usize = 50;
const LONGEST_NAME: usize = 80;
const LONGEST_URL: usize = 4096;
const LONGEST_CURSOR: usize = 1024;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// How often a page is asked for.
const ATTEMPTS: usize = 3;
/// How long a token that the settings name is shown before it is looked up again.
const TOKEN_LASTS: Duration = Duration::from_secs(5 * 60);

/// A connector as the account lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedConnector {
    /// What the account knows it by.
    pub id: String,
    /// The name of its server here.
    pub name: String,
    /// Where the proxy reaches it.
    pub url: String,
}

/// An account's connectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Those that can be used.
    pub connectors: Vec<ListedConnector>,
    /// How many others were listed that cannot.
    pub left_out: usize,
    /// When the account said so, in seconds since 1970.
    pub at: u64,
    /// Why this is what it said the last time, where it is.
    pub because: Option<String>,
}

/// What is kept of a listing.
#[derive(Serialize, Deserialize)]
struct Kept {
    at: u64,
    connectors: Vec<ListedConnector>,
}

/// Why there is no list of connectors.
#[derive(Debug, Error)]
pub enum ConnectorsError {
    /// There is no account.
    #[error("no connector account is set up: `connectorAccount` in your settings names one")]
    NoAccount,
    /// The account's token cannot be had.
    #[error("the token of your connector account cannot be used")]
    Token(#[source] Arc<SigningError>),
    /// The account does not take the token.
    #[error("the token of your connector account is refused")]
    Refused,
    /// Nobody answered.
    #[error("your connector account could not be asked")]
    Fetch(#[source] FetchError),
    /// It took too long.
    #[error("your connector account did not list its connectors within {} s", PATIENCE.as_secs())]
    Late,
    /// It answered with something else.
    #[error("your connector account answered with HTTP {0} and no list of connectors")]
    NoList(u16),
}

impl Listing {
    /// How long ago the account said so.
    pub fn age(&self) -> Duration {
        Duration::from_secs(now().saturating_sub(self.at))
    }

    /// The servers that come of it.
    pub fn layer(&self) -> Layer {
        let entry = |it: &ListedConnector| {
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
        Layer::read(&source, &text, Naming::Plain, Shape::Wrapped)
    }

    fn remembered_because(mut self, error: &ConnectorsError) -> Listing {
        self.because = Some(with_causes(error));
        self
    }
}

/// What the account said the last time, where that is known. Reads a file; blocks.
pub fn remembered(places: &Places, account: &Account) -> Option<Listing> {
    let Ok(Content::Text(text)) = read::text(&file(places, account), Kinds::RegularOnly) else {
        return None;
    };
    let Kept { at, connectors } = serde_json::from_str(&text).ok()?;
    let origin = Url::parse(&account.api_url).ok()?.origin();
    let listed = connectors.into_iter().map(|it| Offered { id: it.id, name: it.name, url: it.url });
    let (connectors, left_out) = taken(listed, &origin);
    Some(Listing { connectors, left_out, at, because: None })
}

fn file(places: &Places, account: &Account) -> PathBuf {
    let key = sha256(account.api_url.as_bytes());
    places.connectors().join(format!("{}.json", &key[..32]))
}

/// The account's token, shown to its API's origin alone.
pub(crate) struct Bearer {
    url: Url,
    shown: Arc<OnlyAt>,
    kept: Option<Arc<Keeper>>,
    named: Option<Arc<ShownHeaders>>,
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

impl Bearer {
    /// That of the settings' account, where there is one: the token that the settings name, else the login that is kept.
    pub(crate) async fn of(settings: &Settings) -> Result<Option<Arc<Bearer>>, Cause> {
        let Some(account) = &settings.signing.account else { return Ok(None) };
        let Ok(url) = Url::parse(&account.api_url) else { return Ok(None) };
        let origin = url.origin();
        if let Some(token) = &account.token {
            let token = NamedToken { token: token.clone(), around: settings.around.clone() };
            let named = Arc::new(ShownHeaders::new(token, TOKEN_LASTS));
            let shown = Arc::new(OnlyAt { origin, inner: named.clone() });
            return Ok(Some(Arc::new(Bearer { url, shown, kept: None, named: Some(named) })));
        }
        let signing = settings.signing_in().await?;
        let trust = Trust {
            server: url.clone(),
            typed: Vec::new(),
            proxies: signing.proxies().to_vec(),
            key: None,
        };
        let refresher = Refresher::new(signing.vault().clone(), signing.fetch().clone(), trust);
        let keeper = Arc::new(Keeper::new(refresher, CLIENT));
        let shown = Arc::new(OnlyAt { origin, inner: keeper.clone() });
        Ok(Some(Arc::new(Bearer { url, shown, kept: Some(keeper), named: None })))
    }

    /// For every request to a connector.
    pub(crate) fn authorize(&self) -> Arc<dyn Authorize> {
        self.shown.clone()
    }

    /// Why a connector at this URL wants a login.
    pub(crate) async fn explain(&self, url: &Url) -> String {
        if !self.shown.is_for(url) {
            return "it is not at your connector account's own address, and is shown no token"
                .into();
        }
        if let Some(trouble) = self.named.as_ref().and_then(|it| it.trouble()) {
            return trouble;
        }
        let outbound = Outbound { method: &Method::GET, url };
        let is_wanting = self.kept.as_ref().is_some_and(|it| it.wanting().is_some());
        match is_wanting && self.shown.headers(outbound).await.is_empty() {
            true => "no token of your connector account is kept".to_owned(),
            false => ConnectorsError::Refused.to_string(),
        }
    }
}

/// A token that the settings name.
struct NamedToken {
    token: Template,
    around: Around,
}

impl Producer for NamedToken {
    fn produce(&self) -> Producing<'_> {
        Box::pin(async move {
            let (token, around) = (self.token.clone(), self.around.clone());
            let revealing = tokio::task::spawn_blocking(move || bearer(&token, &around)).await;
            revealing.unwrap_or_else(|_| Err("the token could not be looked up".to_owned()))
        })
    }
}

/// Blocks while a secret is fetched.
fn bearer(token: &Template, around: &Around) -> Result<HeaderMap, String> {
    let mut unset = BTreeSet::new();
    let variables: BTreeMap<String, String> = around.variables.clone();
    let text = token.expand(&variables.into_iter().collect(), &mut unset);
    if let Some(name) = unset.first() {
        return Err(format!("`connectorAccount.token` names {name}, which is not set"));
    }
    let token = reveal::text(&text, &around.home)
        .map_err(|error| format!("`connectorAccount.token`: {}", with_causes(&error)))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| "`connectorAccount.token` cannot be sent as a header".to_owned())?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
}

/// A connector as the API writes it.
#[derive(Deserialize)]
struct Offered {
    #[serde(default)]
    id: String,
    name: String,
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    connectors: Vec<Json>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl Host {
    /// The account's connectors: as it lists them now, else as it did the last time, with the reason.
    pub async fn connectors(&self) -> Result<Listing, ConnectorsError> {
        let settings = self.settings();
        let account = settings.signing.account.as_ref().ok_or(ConnectorsError::NoAccount)?;
        let listed = match timeout(PATIENCE, listed(settings)).await {
            Ok(listed) => listed,
            Err(_) => Err(ConnectorsError::Late),
        };
        let path = file(&settings.places, account);
        match listed {
            Ok(listing) => {
                let kept = Kept { at: listing.at, connectors: listing.connectors.clone() };
                if let Ok(text) = serde_json::to_string(&kept) {
                    settings.scribe.keep(path, text + "\n");
                }
                Ok(listing)
            }
            Err(error) => {
                let (places, account) = (settings.places.clone(), account.clone());
                let looking = move || remembered(&places, &account);
                let known = tokio::task::spawn_blocking(looking).await.ok().flatten();
                known.map(|it| it.remembered_because(&error)).ok_or(error)
            }
        }
    }

    /// Keeps a token for the connector account, in place of the one before.
    pub async fn keep_account_token(
        &self,
        token: Secret,
        lasts: Option<Duration>,
    ) -> Result<(), SigningError> {
        let settings = self.settings();
        let unusable = |cause| SigningError::Unusable(Arc::new(cause));
        let account = settings.signing.account.as_ref().ok_or_else(|| {
            let detail = Evidence::Detail(ConnectorsError::NoAccount.to_string());
            unusable(Cause::of(CauseKind::Unusable).with(detail))
        })?;
        let signing = settings.signing_in().await.map_err(unusable)?;
        let record = record(account, token, lasts);
        vault::put(&**signing.vault(), record).await?;
        Ok(())
    }
}

async fn listed(settings: &Settings) -> Result<Listing, ConnectorsError> {
    let token = |cause| ConnectorsError::Token(Arc::new(SigningError::Unusable(Arc::new(cause))));
    let signing = settings.signing_in().await.map_err(token)?;
    let bearer = settings.bearer().await.map_err(token)?.ok_or(ConnectorsError::NoAccount)?;
    let (mut offered, mut left_out) = (Vec::new(), 0);
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut url = bearer.url.clone();
        if let Some(cursor) = &cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let answer = asked(&bearer, url, |request| signing.fetch().fetch(request)).await?;
        let page: Page = serde_json::from_slice(&answer.body)
            .ok()
            .filter(|_| answer.is_success())
            .ok_or(ConnectorsError::NoList(answer.status))?;
        for item in page.connectors {
            match serde_json::from_value::<Offered>(item) {
                Ok(it) => offered.push(it),
                Err(_) => left_out += 1,
            }
        }
        cursor = page.next_cursor.filter(|it| it.len() <= LONGEST_CURSOR && !it.is_empty());
        if cursor.is_none() || offered.len() >= MOST {
            break;
        }
    }
    let (connectors, unfit) = taken(offered.into_iter(), &bearer.url.origin());
    Ok(Listing { connectors, left_out: left_out + unfit, at: now(), because: None })
}

/// Asks, and asks again where there is a better token to show.
async fn asked<'f>(
    bearer: &Bearer,
    url: Url,
    fetch: impl Fn(Request) -> switchboard_auth::fetch::Fetching<'f>,
) -> Result<Answer, ConnectorsError> {
    for _ in 0..ATTEMPTS {
        let shown = bearer.shown.headers(Outbound { method: &Method::GET, url: &url }).await;
        // A person typed it, in settings.
        let mut request = Request::get(Checked { url: url.clone(), reach: Reach::Anywhere });
        let authorization = shown.get(header::AUTHORIZATION).cloned();
        request.headers.extend(shown);
        let answer = fetch(request).await.map_err(ConnectorsError::Fetch)?;
        let reception = Reception {
            status: answer.status,
            headers: &answer.headers,
            shown: authorization.as_ref(),
        };
        if answer.status != 401 && answer.status != 403 {
            bearer.shown.answered(reception);
            return Ok(answer);
        }
        if bearer.shown.refused(reception).await == Verdict::Stands {
            break;
        }
    }
    Err(ConnectorsError::Refused)
}

/// Those that can be used, each under a name of its own, and how many cannot.
fn taken(
    offered: impl Iterator<Item = Offered>,
    origin: &url::Origin,
) -> (Vec<ListedConnector>, usize) {
    let (mut taken, mut left_out) = (Vec::<ListedConnector>::new(), 0);
    for Offered { id, name, url } in offered {
        let is_at_home = url.len() <= LONGEST_URL
            && Url::parse(&url).is_ok_and(|it| it.origin() == *origin && it.username().is_empty());
        let is_taken = |name: &str| taken.iter().any(|it| it.name == name);
        let name = named(&name, is_taken);
        match name.filter(|_| is_at_home && taken.len() < MOST) {
            Some(name) => {
                let id = id.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
                taken.push(ListedConnector { id, name, url });
            }
            None => left_out += 1,
        }
    }
    (taken, left_out)
}

/// A server's name for a connector that is called so.
fn named(called: &str, is_taken: impl Fn(&str) -> bool) -> Option<String> {
    let called = called.strip_prefix(PREFIX).unwrap_or(called);
    let plain = |c: char| if c.is_control() || c == ':' { ' ' } else { c };
    let clean: String = called.chars().map(plain).take(LONGEST_NAME).collect();
    let mut clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    while clean.contains("__") {
        clean = clean.replace("__", "_");
    }
    let is_readable = clean.chars().any(char::is_alphanumeric);
    let numbered = (2..=MOST).map(|number| format!("{PREFIX}{clean} {number}"));
    let mut names = std::iter::once(format!("{PREFIX}{clean}")).chain(numbered);
    let name = names.find(|name| !is_taken(name)).filter(|_| is_readable)?;
    ServerName::of_connector(&name).ok().map(|it| it.as_str().to_owned())
}

/// A token as a login.
fn record(account: &Account, token: Secret, lasts: Option<Duration>) -> Record {
    let issuer = account.api_url.clone();
    let server = Url::parse(&account.api_url).map_or_else(|_| issuer.clone(), String::from);
    let at = now();
    Record {
        key: RecordKey { server, issuer: issuer.clone(), client: CLIENT.to_owned() },
        version: 0,
        standing: Standing::Good,
        held: Held {
            access: token,
            kind: Kind::Bearer,
            refresh: None,
            identity: None,
            issued_at: at,
            expires_at: lasts.map(|it| at.saturating_add(it.as_secs())),
        },
        client: Client {
            id: CLIENT.to_owned(),
            secret: None,
            method: Showing::None,
            issuer: issuer.clone(),
            redirect: None,
            provenance: Provenance::Configured,
        },
        metadata: ServerMetadata {
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
        proof: None,
        identity: None,
        signed_in_at: at,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offered: &[(&str, &str)]) -> (Vec<String>, usize) {
        let origin = Url::parse("https://api.example/v1").expect("a URL").origin();
        let one = |(name, url): &(&str, &str)| {
            let (name, url) = ((*name).to_owned(), (*url).to_owned());
            Offered { id: String::new(), name, url }
        };
        let (connectors, left_out) = taken(offered.iter().map(one), &origin);
        (connectors.into_iter().map(|it| it.name).collect(), left_out)
    }

    #[test]
    fn names_are_made_fit_and_unique_and_other_origins_are_left_out() {
        let home = "https://api.example/p?mcp_url=x";
        let (names, left_out) = check(&[
            ("Slack", home),
            ("claude.ai Slack", home),
            ("a\u{1b}:b__ _c ", home),
            ("\n", home),
            ("Away", "https://elsewhere.example/p"),
            ("Other port", "https://api.example:8443/p"),
            ("User", "https://me@api.example/p"),
        ]);
        assert_eq!(names, ["claude.ai Slack", "claude.ai Slack 2", "claude.ai a b_ _c"]);
        assert_eq!(left_out, 4);
    }

    #[test]
    fn the_age_of_a_list_is_shown_where_it_has_one() {
        let source = |age: u64| {
            let at = now() - age;
            let listing = Listing { connectors: Vec::new(), left_out: 0, at, because: None };
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
        let connectors = vec![ListedConnector { id, name, url: url.clone() }];
        let listing = Listing { connectors, left_out: 0, at: 0, because: None };
        let layer = listing.layer();
        let entry = layer.definitions[0].entry.clone().expect("a good entry");
        let name = ServerName::of_connector("claude.ai X").expect("a name");
        let variables = BTreeMap::from([("HOME".to_owned(), "canary".to_owned())]);
        let spec = entry.expand(name, &variables.into_iter().collect(), &mut BTreeSet::new());
        let written = spec.transport.url().expect("a URL");
        assert_eq!(reveal::text(written, "/".as_ref()).expect("plain").reveal(), url);
    }
}

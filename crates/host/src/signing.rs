//! Signing in to servers at URLs: from an entry's `oauth` to a keeper that shows tokens, and from a server's no to a
//! login. What a login is, and where tokens are kept, is `auth`'s part; nothing here sees one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use switchboard_auth::assertion::SigningKey;
use switchboard_auth::challenge::Demand;
use switchboard_auth::confidential::Secret;
use switchboard_auth::dpop::ProofKey;
use switchboard_auth::escort::{Escort, Guide};
use switchboard_auth::fetch::{Fetch, Online};
use switchboard_auth::flow::{Enterprise, Plan, Way};
use switchboard_auth::keeper::{Keeper, LoginError, Trouble, Wanting};
use switchboard_auth::listener::{ListenError, Named, Page, Port};
use switchboard_auth::refresh::{Need, Refresher, Trust};
use switchboard_auth::registration::{Configured, Credential, Setup};
use switchboard_auth::revocation::{self, RevokeError};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::vault::folder::{FolderVault, Place, Wanted as Keeping};
use switchboard_auth::vault::keychain::SystemKeychain;
use switchboard_auth::vault::{Record, Standing, Swapped, Vault, VaultError};
use switchboard_config::account::Account;
use switchboard_config::entry::{OAuthGrant, Remote, ServerSpec, Transport};
use switchboard_config::identity_provider::IdentityProvider;
use switchboard_config::scope::Scope;
use switchboard_config::template::{Template, Text};
use thiserror::Error;
use tokio::sync::OnceCell;
use url::Url;

use crate::address::Around;
use crate::cause::{Cause, CauseKind, Evidence};
use crate::connection::{Handle, Wanted};
use crate::engine::{Host, Settings};
use crate::reveal;

/// The name by which people will know us.
const NAME: &str = "Switchboard";
/// The name under which the keychain keeps our key.
const APPLICATION: &str = "switchboard";

/// What a caller decides about signing in.
#[derive(Clone, Default)]
pub struct SigningOptions {
    /// Where tokens are kept.
    pub keeping: Keeping,
    /// Who is taken along when a server wants a login while it is connected to. Without anybody, it waits for one.
    pub guide: Option<Arc<dyn Guide>>,
    /// The address of a document that describes us, where there is one.
    pub document: Option<Url>,
    /// Who vouches for people.
    pub identity_provider: Option<IdentityProvider>,
    /// The account whose connectors are used.
    pub account: Option<Account>,
}

impl fmt::Debug for SigningOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningOptions").field("keeping", &self.keeping).finish_non_exhaustive()
    }
}

/// What every login shares.
pub(crate) struct Signing {
    vault: Arc<dyn Vault>,
    place: Place,
    fetch: Arc<dyn Fetch>,
    proxies: Vec<String>,
}

/// One server's keeper, made when it is first needed: secrets are fetched then.
#[derive(Clone, Default)]
pub(crate) struct Signatory(Arc<OnceCell<Option<Arc<Signer>>>>);

impl fmt::Debug for Signatory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signatory")
    }
}

/// Signs in at one server.
pub(crate) struct Signer {
    pub(crate) keeper: Arc<Keeper>,
    profile: Arc<Profile>,
    signing: Arc<Signing>,
}

/// All of an entry that signing in depends on.
struct Profile {
    name: String,
    server: Url,
    client_id: Option<String>,
    credential: Credential,
    metadata_url: Option<Url>,
    scopes: Option<Scopes>,
    grant: OAuthGrant,
    port: Option<u16>,
    workload: Option<Secret>,
    vouched: Option<Vouched>,
    document: Option<Url>,
    proxies: Vec<String>,
}

/// An identity provider that somebody signed in at, as far as it is known.
struct Vouched {
    issuer: Url,
    token_endpoint: Option<Url>,
    client: Configured,
    identity: Option<Secret>,
}

/// Why nobody is signed in.
#[derive(Debug, Error)]
pub enum SigningError {
    /// There is no such server.
    #[error("there is no server `{0}`")]
    NoServer(String),
    /// It is none that one signs in to.
    #[error("`{0}` is not a server that one signs in to: {1}")]
    NotForLogins(String, &'static str),
    /// What it depends on cannot be had.
    #[error("{0}")]
    Unusable(Arc<Cause>),
    /// No browser can come back.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It did not work.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The login could not be read or removed.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// How somebody wants to sign in.
#[derive(Debug, Clone, Default)]
pub struct LoginWish {
    /// The port that a browser comes back to, where it is not any.
    pub port: Option<u16>,
    /// Scopes instead of those that the entry or the server names.
    pub scopes: Vec<String>,
    /// With a code on another device instead of a browser here.
    pub on_another_device: bool,
}

/// A login, for people to read. No token is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginView {
    /// The server's URL.
    pub server: String,
    /// The client that was configured for it, where one was.
    pub client: Option<String>,
    /// Who signed us in.
    pub issuer: String,
    /// Who signed in, where that is known.
    pub identity: Option<String>,
    /// What we may do.
    pub scopes: Vec<String>,
    /// When the token ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Is it renewed by itself?
    pub is_renewable: bool,
    /// Can it still be used, as far as we know?
    pub is_good: bool,
}

/// What became of a login that somebody wanted to be rid of.
#[derive(Debug)]
pub enum LoggedOut {
    /// There was none.
    Nothing,
    /// It was given back and forgotten.
    Revoked,
    /// It was forgotten; the authorization server could not be told.
    Forgotten(RevokeError),
}

impl LoginView {
    fn of(record: &Record) -> LoginView {
        LoginView {
            server: record.key.server.clone(),
            client: Some(record.key.client.clone()).filter(|it| !it.is_empty()),
            issuer: record.key.issuer.clone(),
            identity: record.identity.clone(),
            scopes: record.scopes.iter().flat_map(|it| it.iter().map(str::to_owned)).collect(),
            expires_at: record.held.expires_at,
            is_renewable: record.held.refresh.is_some(),
            is_good: record.standing == Standing::Good,
        }
    }
}

impl Signing {
    pub(crate) async fn open(settings: &Settings) -> Result<Signing, Cause> {
        let keychain = SystemKeychain::new(APPLICATION);
        let opened =
            FolderVault::open(&settings.logins, settings.signing.keeping, Some(&keychain)).await;
        let (vault, place) = opened.map_err(|error| {
            unusable(format!("the place where logins are kept cannot be used: {error}"))
        })?;
        let network = settings.network(None)?;
        let proxies = network.proxy_hosts().to_vec();
        Ok(Signing {
            vault: Arc::new(vault),
            place,
            fetch: Arc::new(Online::new(network)),
            proxies,
        })
    }
}

impl Signing {
    pub(crate) fn vault(&self) -> &Arc<dyn Vault> {
        &self.vault
    }

    pub(crate) fn fetch(&self) -> &Arc<dyn Fetch> {
        &self.fetch
    }

    pub(crate) fn proxies(&self) -> &[String] {
        &self.proxies
    }
}

fn unusable(detail: String) -> Cause {
    Cause::of(CauseKind::Unusable).with(Evidence::Detail(detail))
}

/// The part of an entry that one could sign in with. Whoever writes an `Authorization` needs no login.
fn remote(spec: &ServerSpec) -> Result<&Remote<Text>, &'static str> {
    let remote = match &spec.transport {
        Transport::Http(remote) | Transport::Sse(remote) | Transport::Ws(remote) => remote,
        Transport::ConnectorProxy(_) => return Err("it belongs to your connector account"),
        Transport::Stdio(_) => return Err("it is a program on this machine"),
        Transport::SseIde(_) | Transport::WsIde(_) => return Err("it is inside an IDE"),
        Transport::Sdk { .. } => return Err("it is inside this program"),
    };
    let is_fixed = |(name, _): &(String, Text)| name.eq_ignore_ascii_case("authorization");
    match remote.headers.iter().any(is_fixed) || remote.headers_helper.is_some() {
        true => Err("its entry says what to show it"),
        false => Ok(remote),
    }
}

/// What mends it when a server wants a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// Somebody signs in to it.
    Login,
    /// It belongs to a connector account, whose token is the person's affair.
    Account,
}

impl Entrance {
    /// That of a server; none where its entry says what to show it, or where no person signs in.
    pub(crate) fn of(wanted: &Wanted) -> Option<Entrance> {
        if wanted.scope == Scope::Connectors {
            return Some(Entrance::Account);
        }
        match &wanted.spec.transport {
            Transport::ConnectorProxy(_) => Some(Entrance::Account),
            Transport::Http(_)
            | Transport::Sse(_)
            | Transport::Ws(_)
            | Transport::Stdio(_)
            | Transport::SseIde(_)
            | Transport::WsIde(_)
            | Transport::Sdk { .. } => {
                let oauth = remote(&wanted.spec).ok()?.oauth.as_ref();
                let is_for_people = oauth.is_none_or(|it| it.grant == OAuthGrant::Person);
                is_for_people.then_some(Entrance::Login)
            }
        }
    }
}

impl Signatory {
    /// The server's signer; none where one does not sign in there.
    pub(crate) async fn signer(
        &self,
        wanted: &Wanted,
        settings: &Arc<Settings>,
    ) -> Result<Option<Arc<Signer>>, Cause> {
        let made = self.0.get_or_try_init(|| Signer::new(wanted, settings)).await;
        made.cloned()
    }

    /// Waits until what was issued is written down.
    pub(crate) async fn close(&self) {
        if let Some(Some(signer)) = self.0.get() {
            signer.keeper.close().await;
        }
    }

    /// Signs in where the server says what it wants and somebody is there for it.
    pub(crate) async fn signs_in(&self, wanted: &Wanted, settings: &Arc<Settings>) -> bool {
        let Some(guide) = settings.signing.guide.as_deref() else { return false };
        let Ok(Some(signer)) = self.signer(wanted, settings).await else { return false };
        signer.keeper.wanting().is_some()
            && signer.sign_in(guide, &LoginWish::default()).await.is_ok()
    }
}

impl Signer {
    async fn new(wanted: &Wanted, settings: &Arc<Settings>) -> Result<Option<Arc<Signer>>, Cause> {
        if remote(&wanted.spec).is_err() {
            return Ok(None);
        }
        let signing = settings.signing_in().await?;
        let profile = Arc::new(Profile::now(&wanted.spec, settings).await?);
        let refresher =
            Refresher::new(signing.vault.clone(), signing.fetch.clone(), profile.trust());
        let mut keeper = Keeper::new(refresher, profile.client_id.as_deref().unwrap_or_default());
        if profile.may_need_nobody() {
            let (spec, settings) = (wanted.spec.clone(), settings.clone());
            keeper = keeper.unattended(move |demand, record| {
                Box::pin(own_plan(spec.clone(), settings.clone(), demand, record))
            });
        }
        Ok(Some(Arc::new(Signer { keeper: Arc::new(keeper), profile, signing })))
    }

    /// Is a login kept that may be good? Then what was said of a wall a while ago says nothing.
    pub(crate) async fn has_login(&self) -> bool {
        let is_good = self.known().await.is_some_and(|it| it.standing == Standing::Good);
        is_good || self.profile.may_need_nobody()
    }

    /// What stands in the way besides the person, in words.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.keeper.trouble()?;
        Some(match &*trouble {
            Trouble::Vault(error) => with_causes(error),
            Trouble::Renew(error) => with_causes(error),
            Trouble::SignIn(error) => with_causes(error),
        })
    }

    /// Is there a login that only an outage kept from being renewed?
    pub(crate) fn may_be_renewed_later(&self) -> bool {
        let wants_nobody = self.keeper.wanting().is_none();
        wants_nobody && self.keeper.trouble().is_some_and(|it| matches!(&*it, Trouble::Renew(_)))
    }

    /// Signs in with somebody's help.
    pub(crate) async fn sign_in(
        &self,
        guide: &dyn Guide,
        wish: &LoginWish,
    ) -> Result<Record, SigningError> {
        let (demand, held) = match self.keeper.wanting() {
            Some(Wanting::Login { demand }) => (demand, None),
            Some(Wanting::MoreScopes { demand, held }) => (demand, held),
            None => (Demand::default(), None),
        };
        let port = match wish.port.or(self.profile.port) {
            Some(port) => Port::Fixed(port),
            None => Port::Any,
        };
        let named = if wish.port.or(self.profile.port).is_some() {
            Named::ByName
        } else {
            Named::ByAddress
        };
        let escort = Escort::at(port, named, guide).await?;
        let way = match wish.on_another_device {
            true => Way::Device,
            false => Way::Browser { redirect: escort.redirect().clone() },
        };
        let known = self.known().await;
        let mut plan = self.profile.plan(demand, known.as_ref(), held, way);
        if !wish.scopes.is_empty() {
            plan.scopes = Some(Scopes::of(&wish.scopes));
        }
        let outcome = self.keeper.sign_in(plan, &escort).await;
        let page = match &outcome {
            Ok(_) => Page::SignedIn { server: self.profile.name.clone() },
            Err(error) => Page::Failed { why: with_causes(error) },
        };
        let obstacle = escort.take_obstacle();
        escort.farewell(page).await;
        match obstacle {
            Some(error) => Err(error.into()),
            None => Ok(outcome?),
        }
    }

    async fn known(&self) -> Option<Record> {
        let (server, client) = (self.profile.server.as_str(), &self.profile.client_id);
        self.signing.vault.find(server, client.as_deref().unwrap_or_default()).await.ok().flatten()
    }

    /// Gives a login back and forgets it.
    async fn sign_out(&self) -> Result<LoggedOut, SigningError> {
        let Some(mut record) = self.known().await else { return Ok(LoggedOut::Nothing) };
        let revoked =
            revocation::revoke(&record, &*self.signing.fetch, &self.profile.trust()).await;
        while let Swapped::Stale(Some(newer)) =
            self.signing.vault.remove(&record.key, record.version).await?
        {
            record = *newer;
        }
        Ok(match revoked {
            Ok(()) => LoggedOut::Revoked,
            Err(error) => LoggedOut::Forgotten(error),
        })
    }
}

/// An error with everything behind it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The plan of a login that needs nobody, with what vouches for us at this moment: a platform's token may have been
/// replaced, and somebody may have signed in at the identity provider.
async fn own_plan(
    spec: ServerSpec,
    settings: Arc<Settings>,
    demand: Demand,
    record: Option<Arc<Record>>,
) -> Option<Plan> {
    let profile = match Profile::now(&spec, &settings).await {
        Ok(profile) => profile,
        Err(cause) => {
            settings.logbook.note(spec.name.as_str(), &cause.to_string());
            return None;
        }
    };
    let way = profile.own_way()?;
    Some(profile.plan(demand, record.as_deref(), None, way))
}

/// The identity that a provider gave to somebody who signed in there, renewed where it has ended.
async fn identity(vouched: &Vouched, signing: &Signing) -> Option<Secret> {
    let found = signing.vault.find(vouched.issuer.as_str(), &vouched.client.id).await.ok()??;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    if !found.held.is_expired(now.map_or(0, |it| it.as_secs())) {
        return found.held.identity;
    }
    let trust = Trust {
        server: vouched.issuer.clone(),
        typed: vec![vouched.issuer.clone()],
        proxies: signing.proxies.clone(),
        key: vouched.client.credential.key().cloned(),
    };
    let refresher = Refresher::new(signing.vault.clone(), signing.fetch.clone(), trust);
    let renewed = refresher.renew(&found, Need::Expiring).await;
    refresher.close().await;
    renewed.ok()?.held.identity
}

impl Profile {
    /// What an entry comes to at this moment.
    async fn now(spec: &ServerSpec, settings: &Arc<Settings>) -> Result<Profile, Cause> {
        let signing = settings.signing_in().await?;
        let (spec, shared) = (spec.clone(), settings.clone());
        let revealing = tokio::task::spawn_blocking(move || Profile::of(&spec, &shared)).await;
        let mut profile = revealing.unwrap_or_else(|_| Err(Cause::of(CauseKind::Unusable)))?;
        profile.proxies.clone_from(&signing.proxies);
        if let Some(vouched) = profile.vouched.as_mut().filter(|it| it.identity.is_none()) {
            vouched.identity = identity(vouched, &signing).await;
        }
        Ok(profile)
    }

    /// Reads an entry. Fetches the secrets that it names, and blocks meanwhile.
    fn of(spec: &ServerSpec, settings: &Settings) -> Result<Profile, Cause> {
        let around = &settings.around;
        let remote = remote(spec).map_err(|why| unusable(why.to_owned()))?;
        let oauth = remote.oauth.as_ref();
        let text = |it: Option<&Text>| it.map(|it| revealed(it, around)).transpose();
        let url = |what: &str, text: &str| {
            Url::parse(text).map_err(|error| unusable(format!("`{what}` is no URL: {error}")))
        };
        let secret = text(oauth.and_then(|it| it.client_secret.as_ref()))?;
        let key = text(oauth.and_then(|it| it.private_key.as_ref()))?;
        let key = key.map(|pem| SigningKey::from_pem(&pem)).transpose();
        let key = key.map_err(|error| unusable(format!("`oauth.privateKey`: {error}")))?;
        let metadata = text(oauth.and_then(|it| it.auth_server_metadata_url.as_ref()))?;
        let workload = text(oauth.and_then(|it| it.workload_token.as_ref()))?;
        if workload.is_none() && oauth.is_some_and(|it| it.grant == OAuthGrant::Workload) {
            let detail = "`oauth.grant` is `jwt_bearer`, and there is no `oauth.workloadToken`";
            return Err(unusable(detail.to_owned()));
        }
        let vouched = match oauth.is_some_and(|it| it.xaa) {
            false => None,
            true => Some(Vouched::of(settings)?),
        };
        Ok(Profile {
            name: spec.name.as_str().to_owned(),
            server: url("url", &revealed(&remote.url, around)?)?,
            client_id: text(oauth.and_then(|it| it.client_id.as_ref()))?,
            credential: match (key, secret) {
                (Some(key), _) => Credential::Key(key),
                (None, Some(secret)) => Credential::Secret(Secret::new(secret)),
                (None, None) => Credential::None,
            },
            metadata_url: metadata.map(|it| url("oauth.authServerMetadataUrl", &it)).transpose()?,
            scopes: oauth.map(|it| Scopes::of(&it.scopes)).filter(|it| !it.is_empty()),
            grant: oauth.map(|it| it.grant).unwrap_or_default(),
            port: oauth.and_then(|it| it.callback_port),
            workload: workload.map(Secret::new),
            vouched,
            document: settings.signing.document.clone(),
            proxies: Vec::new(),
        })
    }

    fn trust(&self) -> Trust {
        let mut typed: Vec<Url> = self.metadata_url.iter().cloned().collect();
        typed.extend(self.vouched.iter().map(|it| it.issuer.clone()));
        typed.extend(self.vouched.iter().filter_map(|it| it.token_endpoint.clone()));
        Trust {
            server: self.server.clone(),
            typed,
            proxies: self.proxies.clone(),
            key: self.credential.key().cloned(),
        }
    }

    /// Is there a way to sign in that may need nobody?
    fn may_need_nobody(&self) -> bool {
        self.grant != OAuthGrant::Person || self.vouched.is_some()
    }

    /// How to sign in.
    fn plan(
        &self,
        demand: Demand,
        record: Option<&Record>,
        held: Option<Scopes>,
        way: Way,
    ) -> Plan {
        let Trust { server, typed, proxies, .. } = self.trust();
        let configured = self.client_id.as_ref().map(|id| Configured {
            id: id.clone(),
            credential: self.credential.clone(),
            // Nobody but who knew this client the last time is shown its secret.
            issuer: record.map(|it| it.key.issuer.clone()),
        });
        Plan {
            demand,
            typed,
            proxies,
            metadata_url: self.metadata_url.clone(),
            setup: Setup { configured, document: self.document.clone() },
            known: record.and_then(|it| it.known_client().cloned()),
            scopes: self.scopes.clone(),
            held,
            proof: Some(ProofKey::generate()),
            ..Plan::new(server, way, NAME)
        }
    }

    fn own_way(&self) -> Option<Way> {
        if let Some(vouched) = &self.vouched
            && let Some(identity) = &vouched.identity
        {
            let Vouched { issuer, token_endpoint, client, .. } = vouched;
            return Some(Way::Enterprise(Enterprise {
                issuer: issuer.clone(),
                token_endpoint: token_endpoint.clone(),
                client: client.clone(),
                identity: identity.clone(),
            }));
        }
        match (self.grant, &self.workload) {
            (OAuthGrant::ClientCredentials, _) => Some(Way::ClientCredentials),
            (OAuthGrant::Workload, Some(token)) => Some(Way::Workload(token.clone())),
            (OAuthGrant::Workload, None) | (OAuthGrant::Person, _) => None,
        }
    }
}

impl Vouched {
    fn of(settings: &Settings) -> Result<Vouched, Cause> {
        let missing =
            || unusable("`oauth.xaa` needs `identityProvider` in your settings".to_owned());
        let provider = settings.signing.identity_provider.as_ref().ok_or_else(missing)?;
        let around = &settings.around;
        let text = |template: &Template| {
            let mut unset = BTreeSet::new();
            let text = template.expand(&around.variables.clone().into_iter().collect(), &mut unset);
            match unset.first() {
                None => revealed(&text, around),
                Some(name) => {
                    Err(unusable(format!("`identityProvider` names {name}, which is not set")))
                }
            }
        };
        let secret = provider.client_secret.as_ref().map(&text).transpose()?;
        Ok(Vouched {
            issuer: Url::parse(&provider.issuer).map_err(|_| missing())?,
            client: Configured {
                id: text(&provider.client_id)?,
                credential: match secret {
                    Some(secret) => Credential::Secret(Secret::new(secret)),
                    None => Credential::None,
                },
                issuer: Some(provider.issuer.clone()),
            },
            token_endpoint: provider.token_endpoint.as_deref().and_then(|it| Url::parse(it).ok()),
            identity: provider.identity_token.as_ref().map(&text).transpose()?.map(Secret::new),
        })
    }
}

fn revealed(text: &Text, around: &Around) -> Result<String, Cause> {
    let revealed = reveal::text(text, &around.home).map_err(|error| {
        let detail = format!("{error}: {}", error.kind);
        Cause::of(CauseKind::NoSecret).with(Evidence::Detail(detail))
    })?;
    Ok(revealed.reveal().to_owned())
}

impl Host {
    async fn signer_of(&self, server: &str) -> Result<Arc<Signer>, SigningError> {
        let missing = || SigningError::NoServer(server.to_owned());
        let handle = self.handle(server).ok_or_else(missing)?;
        let wanted = handle.wanted();
        if let Err(why) = remote(&wanted.spec) {
            return Err(SigningError::NotForLogins(server.to_owned(), why));
        }
        let signer = handle.signatory().signer(wanted, self.shared_settings()).await;
        let signer = signer.map_err(|cause| SigningError::Unusable(Arc::new(cause)))?;
        signer.ok_or_else(missing)
    }

    /// Signs in for a call that was turned away, where the server says what it wants and somebody is there for it.
    pub(crate) async fn signs_in_for(&self, handle: &Handle) -> bool {
        handle.signatory().signs_in(handle.wanted(), self.shared_settings()).await
    }

    /// Signs somebody in to a server, and has it connected to anew.
    pub async fn login(
        &self,
        server: &str,
        guide: &dyn Guide,
        wish: &LoginWish,
    ) -> Result<LoginView, SigningError> {
        let signer = self.signer_of(server).await?;
        let record = signer.sign_in(guide, wish).await?;
        self.reconnect(server).await;
        Ok(LoginView::of(&record))
    }

    /// Gives a server's login back and forgets it. The connection is made anew, and will want a login.
    pub async fn logout(&self, server: &str) -> Result<LoggedOut, SigningError> {
        let outcome = self.signer_of(server).await?.sign_out().await?;
        self.reconnect(server).await;
        Ok(outcome)
    }

    /// The login at a server, where there is one.
    pub async fn login_at(&self, server: &str) -> Result<Option<LoginView>, SigningError> {
        Ok(self.signer_of(server).await?.known().await.as_ref().map(LoginView::of))
    }

    /// The scopes that a server turned us away for the last time, and those that we have; `None` where it did not.
    pub async fn scopes_wanted(&self, server: &str) -> Option<Vec<String>> {
        match self.signer_of(server).await.ok()?.keeper.wanting()? {
            Wanting::Login { .. } => None,
            Wanting::MoreScopes { demand, held } => {
                let all = held.unwrap_or_default().and(&demand.scopes.unwrap_or_default());
                Some(all.iter().map(str::to_owned).collect())
            }
        }
    }

    /// Every login that is kept, and how they are kept.
    pub async fn logins(&self) -> Result<(Vec<LoginView>, String), SigningError> {
        let signing = self.shared_settings().signing_in().await;
        let signing = signing.map_err(|cause| SigningError::Unusable(Arc::new(cause)))?;
        let place = match &signing.place {
            Place::Keychain => "sealed; the key is in the system's keychain".to_owned(),
            Place::File { because: None } => "in files that only you can read".to_owned(),
            Place::File { because: Some(error) } => {
                format!("in files that only you can read ({error})")
            }
        };
        let all = signing.vault.all().await?;
        Ok((all.iter().map(LoginView::of).collect(), place))
    }

    /// Gives the login of a server back and forgets it, without connecting to the server.
    pub async fn forget_login(&self, wanted: &Wanted) -> Result<LoggedOut, SigningError> {
        let name = wanted.name().to_owned();
        if let Err(why) = remote(&wanted.spec) {
            return Err(SigningError::NotForLogins(name, why));
        }
        let signer = Signer::new(wanted, self.shared_settings()).await;
        let signer = signer.map_err(|cause| SigningError::Unusable(Arc::new(cause)))?;
        signer.ok_or(SigningError::NoServer(name))?.sign_out().await
    }

    /// Signs somebody in at the identity provider, which then vouches at every server with `oauth.xaa`.
    pub async fn login_at_provider(
        &self,
        guide: &dyn Guide,
        wish: &LoginWish,
    ) -> Result<LoginView, SigningError> {
        let record = self.provider_signer().await?.sign_in(guide, wish).await?;
        Ok(LoginView::of(&record))
    }

    /// The login at the identity provider, where there is one.
    pub async fn provider_login(&self) -> Result<Option<LoginView>, SigningError> {
        Ok(self.provider_signer().await?.known().await.as_ref().map(LoginView::of))
    }

    /// Gives the login at the identity provider back and forgets it.
    pub async fn logout_at_provider(&self) -> Result<LoggedOut, SigningError> {
        self.provider_signer().await?.sign_out().await
    }

    async fn provider_signer(&self) -> Result<Signer, SigningError> {
        let settings = self.shared_settings();
        let unusable = |cause| SigningError::Unusable(Arc::new(cause));
        let signing = settings.signing_in().await.map_err(unusable)?;
        let shared = settings.clone();
        let vouched = tokio::task::spawn_blocking(move || Vouched::of(&shared)).await;
        let vouched = vouched.unwrap_or_else(|_| Err(Cause::of(CauseKind::Unusable)));
        let Vouched { issuer, client, .. } = vouched.map_err(unusable)?;
        let port = settings.signing.identity_provider.as_ref().and_then(|it| it.callback_port);
        let profile = Arc::new(Profile {
            name: issuer.host_str().unwrap_or_default().to_owned(),
            server: issuer.clone(),
            client_id: Some(client.id.clone()),
            credential: client.credential.clone(),
            metadata_url: None,
            scopes: Some(Scopes::of(["openid", "profile", "email", "offline_access"])),
            grant: OAuthGrant::Person,
            port,
            workload: None,
            vouched: None,
            document: None,
            proxies: signing.proxies.clone(),
        });
        let trust = Trust { typed: vec![issuer], ..profile.trust() };
        let refresher = Refresher::new(signing.vault.clone(), signing.fetch.clone(), trust);
        let keeper = Arc::new(Keeper::new(refresher, &client.id));
        Ok(Signer { keeper, profile, signing })
    }
}

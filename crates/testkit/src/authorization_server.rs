//! All servers that a login involves: a protected resource, its authorization server, an identity provider and an
//! attacker. Each has its own origin on loopback.
//!
//! An [`AuthorizationConfig`] defines the behaviour, and every request is recorded. It shares no code with
//! Switchboard's login, which is tested against it.

mod authorize_endpoint;
mod clients;
mod config;
mod device_endpoint;
mod dpop;
mod endpoint_fault;
mod grant_store;
mod jwt;
mod metadata;
mod oauth_error;
mod observed_request;
mod resource_guard;
mod router;
mod shared_state;
mod token_endpoint;
mod token_exchange;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::http::loopback::ServerThread;
use crate::http::recorded_request::RecordedRequest;
use crate::processes::wait_until;
use crate::scripted::{RunMode, ServerState};
use shared_state::SharedState;

pub use config::{
    AuthorizationConfig, Challenge, ClientMetadataDocuments, Consent, DeviceOutcome, DevicePolling,
    DpopPolicy, IssuerMetadataLocation, IssuerOrigin, IssuerParameter, OAuthQuirk,
    PreregisteredClient, Registration, ResourceIndicator, ResourceMetadataLocation,
    ScopeRequirement,
};
pub use endpoint_fault::{Endpoint, EndpointFault, ResponseFault};
pub use grant_store::Counters;
pub use jwt::{SigningKey, UnverifiedJwt, jwk_thumbprint, sha256_base64url};
pub use observed_request::{ObservedRequest, Site};

/// The timeout for expected requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The servers, on one thread. Dropping it ends them and every connection to them.
#[derive(Debug)]
pub struct AuthorizationServer {
    shared: Arc<SharedState>,
    server: Arc<ServerState>,
    /// Ends the servers when dropped.
    _thread: ServerThread,
}

impl AuthorizationServer {
    /// Starts the servers.
    pub fn start(config: AuthorizationConfig) -> AuthorizationServer {
        let server = ServerState::new(config.script.clone(), RunMode::InTest);
        let started = router::start(config, Arc::clone(&server));
        let (shared, thread) = started.expect("the servers can be started");
        AuthorizationServer { shared, server, _thread: thread }
    }

    /// The URL of the protected resource.
    pub fn url(&self) -> String {
        self.shared.resource_url()
    }

    /// The issuer identifier of the authorization server.
    pub fn issuer(&self) -> String {
        self.shared.issuer_url(&self.shared.config(), Site::Issuer)
    }

    /// The origin of a site.
    pub fn origin(&self, site: Site) -> &str {
        let origins = &self.shared.origins;
        match site {
            Site::Resource => &origins.resource,
            Site::Issuer => &origins.issuer,
            Site::Identity => &origins.identity,
            Site::Attacker => &origins.attacker,
        }
    }

    /// Publishes a client metadata document and returns its URL, which is the client id.
    pub fn publish_client_metadata(&self, redirects: &[&str]) -> String {
        let id = format!("{}/client.json", self.shared.origins.attacker);
        let metadata = json!({
            "client_id": id,
            "client_name": "published",
            "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
        });
        *self.shared.client_document.lock().expect("no holder of the lock panics") = Some(metadata);
        id
    }

    /// Publishes a client metadata document at a URL of another site, which is the client id. The authorization server
    /// reads it without a request, so that the URL can be an https one.
    pub fn host_client_metadata(&self, url: &str, document: Value) {
        let mut hosted = self.shared.hosted_documents.lock().expect("no holder of the lock panics");
        hosted.insert(url.to_owned(), document);
    }

    /// Changes the configuration. Issued tokens stay valid.
    pub fn reconfigure(&self, change: impl FnOnce(&mut AuthorizationConfig)) {
        self.shared.store().reconfigure(change);
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.shared.store().counters.clone()
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.shared.store().requests.clone()
    }

    /// The sites that received this text, each once.
    pub fn sites_that_received(&self, text: &str) -> Vec<Site> {
        let seen = self.requests();
        let mut sites: Vec<Site> =
            seen.iter().filter(|it| it.contains(text)).map(|it| it.site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// Waits until the requests satisfy a condition, and returns them. Panics after ten seconds.
    #[track_caller]
    pub fn wait_for(&self, condition: impl Fn(&[ObservedRequest]) -> bool) -> Vec<ObservedRequest> {
        wait_until(REQUEST_TIMEOUT, "the requests came", || {
            let seen = self.requests();
            condition(&seen).then_some(seen)
        })
    }

    /// The requests that passed the resource guard, as the protected resource received them.
    pub fn admitted_requests(&self) -> Vec<RecordedRequest> {
        self.server.recorded()
    }

    /// Revokes all access tokens; refresh tokens stay valid.
    pub fn revoke_access_tokens(&self) {
        self.shared.store().revoke_access_tokens();
    }

    /// Ends all logins.
    pub fn end_all_logins(&self) {
        self.shared.store().end_all_logins();
    }

    /// An id token for a client of the identity provider, as from a login.
    pub fn id_token(&self, client: &str, lifetime: Duration) -> String {
        token_endpoint::id_token(&self.shared, client, None, lifetime.as_secs())
    }

    /// A signed access token for a resource that verifies it with the published keys: valid for ten minutes, subject
    /// `ada`, scope `mcp`. `changes` is an object of claims that replace the defaults.
    pub fn access_token(&self, resource: &str, changes: &Value) -> String {
        token_endpoint::access_token(&self.shared, resource, changes)
    }

    /// A platform's token about a workload, for the authorization server. With a negative lifetime it has already
    /// expired.
    pub fn workload_token(&self, lifetime_seconds: i64) -> String {
        token_exchange::workload_token(&self.shared, &self.issuer(), lifetime_seconds)
    }
}

/// The time in seconds since 1970, as in tokens.
fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is past 1970").as_secs()
}

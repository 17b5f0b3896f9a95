//! Everything that signing in talks to, in one: a protected server, its authorization server, an identity provider, and
//! somebody else whom nobody should tell anything. Each has an origin of its own on loopback.
//!
//! What it is and does is a value, the [`Charter`]; what it saw is there to be looked at. It uses none of our code for
//! signing in: it is what that is tested against.

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

/// How long a test waits for something that has to come.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// All of it, on a thread of its own. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct AuthorizationServer {
    shared: Arc<SharedState>,
    server: Arc<ServerState>,
    /// Ends with us.
    _thread: ServerThread,
}

impl AuthorizationServer {
    /// Starts one.
    pub fn start(config: AuthorizationConfig) -> AuthorizationServer {
        let server = ServerState::new(config.script.clone(), RunMode::InTest);
        let started = router::start(config, Arc::clone(&server));
        let (shared, thread) = started.expect("an authority can be started");
        AuthorizationServer { shared, server, _thread: thread }
    }

    /// The address of the protected server.
    pub fn url(&self) -> String {
        self.shared.resource_url()
    }

    /// The authorization server's name for itself.
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

    /// Publishes a client's document about itself, and returns its address, which is the client's id.
    pub fn publish_client_metadata(&self, redirects: &[&str]) -> String {
        let id = format!("{}/client.json", self.shared.origins.attacker);
        let metadata = json!({
            "client_id": id,
            "client_name": "published",
            "redirect_uris": redirects,
            "token_endpoint_auth_method": "none",
        });
        *self.shared.client_document.lock().expect("nobody panics with it") = Some(metadata);
        id
    }

    /// Does something else from now on. What was given out stays good.
    pub fn reconfigure(&self, change: impl FnOnce(&mut AuthorizationConfig)) {
        self.shared.store().reconfigure(change);
    }

    /// How often things happened.
    pub fn counters(&self) -> Counters {
        self.shared.store().counters.clone()
    }

    /// Every request so far, in order.
    pub fn requests(&self) -> Vec<ObservedRequest> {
        self.shared.store().requests.clone()
    }

    /// The sites at which this text was seen, each once.
    pub fn sites_that_received(&self, text: &str) -> Vec<Site> {
        let seen = self.requests();
        let mut sites: Vec<Site> =
            seen.iter().filter(|it| it.contains(text)).map(|it| it.site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// Waits until the requests are as they should be, and returns them. Panics after ten seconds.
    #[track_caller]
    pub fn wait_for(&self, condition: impl Fn(&[ObservedRequest]) -> bool) -> Vec<ObservedRequest> {
        wait_until(REQUEST_TIMEOUT, "the requests came", || {
            let seen = self.requests();
            condition(&seen).then_some(seen)
        })
    }

    /// The requests that were let in, as the server behind the gate saw them.
    pub fn admitted_requests(&self) -> Vec<RecordedRequest> {
        self.server.recorded()
    }

    /// Makes every token for the server worthless; refresh tokens stay good.
    pub fn revoke_access_tokens(&self) {
        self.shared.store().revoke_access_tokens();
    }

    /// Ends every login.
    pub fn end_all_logins(&self) {
        self.shared.store().end_all_logins();
    }

    /// An id token for a client of the identity provider, as a login there gives it.
    pub fn id_token(&self, client: &str, lifetime: Duration) -> String {
        token_endpoint::id_token(&self.shared, client, None, lifetime.as_secs())
    }

    /// A signed token of the authorization server, for a resource that checks it with the keys that are published:
    /// good for ten minutes, of `ada`, with the scope `mcp`. `changes` is an object of claims to put in their place.
    pub fn access_token(&self, resource: &str, changes: &Value) -> String {
        token_endpoint::access_token(&self.shared, resource, changes)
    }

    /// What a platform says about a program that runs on it, for the authorization server; with a negative lifetime
    /// it is over already.
    pub fn workload_token(&self, lifetime_seconds: i64) -> String {
        token_exchange::workload_token(&self.shared, &self.issuer(), lifetime_seconds)
    }
}

/// The time in seconds, as tokens write it.
fn unix_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is past 1970").as_secs()
}

//! The token provider between a transport and a server that refuses requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use switchboard_auth::challenge::{AuthChallenge, ChallengeErrorCode, DpopRequirement};
use switchboard_auth::crypto::dpop::DpopKey;
use switchboard_auth::flow::callback::CallbackError;
use switchboard_auth::flow::runner::{CallbackFuture, UserInteraction, UserUnavailable, sign_in};
use switchboard_auth::flow::{DeviceAuthorization, LoginGrant, LoginPlan};
use switchboard_auth::registration::{ClientConfig, ClientCredential, ConfiguredClient};
use switchboard_auth::scopes::Scopes;
use switchboard_auth::secret::Secret;
use switchboard_auth::token_provider::refresher::Refresher;
use switchboard_auth::token_provider::{RequiredAction, TokenFailure, TokenProvider};
use switchboard_auth::token_store::{
    LoginKey, LoginRecord, StoreFuture, StoreLock, TokenStore, WriteOutcome, overwrite,
};
use switchboard_wire::http::client::{
    Authorize, OutboundRequest, ResponseHead, RetryDecision, Target,
};
use switchboard_wire::peer::{CallError, Peer, SpawnedPeer};
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use tokio::sync::Notify;
use url::Url;

use crate::auth_server::{
    AuthServer, AutoApprovingUser, TokenBehavior, browser_method, http_fetcher, network,
};
use crate::refresh::{now, open_store, sign_in_and_store, trust_settings};

struct Fixture {
    auth_server: AuthServer,
    store: Arc<dyn TokenStore>,
    provider: Arc<TokenProvider>,
    connection: SpawnedPeer,
    _folder: tempfile::TempDir,
}

async fn fixture(prepare: impl FnOnce(&AuthServer, TokenProvider) -> TokenProvider) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    let store = open_store(folder.path()).await;
    let refresher =
        Refresher::new(store.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    let provider = Arc::new(prepare(&auth_server, TokenProvider::new(refresher, "")));
    let target = Target::new(auth_server.server()).authorize(provider.clone());
    let connection = Peer::spawn(StreamableHttpTransport::new(network("test"), target));
    Fixture { auth_server, store, provider, connection, _folder: folder }
}

impl Fixture {
    /// The status of a call; 200 for a success.
    async fn call(&self) -> u16 {
        match self.connection.peer.call("tools/list").await {
            Ok(_) => 200,
            Err(CallError::Transport(fault)) => fault.status().expect("a status"),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn wants_login(&self) -> bool {
        matches!(self.provider.required_action(), Some(RequiredAction::SignIn { .. }))
    }
}

#[tokio::test]
async fn without_a_login_the_refusal_is_returned_with_the_required_action() {
    let fixture = fixture(|_, provider| provider).await;
    assert_eq!(fixture.call().await, 401);
    let Some(RequiredAction::SignIn { challenge }) = fixture.provider.required_action() else {
        panic!("a login")
    };
    assert!(challenge.resource_metadata.is_some());
    // The next call uses a login of another process.
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    assert_eq!(fixture.call().await, 200);
    assert_eq!(fixture.provider.required_action(), None);
}

/// Counts how often a login is looked up. The look-up with the number in `slow` waits until it is released.
struct CountingStore {
    store: Arc<dyn TokenStore>,
    lookups: AtomicUsize,
    slow: usize,
    waits: Notify,
    released: Notify,
}

impl CountingStore {
    fn new(store: Arc<dyn TokenStore>, slow: usize) -> CountingStore {
        let (waits, released) = (Notify::new(), Notify::new());
        CountingStore { store, lookups: AtomicUsize::new(0), slow, waits, released }
    }
}

impl TokenStore for CountingStore {
    fn find<'a>(
        &'a self,
        server: &'a str,
        client: &'a str,
    ) -> StoreFuture<'a, Option<LoginRecord>> {
        let number = self.lookups.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move {
            if number == self.slow {
                self.waits.notify_one();
                self.released.notified().await;
            }
            self.store.find(server, client).await
        })
    }

    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>> {
        self.store.read(key)
    }

    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome> {
        self.store.compare_and_swap(record)
    }

    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome> {
        self.store.remove(key, version)
    }

    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>> {
        self.store.all()
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock> {
        self.store.lock(key)
    }
}

#[tokio::test]
async fn an_empty_store_is_not_read_for_every_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    let store = Arc::new(CountingStore::new(open_store(folder.path()).await, usize::MAX));
    let refresher =
        Refresher::new(store.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    let provider = TokenProvider::new(refresher, "");
    let url = auth_server.server();
    let outbound = OutboundRequest { method: &Method::POST, url: &url };
    tokio::time::pause();
    for _ in 0..10 {
        assert!(provider.headers(outbound).await.is_empty());
    }
    assert_eq!(store.lookups.load(Ordering::SeqCst), 1);
    // A login of another process is used soon, even without a refusal.
    sign_in_and_store(&auth_server, &*store).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(provider.headers(outbound).await.contains_key("authorization"));
}

#[tokio::test]
async fn a_login_that_another_request_has_just_loaded_is_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    let store = Arc::new(CountingStore::new(open_store(folder.path()).await, 1));
    sign_in_and_store(&auth_server, &*store.store).await;
    let refresher =
        Refresher::new(store.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    let provider = TokenProvider::new(refresher, "");
    let url = auth_server.server();
    let outbound = OutboundRequest { method: &Method::POST, url: &url };
    let other_request = async {
        store.waits.notified().await;
        let headers = provider.headers(outbound).await;
        store.released.notify_one();
        headers
    };
    let (first, second) = tokio::join!(provider.headers(outbound), other_request);
    assert!(first.contains_key("authorization") && second.contains_key("authorization"));
}

#[tokio::test]
async fn a_refusal_of_the_old_token_that_is_handled_after_a_refresh_is_retried() {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    // The first look-up is that of the first request, the second that of the first refusal.
    let store = Arc::new(CountingStore::new(open_store(folder.path()).await, 2));
    sign_in_and_store(&auth_server, &*store.store).await;
    let refresher =
        Refresher::new(store.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    let provider = TokenProvider::new(refresher, "");
    let url = auth_server.server();
    let outbound = OutboundRequest { method: &Method::POST, url: &url };
    let sent = provider.headers(outbound).await;
    let headers = HeaderMap::new();
    let refusal = || {
        let authorization = sent.get("authorization");
        provider.on_unauthorized(ResponseHead { status: 401, headers: &headers, authorization })
    };
    let other_request = async {
        store.waits.notified().await;
        let decision = refusal().await;
        store.released.notify_one();
        decision
    };
    let decisions = tokio::join!(refusal(), other_request);
    assert_eq!(decisions, (RetryDecision::Retry, RetryDecision::Retry));
    assert_eq!(provider.required_action(), None);
}

#[tokio::test]
async fn the_required_action_stays_until_the_user_signs_in() {
    let fixture = fixture(|_, provider| provider).await;
    assert_eq!(fixture.call().await, 401);
    // Responses to other requests of the same transport do not settle the required action.
    let headers = HeaderMap::new();
    for (status, authorization) in [(404, None), (200, None), (200, Some("Bearer other"))] {
        let authorization = authorization.map(HeaderValue::from_static);
        let authorization = authorization.as_ref();
        fixture.provider.on_response(ResponseHead { status, headers: &headers, authorization });
        assert!(fixture.wants_login(), "{status} {authorization:?}");
    }
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    fixture.auth_server.state().require_scope("write");
    assert_eq!(fixture.call().await, 403);
    fixture.auth_server.state().require_no_scope();
    assert_eq!(fixture.call().await, 200);
    assert!(matches!(
        fixture.provider.required_action(),
        Some(RequiredAction::GrantMoreScopes { .. })
    ));
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_and_the_call_goes_through() {
    let fixture = fixture(|_, provider| provider).await;
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    assert_eq!(fixture.call().await, 200);
    fixture.auth_server.state().invalidate_access_tokens();
    assert_eq!(fixture.call().await, 200);
    assert_eq!(fixture.auth_server.state().refreshes, 1);
}

#[tokio::test]
async fn an_ended_login_is_reported_without_repeated_requests() {
    let fixture = fixture(|_, provider| provider).await;
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    assert_eq!(fixture.call().await, 200);
    fixture.auth_server.state().invalidate_access_tokens();
    fixture.auth_server.state().invalidate_refresh_tokens();
    for _ in 0..3 {
        assert_eq!(fixture.call().await, 401);
        assert!(fixture.wants_login());
    }
    assert_eq!(fixture.auth_server.state().refreshes, 1);
}

#[tokio::test]
async fn an_outage_is_trouble_and_no_reason_to_sign_in() {
    let fixture = fixture(|_, provider| provider).await;
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    assert_eq!(fixture.call().await, 200);
    fixture.auth_server.state().invalidate_access_tokens();
    fixture.auth_server.state().behavior = TokenBehavior::Returns(503, "down");
    assert_eq!(fixture.call().await, 401);
    assert_eq!(fixture.provider.required_action(), None);
    let trouble = fixture.provider.last_failure().expect("trouble");
    assert!(matches!(*trouble, TokenFailure::Refresh(_)), "{trouble:?}");
    fixture.auth_server.state().behavior = TokenBehavior::Good;
    assert_eq!(fixture.call().await, 200);
    assert!(fixture.provider.last_failure().is_none());
}

#[tokio::test]
async fn a_server_that_refuses_new_tokens_requires_a_login() {
    let fixture = fixture(|_, provider| provider).await;
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    fixture.auth_server.state().rejects_all_tokens = true;
    fixture.auth_server.state().invalidate_access_tokens();
    assert_eq!(fixture.call().await, 401);
    assert!(fixture.wants_login());
    assert_eq!(fixture.auth_server.state().refreshes, 1);
}

#[tokio::test]
async fn insufficient_scope_reports_the_missing_and_granted_scopes() {
    let fixture = fixture(|_, provider| provider).await;
    let mut record = sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    record.scopes = Some(Scopes::parse("read"));
    fixture.provider.set_login(record);
    fixture.auth_server.state().require_scope("write");
    assert_eq!(fixture.call().await, 403);
    let Some(RequiredAction::GrantMoreScopes { challenge, granted }) =
        fixture.provider.required_action()
    else {
        panic!("more scopes")
    };
    assert_eq!(challenge.scopes, Some(Scopes::parse("write")));
    assert_eq!(challenge.error, Some(ChallengeErrorCode::InsufficientScope));
    assert_eq!(granted, Some(Scopes::parse("read")));
    assert_eq!(fixture.auth_server.state().refreshes, 0);
}

#[tokio::test]
async fn bound_tokens_get_a_new_proof_per_request_with_the_nonce() {
    let fixture = fixture(|_, provider| provider).await;
    let challenge = AuthChallenge { dpop: DpopRequirement::Required, ..AuthChallenge::default() };
    let proof = Some(DpopKey::generate());
    let plan =
        LoginPlan { challenge, dpop_key: proof, ..fixture.auth_server.plan(browser_method()) };
    let signed_in = sign_in(plan, &http_fetcher(), &AutoApprovingUser).await.expect("in");
    let record = LoginRecord::new(signed_in, fixture.auth_server.server().as_str(), "", now());
    overwrite(&*fixture.store, record).await.expect("stored");
    fixture.auth_server.state().requires_dpop = true;
    assert_eq!(fixture.call().await, 200);
    assert_eq!(fixture.call().await, 200);
    // A refresh is proven, too.
    fixture.auth_server.state().invalidate_access_tokens();
    assert_eq!(fixture.call().await, 200);
    let book = fixture.auth_server.state();
    let authorization = book.seen.iter().filter(|seen| seen.path == "/mcp");
    let proofs: Vec<_> =
        authorization.filter_map(|seen| seen.headers.get("dpop").cloned()).collect();
    let mut different = proofs.clone();
    different.sort();
    different.dedup();
    assert!(proofs.len() >= 4 && different.len() == proofs.len(), "{}", proofs.len());
}

/// Counts how often a browser opens.
#[derive(Default)]
struct CountingUser(AtomicUsize);

impl UserInteraction for CountingUser {
    fn open_url<'a>(&'a self, url: &'a Url) -> CallbackFuture<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        AutoApprovingUser.open_url(url)
    }

    fn reject_callback<'a>(&'a self, error: CallbackError) -> CallbackFuture<'a> {
        AutoApprovingUser.reject_callback(error)
    }

    fn show_device_code(&self, instructions: &DeviceAuthorization) -> Result<(), UserUnavailable> {
        AutoApprovingUser.show_device_code(instructions)
    }
}

#[tokio::test]
async fn concurrent_sign_ins_open_one_browser() {
    let one = fixture(|_, provider| provider).await;
    let refresher = Refresher::new(
        one.store.clone(),
        Arc::new(http_fetcher()),
        trust_settings(&one.auth_server),
    );
    let other = TokenProvider::new(refresher, "");
    let user = CountingUser::default();
    let plan = || one.auth_server.plan(browser_method());
    let (first, second) =
        tokio::join!(one.provider.sign_in(plan(), &user), other.sign_in(plan(), &user));
    assert_eq!(first.expect("in"), second.expect("in"));
    assert_eq!(user.0.load(Ordering::SeqCst), 1);
    assert_eq!(one.call().await, 200);
    // A user who is signed in and signs in again gets a browser.
    one.provider.sign_in(plan(), &user).await.expect("in");
    assert_eq!(user.0.load(Ordering::SeqCst), 2);
}

fn non_interactive(auth_server: &AuthServer, provider: TokenProvider) -> TokenProvider {
    let server = auth_server.server();
    let url = auth_server.address;
    provider.with_non_interactive_login(move |challenge, _| {
        let credential = ClientCredential::Secret(Secret::new("shh"));
        let issuer = Some(format!("http://{url}"));
        let configured = ConfiguredClient { id: "me".to_owned(), credential, issuer };
        let setup = ClientConfig { configured: Some(configured), metadata_document: None };
        let plan = LoginPlan::new(server.clone(), LoginGrant::ClientCredentials, "Switchboard");
        Box::pin(std::future::ready(Some(LoginPlan { challenge, client_config: setup, ..plan })))
    })
}

#[tokio::test]
async fn a_non_interactive_plan_is_made_for_each_login() {
    let planned = Arc::new(AtomicUsize::new(0));
    let count = planned.clone();
    let fixture = fixture(move |auth_server, provider| {
        let (server, url) = (auth_server.server(), auth_server.address);
        provider.with_non_interactive_login(move |challenge, _| {
            // No plan the first time; then there is one.
            let is_vouched = count.fetch_add(1, Ordering::SeqCst) > 0;
            let credential = ClientCredential::Secret(Secret::new("shh"));
            let issuer = Some(format!("http://{url}"));
            let configured = ConfiguredClient { id: "me".to_owned(), credential, issuer };
            let setup = ClientConfig { configured: Some(configured), metadata_document: None };
            let plan = LoginPlan::new(server.clone(), LoginGrant::ClientCredentials, "Switchboard");
            let plan = LoginPlan { challenge, client_config: setup, ..plan };
            Box::pin(std::future::ready(is_vouched.then_some(plan)))
        })
    })
    .await;
    assert_eq!(fixture.call().await, 401);
    assert!(fixture.provider.required_action().is_some());
    assert_eq!(fixture.call().await, 200);
    assert_eq!((fixture.provider.required_action(), planned.load(Ordering::SeqCst)), (None, 2));
}

#[tokio::test]
async fn a_non_interactive_login_happens_at_the_first_call_and_when_needed() {
    let fixture = fixture(non_interactive).await;
    assert_eq!(fixture.call().await, 200);
    fixture.auth_server.state().invalidate_access_tokens();
    fixture.auth_server.state().invalidate_refresh_tokens();
    assert_eq!(fixture.call().await, 200);
    assert_eq!(fixture.provider.required_action(), None);
    fixture.auth_server.state().behavior =
        TokenBehavior::Returns(400, r#"{"error":"invalid_client"}"#);
    fixture.auth_server.state().invalidate_access_tokens();
    assert_eq!(fixture.call().await, 401);
    let trouble = fixture.provider.last_failure().expect("trouble");
    assert!(matches!(*trouble, TokenFailure::SignIn(_)), "{trouble:?}");
}

#[tokio::test]
async fn nothing_that_the_server_gets_reaches_its_authority() {
    let fixture = fixture(|_, provider| provider).await;
    sign_in_and_store(&fixture.auth_server, &*fixture.store).await;
    fixture.auth_server.state().invalidate_access_tokens();
    assert_eq!(fixture.call().await, 200);
    let book = fixture.auth_server.state();
    for seen in book.seen.iter().filter(|seen| seen.path != "/mcp") {
        assert!(!seen.headers.contains_key("authorization"), "{}", seen.path);
        assert!(!seen.headers.contains_key("mcp-session-id"), "{}", seen.path);
    }
    assert!(!format!("{:?}", fixture.provider).contains("access-"));
}

//! Refreshing: which failures end a login, and which do not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard_auth::fetch::{Fetch, FetchFuture, FetchRequest};
use switchboard_auth::flow::runner::sign_in;
use switchboard_auth::secret::Secret;
use switchboard_auth::token_provider::refresher::{
    RefreshError, RefreshReason, Refresher, TrustSettings,
};
use switchboard_auth::token_store::file_store::{FileTokenStore, StoragePreference};
use switchboard_auth::token_store::{
    LoginKey, LoginRecord, LoginStatus, StoreFuture, StoreLock, TokenStore, WriteOutcome, overwrite,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::auth_server::{
    AuthServer, AutoApprovingUser, TokenBehavior, browser_method, http_fetcher,
};

pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

pub async fn open_store(folder: &Path) -> Arc<dyn TokenStore> {
    Arc::new(FileTokenStore::open(folder, StoragePreference::File, None).await.expect("it opens").0)
}

pub fn trust_settings(auth_server: &AuthServer) -> TrustSettings {
    TrustSettings {
        server: auth_server.server(),
        trusted_urls: Vec::new(),
        proxies: Vec::new(),
        signing_key: None,
    }
}

/// Seconds since the Unix epoch.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

/// Signs in and stores the record.
pub async fn sign_in_and_store(auth_server: &AuthServer, store: &dyn TokenStore) -> LoginRecord {
    let signed_in =
        sign_in(auth_server.plan(browser_method()), &http_fetcher(), &AutoApprovingUser)
            .await
            .expect("in");
    let record = LoginRecord::new(signed_in, auth_server.server().as_str(), "", now());
    overwrite(store, record).await.expect("stored")
}

struct Fixture {
    auth_server: AuthServer,
    store: Arc<dyn TokenStore>,
    refresher: Refresher,
    record: LoginRecord,
    _folder: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    let store = open_store(folder.path()).await;
    let record = sign_in_and_store(&auth_server, &*store).await;
    let refresher =
        Refresher::new(store.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    Fixture { auth_server, store, refresher, record, _folder: folder }
}

impl Fixture {
    async fn renew(&self) -> Result<LoginRecord, RefreshError> {
        self.refresher.refresh(&self.record, RefreshReason::Rejected).await
    }

    async fn stored(&self) -> LoginRecord {
        self.store.read(&self.record.key).await.expect("read").expect("there")
    }
}

#[tokio::test]
async fn new_tokens_are_written_down_with_everything_that_the_next_renewal_needs() {
    let fixture = fixture().await;
    let renewed = fixture.renew().await.expect("renewed");
    assert_eq!(renewed, fixture.stored().await);
    assert_eq!(renewed.version, 2);
    assert_ne!(renewed.tokens.refresh_token, fixture.record.tokens.refresh_token);
    // The client secret was stored, and nothing was discovered again.
    let book = fixture.auth_server.state();
    let last = book.seen.last().expect("a request");
    assert_eq!((last.path.as_str(), last.form["client_secret"].as_str()), ("/token", "shh"));
    assert_eq!(last.form["resource"], fixture.auth_server.server().as_str());
}

#[tokio::test]
async fn an_old_version_gets_the_stored_one_without_a_request() {
    let fixture = fixture().await;
    let renewed = fixture.renew().await.expect("renewed");
    let again = fixture.renew().await.expect("renewed");
    assert_eq!(again, renewed);
    assert_eq!(fixture.auth_server.state().refreshes, 1);
}

#[tokio::test]
async fn no_fault_of_the_network_or_the_authority_costs_the_login() {
    let fixture = fixture().await;
    for (status, body) in [
        (500, "<html>"),
        (503, ""),
        (429, r#"{"error":"slow_down"}"#),
        (200, "<html>"),
        (200, ""),
        (200, r#"{"ok":false,"error":"ratelimited"}"#),
        (400, "not json"),
        (404, ""),
        (400, r#"{"error":"invalid_target"}"#),
        (302, ""),
    ] {
        fixture.auth_server.state().behavior = TokenBehavior::Returns(status, body);
        let error = fixture.renew().await.expect_err("no tokens");
        assert!(!matches!(error, RefreshError::NeedsLogin), "{status} {body}");
        assert_eq!(fixture.stored().await, fixture.record, "{status} {body}");
    }
    fixture.auth_server.state().behavior = TokenBehavior::Good;
    assert!(fixture.renew().await.is_ok());
}

#[tokio::test]
async fn an_authority_that_is_gone_costs_nothing() {
    let Fixture { auth_server, store, refresher, record, _folder } = fixture().await;
    drop(auth_server);
    let error =
        refresher.refresh(&record, RefreshReason::Rejected).await.expect_err("no server listens");
    assert!(matches!(error, RefreshError::Fetch(_)), "{error:?}");
    assert_eq!(store.read(&record.key).await.expect("read"), Some(record));
}

#[tokio::test]
async fn a_refused_refresh_token_ends_the_login() {
    for (status, body) in [
        (400, r#"{"error":"invalid_grant"}"#),
        (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#),
        (200, r#"{"ok":false,"error":"expired_refresh_token"}"#),
        (200, r#"{"ok":false,"error":"token_expired"}"#),
    ] {
        let fixture = fixture().await;
        fixture.auth_server.state().behavior = TokenBehavior::Returns(status, body);
        assert!(matches!(fixture.renew().await, Err(RefreshError::NeedsLogin)), "{body}");
        let stored = fixture.stored().await;
        assert_eq!((stored.status, stored.version), (LoginStatus::NeedsLogin, 2), "{body}");
        assert!(matches!(fixture.renew().await, Err(RefreshError::NeedsLogin)));
        assert_eq!(fixture.auth_server.state().refreshes, 1, "no second request is sent");
    }
    let fixture = fixture().await;
    fixture.auth_server.state().behavior =
        TokenBehavior::Returns(401, r#"{"error":"invalid_client"}"#);
    assert!(matches!(fixture.renew().await, Err(RefreshError::NeedsLogin)));
    assert_eq!(fixture.stored().await.status, LoginStatus::NeedsRegistration);
}

/// Signs in while the response to a refresh is pending.
struct SignInDuringRefresh {
    store: Arc<dyn TokenStore>,
    newer: LoginRecord,
}

impl Fetch for SignInDuringRefresh {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        Box::pin(async move {
            overwrite(&*self.store, self.newer.clone()).await.expect("stored");
            http_fetcher().fetch(request).await
        })
    }
}

#[tokio::test]
async fn a_failure_never_touches_a_newer_login() {
    let fixture = fixture().await;
    fixture.auth_server.state().behavior =
        TokenBehavior::Returns(400, r#"{"error":"invalid_grant"}"#);
    let mut newer = fixture.record.clone();
    newer.tokens.refresh_token = Some(Secret::new("of the new login"));
    let meddling = SignInDuringRefresh { store: fixture.store.clone(), newer };
    let refresher = Refresher::new(
        fixture.store.clone(),
        Arc::new(meddling),
        trust_settings(&fixture.auth_server),
    );
    let error =
        refresher.refresh(&fixture.record, RefreshReason::Rejected).await.expect_err("refused");
    assert!(matches!(error, RefreshError::Token(_)), "{error:?}");
    let stored = fixture.stored().await;
    assert_eq!(stored.tokens.refresh_token, Some(Secret::new("of the new login")));
    assert_eq!(stored.status, LoginStatus::Good);
}

#[tokio::test]
async fn a_cancelled_caller_loses_no_token() {
    let fixture = fixture().await;
    let (entered, mut entering) = mpsc::channel(1);
    let slow = Slow { entered };
    let refresher =
        Refresher::new(fixture.store.clone(), Arc::new(slow), trust_settings(&fixture.auth_server));
    let waiting = tokio::spawn({
        let (refresher, record) = (refresher.clone(), fixture.record.clone());
        async move { refresher.refresh(&record, RefreshReason::Rejected).await.map(|_| ()) }
    });
    timeout(TIMEOUT, entering.recv()).await.expect("it is asked").expect("a question");
    waiting.abort();
    timeout(TIMEOUT, refresher.close()).await.expect("it ends");
    let stored = fixture.stored().await;
    assert_eq!(stored.version, 2);
    assert_ne!(stored.tokens.refresh_token, fixture.record.tokens.refresh_token);
}

/// Reports each request before it sends it.
struct Slow {
    entered: mpsc::Sender<()>,
}

impl Fetch for Slow {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        Box::pin(async move {
            self.entered.send(()).await.expect("the test waits");
            http_fetcher().fetch(request).await
        })
    }
}

#[tokio::test]
async fn a_removed_login_stays_removed() {
    let fixture = fixture().await;
    fixture.store.remove(&fixture.record.key, 1).await.expect("removed");
    assert!(matches!(fixture.renew().await, Err(RefreshError::NeedsLogin)));
    assert_eq!(fixture.store.read(&fixture.record.key).await.expect("read"), None);
    assert_eq!(fixture.auth_server.state().refreshes, 0);
}

#[tokio::test]
async fn a_stored_endpoint_that_leads_inside_is_not_gone_to() {
    let fixture = fixture().await;
    let mut bent = fixture.record.clone();
    bent.metadata.token_endpoint = "http://169.254.169.254/token".to_owned();
    let bent = overwrite(&*fixture.store, bent).await.expect("stored");
    let error =
        fixture.refresher.refresh(&bent, RefreshReason::Rejected).await.expect_err("refused");
    assert!(matches!(error, RefreshError::AuthServerMetadata(_)), "{error:?}");
}

/// A store on a disk that may be full.
struct FullDiskStore(Arc<dyn TokenStore>, AtomicBool);

impl TokenStore for FullDiskStore {
    fn find<'a>(
        &'a self,
        server: &'a str,
        client: &'a str,
    ) -> StoreFuture<'a, Option<LoginRecord>> {
        self.0.find(server, client)
    }

    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>> {
        self.0.read(key)
    }

    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome> {
        match self.1.load(Ordering::SeqCst) {
            true => Box::pin(async {
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
            }),
            false => self.0.compare_and_swap(record),
        }
    }

    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome> {
        self.0.remove(key, version)
    }

    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>> {
        self.0.all()
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock> {
        self.0.lock(key)
    }
}

#[tokio::test]
async fn tokens_that_a_full_disk_does_not_take_are_not_forgotten() {
    let Fixture { auth_server, store, record, _folder, .. } = fixture().await;
    let full = Arc::new(FullDiskStore(store.clone(), AtomicBool::new(true)));
    let refresher =
        Refresher::new(full.clone(), Arc::new(http_fetcher()), trust_settings(&auth_server));
    let first = refresher.refresh(&record, RefreshReason::Rejected).await.expect("renewed");
    assert_eq!(store.read(&record.key).await.expect("read").as_ref(), Some(&record));
    // No caller holds the refreshed record, as after a background refresh.
    let second = refresher.refresh(&record, RefreshReason::Rejected).await.expect("renewed");
    assert_ne!(
        (&second.tokens.refresh_token, &second.tokens.refresh_token),
        (&first.tokens.refresh_token, &record.tokens.refresh_token)
    );
    full.1.store(false, Ordering::SeqCst);
    let third = refresher.refresh(&second, RefreshReason::Rejected).await.expect("renewed");
    let used = auth_server.state().seen.last().map(|it| it.form["refresh_token"].clone());
    let shown = second.tokens.refresh_token.as_ref().map(|it| it.reveal().to_owned());
    assert_eq!(used, shown, "the newest is used, though it was never written down");
    let stored = store.read(&record.key).await.expect("read").expect("there");
    assert_eq!(stored.tokens.refresh_token, third.tokens.refresh_token);
}

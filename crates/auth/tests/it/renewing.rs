//! Renewing: what costs a login, and what does not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard_auth::confidential::Secret;
use switchboard_auth::fetch::{Fetch, Fetching, Request};
use switchboard_auth::refresh::{Need, Refresher, RenewError, Trust};
use switchboard_auth::runner::sign_in;
use switchboard_auth::vault::folder::{FolderVault, Wanted};
use switchboard_auth::vault::{Hold, Keeping, Record, RecordKey, Standing, Swapped, Vault, put};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::authority::{Authority, Clicker, Mood, browser, online};

pub const SOON: std::time::Duration = std::time::Duration::from_secs(20);

pub async fn vault(folder: &Path) -> Arc<dyn Vault> {
    Arc::new(FolderVault::open(folder, Wanted::File, None).await.expect("it opens").0)
}

pub fn trust(authority: &Authority) -> Trust {
    Trust { server: authority.server(), typed: Vec::new(), proxies: Vec::new(), key: None }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_secs()
}

/// Signs in and keeps it.
pub async fn signed_in(authority: &Authority, vault: &dyn Vault) -> Record {
    let signed_in = sign_in(authority.plan(browser()), &online(), &Clicker).await.expect("in");
    let record = Record::of(signed_in, authority.server().as_str(), "", now());
    put(vault, record).await.expect("kept")
}

struct Scene {
    authority: Authority,
    vault: Arc<dyn Vault>,
    refresher: Refresher,
    record: Record,
    _folder: tempfile::TempDir,
}

async fn scene() -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::start().await;
    let vault = vault(folder.path()).await;
    let record = signed_in(&authority, &*vault).await;
    let refresher = Refresher::new(vault.clone(), Arc::new(online()), trust(&authority));
    Scene { authority, vault, refresher, record, _folder: folder }
}

impl Scene {
    async fn renew(&self) -> Result<Record, RenewError> {
        self.refresher.renew(&self.record, Need::Refused).await
    }

    async fn kept(&self) -> Record {
        self.vault.read(&self.record.key).await.expect("read").expect("there")
    }
}

#[tokio::test]
async fn new_tokens_are_written_down_with_everything_that_the_next_renewal_needs() {
    let scene = scene().await;
    let renewed = scene.renew().await.expect("renewed");
    assert_eq!(renewed, scene.kept().await);
    assert_eq!(renewed.version, 2);
    assert_ne!(renewed.held.refresh, scene.record.held.refresh);
    // The client's secret was kept, and nothing had to be looked up again.
    let book = scene.authority.book();
    let last = book.seen.last().expect("a request");
    assert_eq!((last.path.as_str(), last.form["client_secret"].as_str()), ("/token", "shh"));
    assert_eq!(last.form["resource"], scene.authority.server().as_str());
}

#[tokio::test]
async fn who_holds_an_old_version_gets_the_new_one_without_asking_anybody() {
    let scene = scene().await;
    let renewed = scene.renew().await.expect("renewed");
    let again = scene.renew().await.expect("renewed");
    assert_eq!(again, renewed);
    assert_eq!(scene.authority.book().refreshes, 1);
}

#[tokio::test]
async fn no_fault_of_the_network_or_the_authority_costs_the_login() {
    let scene = scene().await;
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
        scene.authority.book().mood = Mood::Says(status, body);
        let error = scene.renew().await.expect_err("no tokens");
        assert!(!matches!(error, RenewError::NeedsLogin), "{status} {body}");
        assert_eq!(scene.kept().await, scene.record, "{status} {body}");
    }
    scene.authority.book().mood = Mood::Good;
    assert!(scene.renew().await.is_ok());
}

#[tokio::test]
async fn an_authority_that_is_gone_costs_nothing() {
    let Scene { authority, vault, refresher, record, _folder } = scene().await;
    drop(authority);
    let error = refresher.renew(&record, Need::Refused).await.expect_err("nobody there");
    assert!(matches!(error, RenewError::Fetch(_)), "{error:?}");
    assert_eq!(vault.read(&record.key).await.expect("read"), Some(record));
}

#[tokio::test]
async fn a_refused_refresh_token_ends_the_login_however_it_is_said() {
    for (status, body) in [
        (400, r#"{"error":"invalid_grant"}"#),
        (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#),
        (200, r#"{"ok":false,"error":"expired_refresh_token"}"#),
        (200, r#"{"ok":false,"error":"token_expired"}"#),
    ] {
        let scene = scene().await;
        scene.authority.book().mood = Mood::Says(status, body);
        assert!(matches!(scene.renew().await, Err(RenewError::NeedsLogin)), "{body}");
        let kept = scene.kept().await;
        assert_eq!((kept.standing, kept.version), (Standing::NeedsLogin, 2), "{body}");
        assert!(matches!(scene.renew().await, Err(RenewError::NeedsLogin)));
        assert_eq!(scene.authority.book().refreshes, 1, "nobody asks again");
    }
    let scene = scene().await;
    scene.authority.book().mood = Mood::Says(401, r#"{"error":"invalid_client"}"#);
    assert!(matches!(scene.renew().await, Err(RenewError::NeedsLogin)));
    assert_eq!(scene.kept().await.standing, Standing::NeedsRegistration);
}

/// Signs somebody in while the answer to a refresh is on its way.
struct Meddling {
    vault: Arc<dyn Vault>,
    newer: Record,
}

impl Fetch for Meddling {
    fn fetch<'a>(&'a self, request: Request) -> Fetching<'a> {
        Box::pin(async move {
            put(&*self.vault, self.newer.clone()).await.expect("kept");
            online().fetch(request).await
        })
    }
}

#[tokio::test]
async fn a_failure_never_touches_a_newer_login() {
    let scene = scene().await;
    scene.authority.book().mood = Mood::Says(400, r#"{"error":"invalid_grant"}"#);
    let mut newer = scene.record.clone();
    newer.held.refresh = Some(Secret::new("of the new login"));
    let meddling = Meddling { vault: scene.vault.clone(), newer };
    let refresher =
        Refresher::new(scene.vault.clone(), Arc::new(meddling), trust(&scene.authority));
    let error = refresher.renew(&scene.record, Need::Refused).await.expect_err("refused");
    assert!(matches!(error, RenewError::Token(_)), "{error:?}");
    let kept = scene.kept().await;
    assert_eq!(kept.held.refresh, Some(Secret::new("of the new login")));
    assert_eq!(kept.standing, Standing::Good);
}

#[tokio::test]
async fn who_stops_waiting_loses_no_token() {
    let scene = scene().await;
    let (entered, mut entering) = mpsc::channel(1);
    let slow = Slow { entered };
    let refresher = Refresher::new(scene.vault.clone(), Arc::new(slow), trust(&scene.authority));
    let waiting = tokio::spawn({
        let (refresher, record) = (refresher.clone(), scene.record.clone());
        async move { refresher.renew(&record, Need::Refused).await.map(|_| ()) }
    });
    timeout(SOON, entering.recv()).await.expect("it is asked").expect("a question");
    waiting.abort();
    timeout(SOON, refresher.close()).await.expect("it ends");
    let kept = scene.kept().await;
    assert_eq!(kept.version, 2);
    assert_ne!(kept.held.refresh, scene.record.held.refresh);
}

/// Says that it was asked before it asks.
struct Slow {
    entered: mpsc::Sender<()>,
}

impl Fetch for Slow {
    fn fetch<'a>(&'a self, request: Request) -> Fetching<'a> {
        Box::pin(async move {
            self.entered.send(()).await.expect("the test waits");
            online().fetch(request).await
        })
    }
}

#[tokio::test]
async fn a_removed_login_stays_removed() {
    let scene = scene().await;
    scene.vault.remove(&scene.record.key, 1).await.expect("removed");
    assert!(matches!(scene.renew().await, Err(RenewError::NeedsLogin)));
    assert_eq!(scene.vault.read(&scene.record.key).await.expect("read"), None);
    assert_eq!(scene.authority.book().refreshes, 0);
}

#[tokio::test]
async fn a_stored_endpoint_that_leads_inside_is_not_gone_to() {
    let scene = scene().await;
    let mut bent = scene.record.clone();
    bent.metadata.token_endpoint = "http://169.254.169.254/token".to_owned();
    let bent = put(&*scene.vault, bent).await.expect("kept");
    let error = scene.refresher.renew(&bent, Need::Refused).await.expect_err("refused");
    assert!(matches!(error, RenewError::Server(_)), "{error:?}");
}

/// A vault on a disk that may be full.
struct FullVault(Arc<dyn Vault>, AtomicBool);

impl Vault for FullVault {
    fn find<'a>(&'a self, server: &'a str, client: &'a str) -> Keeping<'a, Option<Record>> {
        self.0.find(server, client)
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Option<Record>> {
        self.0.read(key)
    }

    fn swap<'a>(&'a self, record: &'a Record) -> Keeping<'a, Swapped> {
        match self.1.load(Ordering::SeqCst) {
            true => Box::pin(async {
                Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
            }),
            false => self.0.swap(record),
        }
    }

    fn remove<'a>(&'a self, key: &'a RecordKey, version: u64) -> Keeping<'a, Swapped> {
        self.0.remove(key, version)
    }

    fn all<'a>(&'a self) -> Keeping<'a, Vec<Record>> {
        self.0.all()
    }

    fn hold<'a>(&'a self, key: &'a RecordKey) -> Keeping<'a, Hold> {
        self.0.hold(key)
    }
}

#[tokio::test]
async fn tokens_that_a_full_disk_does_not_take_are_not_forgotten() {
    let Scene { authority, vault, record, _folder, .. } = scene().await;
    let full = Arc::new(FullVault(vault.clone(), AtomicBool::new(true)));
    let refresher = Refresher::new(full.clone(), Arc::new(online()), trust(&authority));
    let first = refresher.renew(&record, Need::Refused).await.expect("renewed");
    assert_eq!(vault.read(&record.key).await.expect("read").as_ref(), Some(&record));
    // Nobody holds on to what was renewed, as after a renewal ahead of time.
    let second = refresher.renew(&record, Need::Refused).await.expect("renewed");
    assert_ne!(
        (&second.held.refresh, &second.held.refresh),
        (&first.held.refresh, &record.held.refresh)
    );
    full.1.store(false, Ordering::SeqCst);
    let third = refresher.renew(&second, Need::Refused).await.expect("renewed");
    let used = authority.book().seen.last().map(|it| it.form["refresh_token"].clone());
    let shown = second.held.refresh.as_ref().map(|it| it.reveal().to_owned());
    assert_eq!(used, shown, "the newest is used, though it was never written down");
    let kept = vault.read(&record.key).await.expect("read").expect("there");
    assert_eq!(kept.held.refresh, third.held.refresh);
}

//! Ten tasks and several processes share one login whose tokens expire after two seconds and rotate; reuse of a
//! refresh token ends the login. The authorization server fails at times, and processes are killed during a refresh.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_auth::token_provider::refresher::Refresher;
use switchboard_auth::token_provider::{RequiredAction, TokenProvider};
use switchboard_auth::token_store::{LoginStatus, TokenStore};
use switchboard_wire::http::client::Target;
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::streamable_http::StreamableHttpTransport;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{interval, timeout};

use crate::auth_server::{AuthServer, TokenBehavior, http_fetcher, network};
use crate::refresh::{TIMEOUT, open_store, sign_in_and_store, trust_settings};

const TASKS: usize = 10;
const PROCESSES: usize = 4;
const DURATION: Duration = Duration::from_secs(10);

/// The path of the example program.
fn worker_path() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folder = own.parent().and_then(Path::parent).expect("it lies in a folder of a folder");
    let worker = folder.join("examples").join("login_worker");
    assert!(worker.exists(), "build everything first: `--workspace` builds examples, too");
    worker
}

/// A process that ends with the test, even if the test fails.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _ended_already = self.0.wait();
    }
}

impl Worker {
    fn start(folder: &Path, auth_server: &AuthServer, seconds: u64) -> Worker {
        let started = Command::new(worker_path())
            .arg(folder)
            .arg(auth_server.server().as_str())
            .arg(seconds.to_string())
            .stdout(Stdio::piped())
            .spawn();
        Worker(started.expect("it starts"))
    }

    /// Waits for the end, which must be a success after successful calls.
    async fn assert_success(mut self) {
        let ended = spawn_blocking(move || {
            let mut output = String::new();
            let mut out = self.0.stdout.take().expect("it is piped");
            out.read_to_string(&mut output).expect("text");
            (self.0.wait().expect("waited"), output)
        });
        let (status, output) = timeout(TIMEOUT, ended).await.expect("it ends").expect("waited");
        assert!(status.success() && !output.starts_with("0 good"), "{output}");
    }
}

/// Calls until the time is over and counts the successes.
async fn call_repeatedly(auth_server: Arc<AuthServer>, store: Arc<dyn TokenStore>) -> usize {
    let refresher = Refresher::new(store, Arc::new(http_fetcher()), trust_settings(&auth_server));
    let provider = Arc::new(TokenProvider::new(refresher.clone(), ""));
    let target = Target::new(auth_server.server()).authorize(provider.clone());
    let connection = Peer::spawn(StreamableHttpTransport::new(network("task"), target));
    let end = Instant::now() + DURATION;
    let mut pace = interval(Duration::from_millis(100));
    let mut good = 0;
    while Instant::now() < end {
        pace.tick().await;
        good += usize::from(connection.peer.call("tools/list").await.is_ok());
        let wanting = provider.required_action();
        assert!(!matches!(wanting, Some(RequiredAction::SignIn { .. })), "after {good} good calls");
    }
    refresher.close().await;
    good
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_shared_by_many_processes_is_made_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = Arc::new(AuthServer::start().await);
    auth_server.state().lifetime = Duration::from_secs(2);
    let store = open_store(folder.path()).await;
    let record = sign_in_and_store(&auth_server, &*store).await;
    auth_server.state().behavior = TokenBehavior::DownEvery(4);
    let processes: Vec<Worker> = (0..PROCESSES)
        .map(|_| Worker::start(folder.path(), &auth_server, DURATION.as_secs()))
        .collect();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| tokio::spawn(call_repeatedly(auth_server.clone(), store.clone())))
        .collect();
    for task in tasks {
        let good =
            timeout(DURATION + TIMEOUT, task).await.expect("it ends").expect("no login is wanted");
        assert!(good > 3, "{good}");
    }
    for process in processes {
        process.assert_success().await;
    }
    let stored = store.read(&record.key).await.expect("read").expect("there");
    assert_eq!(stored.status, LoginStatus::Good);
    let book = auth_server.state();
    assert_eq!((book.reused_refresh_tokens, book.max_in_flight), (0, 1));
    // One refresh every two seconds, and the failed ones; not one per caller.
    let most = 2 * DURATION.as_secs() as u32;
    assert!((3..=most).contains(&book.refreshes), "{}", book.refreshes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_during_a_refresh_does_not_block_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let auth_server = AuthServer::start().await;
    let store = open_store(folder.path()).await;
    let record = sign_in_and_store(&auth_server, &*store).await;
    let (stalled, mut stalling) = mpsc::channel(16);
    auth_server.state().behavior = TokenBehavior::Stalls(stalled);
    auth_server.state().invalidate_access_tokens();
    let mut children: Vec<Worker> =
        (0..3).map(|_| Worker::start(folder.path(), &auth_server, 3)).collect();
    let who =
        timeout(TIMEOUT, stalling.recv()).await.expect("one process refreshes").expect("its name");
    let position = children.iter().position(|child| child.0.id().to_string() == who);
    let killed = children.remove(position.expect("one of ours"));
    // The authorization server saw the request and did not act on it.
    auth_server.state().behavior = TokenBehavior::Good;
    drop(killed);
    for child in children {
        child.assert_success().await;
    }
    assert_eq!(auth_server.state().reused_refresh_tokens, 0);
    let stored = store.read(&record.key).await.expect("read").expect("there");
    assert_eq!((stored.status, stored.version), (LoginStatus::Good, 2));
}

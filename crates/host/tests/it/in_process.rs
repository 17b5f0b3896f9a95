//! Servers in this process: registered by name, connected like other servers, ended with their connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value as Json, json};
use switchboard::FailureKind;
use switchboard::catalogue::ListKind;
use switchboard::connection::{InProcessServer, RetryPolicy, Status};
use switchboard::sources::loader;
use switchboard::wire::protocol::era::Era;
use switchboard_builtin::demo;

use crate::support::{TestHost, cause, is_connected, tools};

/// Counts open sessions.
#[derive(Clone, Default)]
pub struct SessionCount(Arc<AtomicUsize>);

struct OpenSession(SessionCount);

impl SessionCount {
    fn begin(&self) -> OpenSession {
        self.0.fetch_add(1, Ordering::SeqCst);
        OpenSession(self.clone())
    }

    pub fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const ENTRY: &str = r#"{"mcpServers": {"notes": {"type": "sdk", "name": "demo"}}}"#;

/// A host with the demo server, configured as `notes`.
pub async fn test_host(count: &SessionCount) -> TestHost {
    let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
    let server = demo::server(folder.path().join("notes.json"));
    let count = count.clone();
    let serve = move |link| {
        let (server, held) = (server.clone(), count.begin());
        async move {
            server.serve(link).await;
            drop(held);
        }
    };
    let test_host = TestHost::in_folder(folder, |options| {
        options.in_process.insert("demo".to_owned(), InProcessServer::new(serve));
    });
    test_host.host.apply(&loader::from_program("test", ENTRY)).await;
    test_host
}

async fn text(test_host: &TestHost, tool: &'static str, arguments: Json) -> String {
    test_host.host.settled().await;
    let context = test_host.permissive_context(test_host.host.watch_pool());
    let answer = test_host.call_exposed(&context, &format!("mcp__notes__{tool}"), arguments).await;
    answer.expect("an answer").text()
}

#[tokio::test]
async fn it_connects_responds_reconnects_and_ends() {
    let count = SessionCount::default();
    let test_host = test_host(&count).await;
    let view = test_host.view_when("notes", is_connected).await;
    assert_eq!(view.server_info.as_ref().map(|it| it.era), Some(Era::Modern));
    assert!(tools(&view).contains(&"echo"), "{:?}", tools(&view));
    assert_eq!((view.pid, count.now()), (None, 1));
    assert_eq!(text(&test_host, "echo", json!({"text": "hello"})).await, "hello");
    let before = Arc::as_ptr(&view);
    test_host.host.reconnect("notes").await.expect("there is such a server");
    test_host.view_when("notes", |it| !std::ptr::eq(it, before) && is_connected(it)).await;
    assert_eq!(text(&test_host, "echo", json!({"text": "again"})).await, "again");
    assert_eq!(count.now(), 1);
    test_host.host.apply_servers(Vec::new()).await;
    test_host.host.apply(&loader::from_program("test", ENTRY)).await;
    test_host.view_when("notes", is_connected).await;
    assert_eq!(count.now(), 1);
    let host = test_host.host.clone();
    test_host.stop().await;
    assert_eq!((count.now(), host.snapshot().servers.len()), (0, 0));
}

#[tokio::test]
async fn a_dropped_host_leaves_no_session() {
    let count = SessionCount::default();
    let test_host = test_host(&count).await;
    test_host.view_when("notes", is_connected).await;
    test_host.drop_host().await;
    assert_eq!(count.now(), 0);
}

#[tokio::test]
async fn its_changes_appear_in_the_catalogue() {
    let test_host = test_host(&SessionCount::default()).await;
    let notes =
        |it: &switchboard::connection::ServerView| it.catalogue.items(ListKind::Resources).len();
    let view = test_host.view_when("notes", is_connected).await;
    assert_eq!(notes(&view), 0);
    text(&test_host, "add_note", json!({"text": "Buy tea"})).await;
    let view = test_host.view_when("notes", |it| notes(it) == 1).await;
    assert_eq!(view.catalogue.items(ListKind::Resources)[0].name, "note://1");
    assert_eq!(view.catalogue.items(ListKind::ResourceTemplates).len(), 1);
    assert_eq!(view.catalogue.items(ListKind::Prompts).len(), 2);
    test_host.stop().await;
}

#[tokio::test]
async fn its_elicitations_are_declined_without_a_user() {
    let test_host = test_host(&SessionCount::default()).await;
    let booked = test_host.call("notes", "book_table", json!({})).await.expect("an answer");
    assert_eq!(booked, json!({"action": "decline"}));
    test_host.stop().await;
}

#[tokio::test]
async fn an_unregistered_name_is_not_available() {
    let test_host = TestHost::without_retries();
    test_host.host.apply(&loader::from_program("test", ENTRY)).await;
    let view = test_host.view("notes").await;
    assert_eq!(cause(&view).kind, FailureKind::NotRegistered);
    test_host.stop().await;
}

#[tokio::test]
async fn a_server_that_ends_at_once_fails_alone() {
    let test_host = TestHost::with(|options| {
        options.retry_policy = RetryPolicy::NoRetry;
        options.in_process =
            BTreeMap::from([("demo".to_owned(), InProcessServer::new(async |link| drop(link)))]);
    });
    test_host.host.apply(&loader::from_program("test", ENTRY)).await;
    let view = test_host.view("notes").await;
    assert!(matches!(view.status, Status::Failed(_)), "{view:?}");
    test_host.stop().await;
}

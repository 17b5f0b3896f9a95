//! Servers in this process: registered by name, connected to like any other, gone with their connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value as Json, json};
use switchboard::catalogue::ListKind;
use switchboard::cause::FailureKind;
use switchboard::connection::Status;
use switchboard::connection::state::RetryPolicy;
use switchboard::in_process::InProcessServer;
use switchboard::load;
use switchboard::wire::era::Era;
use switchboard_builtin::demonstration;

use crate::support::{TestHost, cause, is_connected, tools};

/// Counts the conversations that are being held.
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

/// A host with the demonstration server in it, applied as `notes`.
pub async fn bench(count: &SessionCount) -> TestHost {
    let folder = Arc::new(tempfile::tempdir().expect("a temp folder"));
    let server = demonstration::server(folder.path().join("notes.json"));
    let count = count.clone();
    let serve = move |link| {
        let (server, held) = (server.clone(), count.begin());
        async move {
            server.serve(link).await;
            drop(held);
        }
    };
    let bench = TestHost::in_folder(folder, |options| {
        options.in_process.insert("demo".to_owned(), InProcessServer::new(serve));
    });
    bench.host.apply(&load::from_program("test", ENTRY)).await;
    bench
}

async fn text(bench: &TestHost, tool: &'static str, arguments: Json) -> String {
    bench.host.settled().await;
    let context = bench.permissive_context(bench.host.watch_pool());
    let answer = bench.call_exposed(&context, &format!("mcp__notes__{tool}"), arguments).await;
    answer.expect("an answer").text()
}

#[tokio::test]
async fn it_is_connected_to_called_reconnected_and_gone_at_the_end() {
    let count = SessionCount::default();
    let bench = bench(&count).await;
    let view = bench.view_when("notes", is_connected).await;
    assert_eq!(view.server_info.as_ref().map(|it| it.era), Some(Era::Modern));
    assert!(tools(&view).contains(&"echo"), "{:?}", tools(&view));
    assert_eq!((view.pid, count.now()), (None, 1));
    assert_eq!(text(&bench, "echo", json!({"text": "hello"})).await, "hello");
    let before = Arc::as_ptr(&view);
    bench.host.reconnect("notes").await.expect("there is such a server");
    bench.view_when("notes", |it| !std::ptr::eq(it, before) && is_connected(it)).await;
    assert_eq!(text(&bench, "echo", json!({"text": "again"})).await, "again");
    assert_eq!(count.now(), 1);
    bench.host.apply_servers(Vec::new()).await;
    bench.host.apply(&load::from_program("test", ENTRY)).await;
    bench.view_when("notes", is_connected).await;
    assert_eq!(count.now(), 1);
    let host = bench.host.clone();
    bench.stop().await;
    assert_eq!((count.now(), host.snapshot().servers.len()), (0, 0));
}

#[tokio::test]
async fn a_host_that_is_dropped_leaves_no_conversation() {
    let count = SessionCount::default();
    let bench = bench(&count).await;
    bench.view_when("notes", is_connected).await;
    bench.drop_host().await;
    assert_eq!(count.now(), 0);
}

#[tokio::test]
async fn what_changes_in_it_changes_in_the_catalogue() {
    let bench = bench(&SessionCount::default()).await;
    let notes =
        |it: &switchboard::connection::ServerView| it.catalogue.items(ListKind::Resources).len();
    let view = bench.view_when("notes", is_connected).await;
    assert_eq!(notes(&view), 0);
    text(&bench, "add_note", json!({"text": "Buy tea"})).await;
    let view = bench.view_when("notes", |it| notes(it) == 1).await;
    assert_eq!(view.catalogue.items(ListKind::Resources)[0].name, "note://1");
    assert_eq!(view.catalogue.items(ListKind::ResourceTemplates).len(), 1);
    assert_eq!(view.catalogue.items(ListKind::Prompts).len(), 2);
    bench.stop().await;
}

#[tokio::test]
async fn its_questions_are_declined_where_nobody_answers_them() {
    let bench = bench(&SessionCount::default()).await;
    let booked = bench.call("notes", "book_table", json!({})).await.expect("an answer");
    assert_eq!(booked, json!({"action": "decline"}));
    bench.stop().await;
}

#[tokio::test]
async fn a_name_that_nobody_registered_is_not_here() {
    let bench = TestHost::without_retries();
    bench.host.apply(&load::from_program("test", ENTRY)).await;
    let view = bench.view("notes").await;
    assert_eq!(cause(&view).kind, FailureKind::NotRegistered);
    bench.stop().await;
}

#[tokio::test]
async fn one_that_ends_at_once_has_failed_and_nothing_else_has() {
    let bench = TestHost::with(|options| {
        options.retry_policy = RetryPolicy::NoRetry;
        options.in_process =
            BTreeMap::from([("demo".to_owned(), InProcessServer::new(async |link| drop(link)))]);
    });
    bench.host.apply(&load::from_program("test", ENTRY)).await;
    let view = bench.view("notes").await;
    assert!(matches!(view.status, Status::Failed(_)), "{view:?}");
    bench.stop().await;
}

//! `headersHelper`: its headers are sent, refreshed after a rejection, and never leak elsewhere.

use std::fs;
use std::path::Path;

use serde_json::json;
use switchboard::FailureKind;
use switchboard::config::merge::{ScopeFilter, ServerState};
use switchboard::config::permission::PermissionRules;
use switchboard::config::template::Environment;
use switchboard::connection::Status;
use switchboard::sources::Paths;
use switchboard::sources::loader::{LoadOptions, SettingSources, load};
use testkit::{Quirk, Script, ScriptedServer};

use crate::support::{TestHost, cause, is_connected, remote, with_member};

/// A helper that prints the next token of a file with each run and records that it ran.
fn helper(folder: &Path, tokens: &[&str]) -> String {
    let folder = folder.display();
    fs::write(format!("{folder}/tokens"), tokens.join("\n") + "\n").expect("written");
    format!(
        "cd '{folder}' && echo \"$SWITCHBOARD_MCP_SERVER_NAME $SWITCHBOARD_MCP_SERVER_URL\" >> runs && \
         printf '{{\"Authorization\": \"Bearer %s\"}}' \"$(sed -n \"$(grep -c '' runs)p\" tokens)\""
    )
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

fn guarded() -> Script {
    Script::legacy().quirk(Quirk::RequiresBearer { token: "canary-2".to_owned() })
}

fn entry(kind: &str, server: &ScriptedServer, helper: &str) -> String {
    with_member(&remote(kind, server.url()), "headersHelper", json!(helper))
}

#[tokio::test]
async fn rejected_headers_are_refreshed_once_and_then_kept_over_http_and_sse() {
    for (kind, server) in
        [("http", ScriptedServer::http(guarded())), ("sse", ScriptedServer::sse(guarded()))]
    {
        let folder = tempfile::tempdir().expect("a temp folder");
        let test_host = TestHost::without_retries();
        let helper = helper(folder.path(), &["canary-1", "canary-2", "canary-3"]);
        test_host.apply(&[("s", entry(kind, &server, &helper))]).await;
        let view = test_host.view("s").await;
        assert!(is_connected(&view), "{kind}: {view:#?}");
        test_host.call_idempotent("s", "echo", json!({"text": "a"})).await.expect("it is let in");
        assert_eq!(runs(folder.path()), 2, "{kind}");
        let ran = fs::read_to_string(folder.path().join("runs")).expect("it ran");
        assert_eq!(ran.lines().next(), Some(&*format!("s {}", server.url())), "{kind}");
        let requests = server.requests();
        let last = requests.last().expect("a request");
        assert_eq!(last.header("authorization"), Some("Bearer canary-2"), "{kind}");
        test_host.stop().await;
    }
}

#[tokio::test]
async fn a_second_rejection_is_reported_without_the_helpers_output() {
    let server = ScriptedServer::http(guarded());
    let folder = tempfile::tempdir().expect("a temp folder");
    let test_host = TestHost::without_retries();
    let helper = helper(folder.path(), &["canary-a", "canary-b", "canary-2"]);
    test_host.apply(&[("s", entry("http", &server, &helper))]).await;
    let view = test_host.view("s").await;
    assert!(matches!(view.status, Status::NeedsAuth(_)), "{view:#?}");
    let told = format!("{:?} {}", cause(&view), cause(&view));
    assert!(told.contains("refuses the headers of `headersHelper`"), "{told}");
    assert!(!told.contains("canary"), "{told}");
    assert_eq!(runs(folder.path()), 2);
    // A recent rejection does not prevent a helper from trying again.
    test_host.host.reconnect("s").await;
    test_host.view_when("s", is_connected).await;
    test_host.stop().await;
}

#[tokio::test]
async fn a_failing_helper_fails_the_connection_before_any_request() {
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::without_retries();
    let helper = "echo 'it is shut' >&2; exit 7";
    test_host.apply(&[("s", entry("http", &server, helper))]).await;
    let view = test_host.view("s").await;
    assert_eq!(cause(&view).kind, FailureKind::InvalidConfig, "{view:#?}");
    let detail = "`headersHelper` of `s` (scope user): it ended with exit status: 7: it is shut";
    assert_eq!(cause(&view).evidence[0].text(), detail);
    assert_eq!(server.requests(), []);
    test_host.stop().await;
}

#[tokio::test]
async fn a_helper_overrides_fixed_headers() {
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::without_retries();
    let entry = entry("http", &server, r#"echo '{"B": "3"}'"#);
    let entry = with_member(&entry, "headers", json!({"A": "1", "B": "2"}));
    test_host.apply(&[("s", entry)]).await;
    assert!(is_connected(&*test_host.view("s").await));
    for request in server.requests() {
        assert_eq!((request.header("a"), request.header("b")), (Some("1"), Some("3")));
    }
    test_host.stop().await;
}

#[tokio::test]
async fn an_unapproved_project_runs_no_helper() {
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::without_retries();
    let folder = test_host.folder.path().canonicalize().expect("it is there");
    let project = folder.join("project");
    fs::create_dir(&project).expect("a folder");
    let entry = entry("http", &server, &format!("touch '{}/ran'; echo '{{}}'", folder.display()));
    fs::write(project.join(".mcp.json"), format!(r#"{{"mcpServers": {{"s": {entry}}}}}"#))
        .expect("written");
    let configuration = load(&LoadOptions {
        paths: Paths::in_dir(&folder),
        working_folder: project,
        environment: Environment::default(),
        dynamic: Vec::new(),
        settings: None,
        rules: PermissionRules::default(),
        setting_sources: SettingSources::default(),
        scope_filter: ScopeFilter::All,
        sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
        connectors: switchboard::sources::loader::ConnectorUse::Allowed,
        plugins: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
    });
    let state = &configuration.effective.servers[0].state;
    assert!(matches!(state, ServerState::Pending(_)), "{state:?}");
    test_host.host.apply(&configuration.effective).await;
    test_host.settled().await;
    assert!(!folder.join("ran").exists());
    assert_eq!(server.requests(), []);
    test_host.stop().await;
}

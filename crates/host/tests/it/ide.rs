//! Servers inside an IDE: their token is sent only to them, in its own header.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::config::scope::Scope;
use switchboard::ide::{
    DiffOutcome, IDE_SERVER, IdeEvent, IdeLock, IdeRefusal, IdeTool, Mention, ide_server,
};
use switchboard::sources::loader::{self, Configuration, LoadOptions};
use switchboard::sources::{DesiredServer, Paths};
use switchboard::{
    Host, IdeCallError, InProcessServer, RetryPolicy, ServerRequest, Snapshot, Status,
};
use testkit::{Script, ScriptedServer, TestIde};
use tokio::time::timeout;

use crate::support::{TIMEOUT, TestHost, is_connected, remote, with_member};

const HEADER: &str = "x-claude-code-ide-authorization";

#[tokio::test]
async fn the_token_of_an_ide_is_sent_only_to_it_and_never_printed() {
    let (sse, ws) = (ScriptedServer::sse(Script::legacy()), ScriptedServer::ws(Script::legacy()));
    let other = ScriptedServer::http(Script::both());
    let test_host = TestHost::without_retries();
    let with_token = |kind: &str, server: &ScriptedServer, token: &str| {
        with_member(&remote(kind, server.url()), "authToken", json!(token))
    };
    let servers = [
        ("sse", with_token("sse-ide", &sse, "canary-sse")),
        ("ws", with_token("ws-ide", &ws, "canary-ws")),
        ("other", remote("http", other.url())),
    ];
    test_host.apply_in(Scope::Dynamic, &servers).await;
    let snapshot = test_host.settled().await;
    for view in snapshot.servers.values() {
        assert!(is_connected(view), "{view:#?}");
        assert!(!format!("{view:?}").contains("canary"));
    }
    for (server, token) in [(&sse, "canary-sse"), (&ws, "canary-ws")] {
        // A WebSocket message has no headers of its own.
        let mut requests = server.requests();
        requests.retain(|it| it.method != "MESSAGE");
        assert!(!requests.is_empty());
        for request in &requests {
            assert_eq!(request.header(HEADER), Some(token), "{request:?}");
            assert_eq!(request.header("authorization"), None, "{request:?}");
        }
    }
    assert!(other.requests().iter().all(|it| it.header(HEADER).is_none()));
    assert!(!format!("{:?}", test_host.host).contains("canary"));
    test_host.stop().await;
}

const TAB: &str = "✻ [Claude Code] a.py (abc123) ⧉";

fn configuration(folder: &Path) -> Configuration {
    let options = LoadOptions {
        paths: Paths::in_dir(folder),
        working_folder: folder.to_owned(),
        environment: Vec::<(String, String)>::new().into_iter().collect(),
        dynamic: Vec::new(),
        scope_filter: switchboard::config::merge::ScopeFilter::All,
        sdk_entries: switchboard::config::merge::SdkEntries::OfProgramLayers,
        settings: None,
        rules: switchboard::config::permission::PermissionRules::default(),
        setting_sources: loader::SettingSources::default(),
        connectors: switchboard::sources::loader::ConnectorUse::Allowed,
        plugins: Vec::new(),
        embedded: Vec::new(),
        fallback: None,
    };
    loader::load(&options)
}

fn lock_of(ide: &TestIde) -> IdeLock {
    IdeLock::parse(ide.port(), &ide.lock_json(&[]).to_string()).expect("a lock")
}

fn server_of(lock: &IdeLock, test_host: &TestHost) -> DesiredServer {
    ide_server(lock, "127.0.0.1", &configuration(test_host.folder.path())).expect("it is allowed")
}

async fn connect(test_host: &TestHost, ide: &TestIde) {
    test_host.host.set_ide(Some(server_of(&lock_of(ide), test_host))).await;
    let snapshot = test_host.settled().await;
    let view = &snapshot.servers[IDE_SERVER];
    assert!(is_connected(view), "{view:#?}");
    test_host.host.settled_pool().await;
}

fn exposed_names(host: &Host) -> Vec<String> {
    let names = host.pool();
    let mut names: Vec<String> = names.tools().iter().map(|it| it.exposed_name.clone()).collect();
    names.retain(|it| it.starts_with("mcp__ide__"));
    names
}

#[tokio::test]
async fn an_ide_is_told_our_process_before_its_tools_are_listed_and_two_of_them_reach_models() {
    for ide in [TestIde::ws("secret"), TestIde::sse()] {
        let test_host = TestHost::without_retries();
        connect(&test_host, &ide).await;
        let methods = ide.methods();
        let at = |name: &str| methods.iter().position(|it| it == name).expect("it was sent");
        assert!(at("notifications/initialized") < at("ide_connected"), "{methods:?}");
        assert!(at("ide_connected") < at("tools/list"), "{methods:?}");
        assert!(!methods.iter().any(|it| it == "server/discover"), "{methods:?}");
        let connected = &ide.messages()[at("ide_connected")];
        assert_eq!(connected["params"], json!({"pid": std::process::id()}));
        let expected = ["mcp__ide__executeCode", "mcp__ide__getDiagnostics"];
        assert_eq!(exposed_names(&test_host.host), expected);
        test_host.stop().await;
    }
}

#[tokio::test]
async fn an_ide_that_refuses_the_token_has_a_stale_lock_file_and_is_never_logged_in_to() {
    let ide = TestIde::ws("old");
    let test_host = TestHost::without_retries();
    let server = server_of(&lock_of(&ide), &test_host);
    ide.change_token("new");
    test_host.host.set_ide(Some(server)).await;
    let snapshot = test_host.settled().await;
    let view = &snapshot.servers[IDE_SERVER];
    let cause = view.status.cause().expect("a cause");
    assert!(matches!(view.status, Status::Failed(_)), "{view:#?}");
    assert_eq!(cause.id(), "ide-token-refused");
    assert_eq!(cause.to_string(), "the IDE refused the token, so its lock file is stale");
    assert_eq!(ide.refusals(), ["Invalid authentication token"]);
    assert!(exposed_names(&test_host.host).is_empty());
    test_host.stop().await;
}

#[tokio::test]
async fn an_ide_that_knows_no_ping_is_alive() {
    let ide = TestIde::ws("secret");
    let test_host = TestHost::without_retries();
    connect(&test_host, &ide).await;
    test_host.host.ping(IDE_SERVER, TIMEOUT).await.expect("an error response shows life");
    assert!(is_connected(&test_host.host.ide().expect("the view")));
    test_host.stop().await;
}

#[tokio::test]
async fn only_the_listed_tools_of_an_ide_are_called_without_a_permit() {
    let ide = TestIde::ws("secret");
    let test_host = TestHost::without_retries();
    let host = &test_host.host;
    let none = host.call_ide(IdeTool::GetDiagnostics, &json!({})).await;
    assert!(matches!(none, Err(IdeCallError::NotConnected)), "{none:?}");
    connect(&test_host, &ide).await;
    ide.set_diagnostics(json!([{"uri": "file:///a", "diagnostics": []}]));
    let result = host.call_ide(IdeTool::GetDiagnostics, &json!({})).await.expect("a result");
    assert_eq!(result.json(), Some(json!([{"uri": "file:///a", "diagnostics": []}])));
    let request = ServerRequest::idempotent("tools/call", TIMEOUT);
    assert!(host.request(IDE_SERVER, request).await.is_err(), "it needs a permit");
    test_host.stop().await;
}

#[tokio::test]
async fn a_server_that_is_no_ide_cannot_be_called_as_one() {
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::without_retries();
    test_host.apply(&[("other", remote("http", server.url()))]).await;
    test_host.settled().await;
    let outcome = test_host.host.call_ide(IdeTool::OpenDiff, &json!({})).await;
    assert!(matches!(outcome, Err(IdeCallError::NotConnected)), "{outcome:?}");
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diff_waits_for_the_person_and_returns_the_contents_that_they_saved() {
    let ide = TestIde::ws("secret");
    let test_host = TestHost::without_retries();
    connect(&test_host, &ide).await;
    let host = &test_host.host;
    let arguments = json!({
        "old_file_path": "/a.py", "new_file_path": "/a.py", "new_file_contents": "new", "tab_name": TAB,
    });
    let open = host.call_ide(IdeTool::OpenDiff, &arguments);
    let accept = async { tokio::task::block_in_place(|| ide.accept_diff_as("mine")) };
    let (saved, ()) = tokio::join!(open, accept);
    let contents = "mine\n".to_owned();
    assert_eq!(saved.expect("a result").diff_outcome(), Some(DiffOutcome::Saved { contents }));
    let open = host.call_ide(IdeTool::OpenDiff, &arguments);
    let close = async {
        tokio::task::block_in_place(|| ide.wait_for_diff());
        host.call_ide(IdeTool::CloseTab, &json!({"tab_name": TAB})).await
    };
    let (rejected, closed) = tokio::join!(open, close);
    assert_eq!(rejected.expect("a result").diff_outcome(), Some(DiffOutcome::Rejected));
    assert_eq!(closed.expect("a result").texts, ["TAB_CLOSED"]);
    let unknown = host.call_ide(IdeTool::CloseTab, &json!({"tab_name": "another form"})).await;
    assert!(matches!(unknown, Err(IdeCallError::InvalidResult)), "{unknown:?}");
    test_host.stop().await;
}

#[tokio::test]
async fn selections_and_mentions_arrive_and_events_for_statistics_are_counted_and_dropped() {
    let ide = TestIde::ws("secret");
    let test_host = TestHost::without_retries();
    let mut events = test_host.host.ide_events();
    connect(&test_host, &ide).await;
    ide.select("/a.py", "text", (1, 0), (1, 4));
    ide.notify("log_event", &json!({"anything": [1, 2]}));
    ide.notify("unknown", &json!({}));
    ide.mention("b.py", Some((0, 2)));
    let mut received = Vec::new();
    while !matches!(received.last(), Some(IdeEvent::Mentioned(_))) {
        received.push(timeout(TIMEOUT, events.recv()).await.expect("in time").expect("an event"));
    }
    let [idle, selected, mentioned] = &received[..] else { panic!("{received:?}") };
    assert_eq!(*idle, IdeEvent::SelectionChanged(None));
    let IdeEvent::SelectionChanged(Some(selection)) = selected else { panic!("{selected:?}") };
    assert_eq!((selection.path.as_str(), selection.first_line), ("/a.py", 2));
    let mention = Mention { path: "b.py".to_owned(), lines: Some((1, 3)) };
    assert_eq!(*mentioned, IdeEvent::Mentioned(mention));
    assert_eq!(test_host.host.ide_log_events(), 1);
    test_host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ide_is_connected_again_after_its_connection_broke_and_stays_beside_other_servers() {
    let ide = TestIde::ws("secret");
    let server = ScriptedServer::http(Script::both());
    let test_host = TestHost::with(|it| it.retry_policy = RetryPolicy::RetryWithBackoff);
    connect(&test_host, &ide).await;
    // Another configuration does not disconnect it.
    test_host.apply(&[("other", remote("http", server.url()))]).await;
    let snapshot = test_host.settled().await;
    assert!(is_connected(&snapshot.servers[IDE_SERVER]));
    ide.drop_connections();
    ide.wait_for_method("ide_connected", 2);
    let both =
        |it: &Snapshot| it.servers.len() == 2 && it.servers.values().all(|it| is_connected(it));
    test_host.until(both).await;
    test_host.host.set_ide(None).await;
    test_host.until(|it| !it.servers.contains_key(IDE_SERVER)).await;
    test_host.stop().await;
}

/// coder/claudecode.nvim#156: a lock file whose server talks to another client.
#[tokio::test]
async fn an_ide_that_answers_nothing_is_given_up_after_seconds() {
    let ide = TestIde::ws("secret");
    ide.stop_answering();
    let test_host = TestHost::without_retries();
    let server = server_of(&lock_of(&ide), &test_host);
    let limit = server.spec.common.connect_timeout.expect("a limit of its own");
    assert!(limit <= Duration::from_secs(5));
    test_host.host.set_ide(Some(server)).await;
    let snapshot = test_host.settled().await;
    assert!(matches!(snapshot.servers[IDE_SERVER].status, Status::Failed(_)));
    test_host.stop().await;
}

#[tokio::test]
async fn an_administrator_keeps_ides_away() {
    let ide = TestIde::ws("secret");
    let test_host = TestHost::without_retries();
    let paths = Paths::in_dir(test_host.folder.path());
    std::fs::create_dir_all(&paths.managed).expect("a folder");
    let refusal = || {
        let configuration = configuration(test_host.folder.path());
        ide_server(&lock_of(&ide), "127.0.0.1", &configuration).expect_err("it is refused")
    };
    let policy = json!({"deniedMcpServers": [{"serverName": "ide"}]});
    std::fs::write(paths.managed_settings(), policy.to_string()).expect("a file");
    assert_eq!(refusal(), IdeRefusal::Policy);
    std::fs::write(paths.managed_servers(), r#"{"mcpServers": {}}"#).expect("a file");
    assert_eq!(refusal(), IdeRefusal::ExclusiveSource);
    test_host.stop().await;
}

#[tokio::test]
async fn an_editor_s_own_server_gets_gates_once_and_later_the_files_that_tools_changed() {
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel::<Json>();
    let server = InProcessServer::new(move |transport| editor::serve(transport, sender.clone()));
    let test_host = TestHost::with(|it| {
        it.in_process.insert("claude-vscode".to_owned(), server);
    });
    let entry = json!({"type": "sdk", "name": "claude-vscode"}).to_string();
    test_host.apply_in(Scope::Dynamic, &[("claude-vscode", entry)]).await;
    test_host.settled().await;
    let update = switchboard::FileUpdate {
        path: "/a".to_owned(),
        old_content: "1".to_owned(),
        new_content: "2".to_owned(),
    };
    test_host.host.notify_file_updated(&update).await;
    let mut received = Vec::new();
    while received.last().is_none_or(|it: &Json| it["method"] != "file_updated") {
        received.push(timeout(TIMEOUT, lines.recv()).await.expect("in time").expect("a message"));
    }
    let gates: Vec<&Json> =
        received.iter().filter(|it| it["method"] == "experiment_gates").collect();
    assert_eq!(gates.len(), 1);
    assert_eq!(gates[0]["params"], json!({"gates": {}}));
    let expected = json!({"filePath": "/a", "oldContent": "1", "newContent": "2"});
    assert_eq!(received.last().expect("a message")["params"], expected);
    test_host.stop().await;
}

/// The server of an editor in the same process, which passes every notification on.
mod editor {
    use serde_json::{Value as Json, json};
    use switchboard::wire::jsonrpc::message::{Message, Payload};
    use switchboard::wire::transport::{OutgoingMessage, Transport, TransportEvent};
    use tokio::sync::mpsc;

    pub async fn serve(mut transport: impl Transport, seen: mpsc::UnboundedSender<Json>) {
        while let Ok(event) = transport.next().await {
            let TransportEvent::Message(message) = event else { continue };
            match message {
                Message::Notification { method, params } => {
                    let params: Json = params.and_then(|it| it.decode().ok()).unwrap_or_default();
                    let _test_over = seen.send(json!({"method": &*method, "params": params}));
                }
                Message::Request { id, method, .. } => {
                    let result = match &*method {
                        "initialize" => json!({
                            "protocolVersion": "2025-06-18", "capabilities": {},
                            "serverInfo": {"name": "editor", "version": "1"},
                        }),
                        _ => json!({}),
                    };
                    let result = Payload::from_json(result.to_string().into());
                    transport.push(OutgoingMessage::from(Message::Response {
                        id: Some(id),
                        outcome: Ok(result),
                    }));
                }
                Message::Response { .. } => {}
            }
        }
    }
}

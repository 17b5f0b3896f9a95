//! Servers inside an IDE: their token is sent only to them, in its own header.

use serde_json::json;
use switchboard::config::scope::Scope;
use testkit::{Script, ScriptedServer};

use crate::support::{TestHost, is_connected, remote, with_member};

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

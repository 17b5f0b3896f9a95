//! Connects over every transport in both eras.

use std::time::Duration;

use switchboard::catalogue::ListKind;
use switchboard::connection::Status;
use switchboard::request::ServerRequest;
use switchboard::wire::protocol::era::Era;
use testkit::{Script, ScriptedProgram, ScriptedServer};

use crate::support::{TestHost, remote};

#[tokio::test]
async fn every_transport_is_connected_to_in_both_eras() {
    let test_host = TestHost::new();
    let mut servers = Vec::new();
    let mut servers_by_transport = Vec::new();
    for (era, script) in [("legacy", Script::legacy()), ("modern", Script::modern())] {
        let script = script.tools(3).resources(2).prompts(1);
        servers.push((format!("{era}-stdio"), ScriptedProgram::config_entry(&script)));
        let http = ScriptedServer::http(script.clone());
        servers.push((format!("{era}-http"), remote("http", http.url())));
        let ws = ScriptedServer::ws(script.clone());
        servers.push((format!("{era}-ws"), remote("ws", ws.url())));
        servers_by_transport.extend([http, ws]);
    }
    let sse = ScriptedServer::sse(Script::legacy().tools(3).resources(2).prompts(1));
    servers.push(("legacy-sse".to_owned(), remote("sse", sse.url())));
    // The 2024 SSE transport behind an entry for streamable HTTP.
    servers.push(("legacy-fallback".to_owned(), remote("http", sse.url())));
    let pairs: Vec<(&str, String)> =
        servers.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect();
    test_host.apply(&pairs).await;
    let snapshot = test_host.settled().await;
    assert_eq!(snapshot.servers.len(), servers.len());
    for (name, view) in &snapshot.servers {
        assert_eq!(view.status, Status::Connected, "{name}: {view:#?}");
        let era = view.server_info.as_ref().map(|it| it.era);
        let expected = if name.starts_with("modern") { Era::Modern } else { Era::Legacy };
        assert_eq!(era, Some(expected), "{name}");
        let names: Vec<&str> =
            view.catalogue.items(ListKind::Tools).iter().map(|it| it.name.as_str()).collect();
        assert!(names.contains(&"tool_0") && names.contains(&"echo"), "{name}: {names:?}");
        assert_eq!(view.catalogue.items(ListKind::Resources).len(), 2, "{name}");
        let ping = test_host.host.ping(name, Duration::from_secs(5)).await;
        assert!(ping.is_ok(), "{name}: {ping:?}");
        let request = ServerRequest::idempotent("tools/list", Duration::from_secs(5));
        test_host.host.request(name, request).await.expect("a response");
    }
    test_host.stop().await;
}

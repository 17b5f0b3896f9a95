//! The engine: every transport, both eras, many servers at once, and changes while it runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard::address::{BeginLinked, Linked};
use switchboard::ask::Question;
use switchboard::catalogue::List;
use switchboard::cause::CauseKind;
use switchboard::connection::Status;
use switchboard::wire::era::Era;
use switchboard::wire::memory;
use switchboard::wire::message::{Payload, RemoteError};
use switchboard::wire::peer::{Connection, Event, Peer};
use testkit::{Script, Scripted, Served};

use crate::support::{Bench, cause, remote};

#[tokio::test]
async fn every_transport_is_connected_to_in_both_eras() {
    let bench = Bench::new();
    let mut servers = Vec::new();
    let mut served = Vec::new();
    for (era, script) in [("legacy", Script::legacy()), ("modern", Script::modern())] {
        let script = script.tools(3).resources(2).prompts(1);
        servers.push((format!("{era}-stdio"), Scripted::entry(&script)));
        let http = Served::http(script.clone());
        servers.push((format!("{era}-http"), remote("http", http.url())));
        let ws = Served::ws(script.clone());
        servers.push((format!("{era}-ws"), remote("ws", ws.url())));
        served.extend([http, ws]);
    }
    let sse = Served::sse(Script::legacy().tools(3).resources(2).prompts(1));
    servers.push(("legacy-sse".to_owned(), remote("sse", sse.url())));
    // The older transport behind an entry that says streamable HTTP.
    servers.push(("legacy-fallback".to_owned(), remote("http", sse.url())));
    let pairs: Vec<(&str, String)> =
        servers.iter().map(|(name, entry)| (name.as_str(), entry.clone())).collect();
    bench.apply(&pairs).await;
    let snapshot = bench.settled().await;
    assert_eq!(snapshot.servers.len(), servers.len());
    for (name, view) in &snapshot.servers {
        assert_eq!(view.status, Status::Connected, "{name}: {view:#?}");
        let era = view.introduction.as_ref().map(|it| it.era);
        let expected = if name.starts_with("modern") { Era::Modern } else { Era::Legacy };
        assert_eq!(era, Some(expected), "{name}");
        let names: Vec<&str> =
            view.catalogue.items(List::Tools).iter().map(|it| it.name.as_str()).collect();
        assert!(names.contains(&"tool_0") && names.contains(&"echo"), "{name}: {names:?}");
        assert_eq!(view.catalogue.items(List::Resources).len(), 2, "{name}");
        let ping = bench.host.ping(name, Duration::from_secs(5)).await;
        assert!(ping.is_ok(), "{name}: {ping:?}");
        let asked = Question::harmless("tools/list", Duration::from_secs(5));
        bench.host.ask(name, asked).await.expect("it answers");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_server_inside_the_embedding_program_is_connected_to_by_its_name_there() {
    let begin: BeginLinked = Arc::new(|| {
        let (ours, its) = memory::pair();
        tokio::spawn(answering(Peer::start(its)));
        ours
    });
    let bench = Bench::with(|options| {
        options.around.linked = Linked::default().with("inside", begin.clone());
    });
    let entry = |name: &str| format!(r#"{{"type": "sdk", "name": "{name}"}}"#);
    bench.apply(&[("s", entry("inside")), ("t", entry("elsewhere"))]).await;
    assert_eq!(bench.view("s").await.status, Status::Connected);
    let elsewhere = bench.view("t").await;
    assert!(matches!(cause(&elsewhere).kind, CauseKind::NotHere));
    bench.stop().await;
}

/// A server that can be introduced to and nothing else.
async fn answering(mut connection: Connection) {
    while let Some(event) = connection.events.recv().await {
        let Event::Request(request) = event else { continue };
        let asked: Json =
            request.params.as_ref().map_or(Json::Null, |it| it.decode().expect("JSON"));
        let introduction = json!({
            "protocolVersion": asked["protocolVersion"],
            "capabilities": {},
            "serverInfo": {"name": "inside", "version": "1"},
        });
        match request.method == "initialize" {
            true => request.answer(Payload::of(&introduction).expect("JSON")).await,
            false => {
                let (code, message) = (-32601, "there is no such method".to_owned());
                request.refuse(RemoteError { code, message, data: None }).await;
            }
        }
    }
}

//! Widely used MCP servers, run by the `swb` binary.

use serde_json::{Value as Json, json};
use testkit::Sandbox;
use testkit::real_servers;
use testkit::real_servers::{ListeningServer, ServerTransport};

use crate::support::{USER, json as json_of, real_entry, scene};

fn remote(kind: &str, url: &str) -> Json {
    json!({"type": kind, "url": url})
}

fn write(scene: &Sandbox, servers: &[(&str, Json)]) {
    let servers: serde_json::Map<String, Json> =
        servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    scene.write(USER, &json!({"mcpServers": servers}).to_string());
}

/// Name, state, era and number of tools of every server in `status`.
#[track_caller]
fn states(scene: &Sandbox) -> Vec<String> {
    let status = json_of(scene, &["status", "--json"]);
    let servers = status["servers"].as_array().expect("a list");
    let word = |json: &Json| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
    servers
        .iter()
        .map(|it| {
            let tools = it["counts"]["tools"].as_u64().unwrap_or(0);
            let some = if tools > 0 { "tools" } else { "no tools" };
            format!(
                "{} {} {} {some} {}",
                word(&it["name"]),
                word(&it["state"]),
                word(&it["era"]),
                word(&it["cause"])
            )
        })
        .collect()
}

#[test]
fn programs_from_npm_and_pypi_are_connected_to() {
    let mut scene = scene();
    scene.set_env("MCP_TIMEOUT", "60000");
    let repository = scene.project();
    let init = std::process::Command::new("git").arg("init").arg("-q").arg(&repository).status();
    assert!(init.expect("git can be run").success());
    let (folder, memories) = (scene.home(), scene.path("~/memories.json"));
    write(
        &scene,
        &[
            ("everything", real_entry(&real_servers::everything(ServerTransport::Stdio))),
            ("filesystem", real_entry(&real_servers::filesystem(&folder))),
            ("git", real_entry(&real_servers::git(&repository))),
            ("memory", real_entry(&real_servers::memory(&memories))),
            ("time", real_entry(&real_servers::time())),
        ],
    );
    let eras: Vec<String> = states(&scene);
    for (state, name) in eras.iter().zip(["everything", "filesystem", "git", "memory", "time"]) {
        let is_well = ["legacy", "modern"]
            .iter()
            .any(|era| *state == format!("{name} connected {era} tools null"));
        assert!(is_well, "{eras:#?}");
    }
    assert!(eras[0].contains("legacy"), "{eras:#?}");
}

#[test]
fn modern_servers_of_two_other_libraries_are_seen_as_modern() {
    let mut scene = scene();
    scene.set_env("MCP_TIMEOUT", "60000");
    write(
        &scene,
        &[
            ("fastmcp", real_entry(&real_servers::fastmcp(ServerTransport::Stdio))),
            ("typescript", real_entry(&real_servers::typescript_v2(ServerTransport::Stdio))),
        ],
    );
    assert_eq!(
        states(&scene),
        ["fastmcp connected modern tools null", "typescript connected modern tools null"]
    );
}

#[test]
fn servers_that_listen_are_connected_to_over_every_transport_they_have() {
    let mut scene = scene();
    scene.set_env("MCP_TIMEOUT", "60000");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (everything, older, fastmcp, typescript) = runtime.block_on(async {
        tokio::join!(
            ListeningServer::start(|port| real_servers::everything(ServerTransport::Http(port))),
            ListeningServer::start(real_servers::everything_over_sse),
            ListeningServer::start(|port| real_servers::fastmcp(ServerTransport::Http(port))),
            ListeningServer::start(|port| real_servers::typescript_v2(ServerTransport::Http(port))),
        )
    });
    write(
        &scene,
        &[
            ("everything", remote("http", &everything.url("/mcp"))),
            ("fallback", remote("http", &older.url("/sse"))),
            ("fastmcp", remote("http", &fastmcp.url("/mcp"))),
            ("older", remote("sse", &older.url("/sse"))),
            ("typescript", remote("http", &typescript.url("/mcp"))),
        ],
    );
    assert_eq!(
        states(&scene),
        [
            "everything connected legacy tools null",
            "fallback connected legacy tools null",
            "fastmcp connected modern tools null",
            "older connected legacy tools null",
            "typescript connected modern tools null",
        ]
    );
    for name in ["everything", "fastmcp", "older", "typescript"] {
        scene.swb(&["ping", name]).expect_success();
    }
}

#[test]
fn a_server_of_another_library_completes_arguments_with_context() {
    let mut scene = scene();
    scene.set_env("MCP_TIMEOUT", "60000");
    write(&scene, &[("everything", real_entry(&real_servers::everything(ServerTransport::Stdio)))]);
    let complete = ["complete", "everything", "--prompt", "completable-prompt"];
    let departments = scene.swb(&[&complete[..], &["department", "S"]].concat());
    assert_eq!(departments.expect_success(), "Sales\nSupport\n");
    let names = ["name", "", "--context", "department=Sales"];
    assert_eq!(
        scene.swb(&[&complete[..], &names].concat()).expect_success(),
        "David\nEve\nFrank\n"
    );
}

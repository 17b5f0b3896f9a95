//! The bearer token of the session that the program runs in: it stands in for a login at the servers of one origin, is read
//! again when it is refused, and goes nowhere else.

use serde_json::{Value as Json, json};
use testkit::connector_account::Connector;
use testkit::{ConnectorService, Quirk, Sandbox, Script, ScriptedServer};

use crate::login_support::{scene_with_browser, times_opened};
use crate::support::{USER, wait_for};

/// A server over HTTP that wants a token, and the file with the token.
fn setup() -> (ConnectorService, Sandbox) {
    let service = ConnectorService::start(&[Connector::new("A")], 1).expect("it starts");
    let scene = scene_with_browser();
    scene.write("~/token", &format!("{}\n", service.bearer_token()));
    (service, scene)
}

fn guarded(service: &ConnectorService) -> Json {
    json!({"type": "http", "url": format!("{}/proxy/0/mcp", service.origin())})
}

/// Settings that name the origin of a URL and the file with its token.
fn in_file(scene: &Sandbox, url: &str) -> Json {
    json!({"url": url, "token": format!("${{file:{}}}", scene.path("~/token").display())})
}

/// Name and state of every server.
#[track_caller]
fn statuses(scene: &Sandbox) -> Vec<String> {
    let ran = scene.swb(&["status", "--json"]);
    let status: Json = serde_json::from_str(&ran.stdout).expect("it is JSON");
    let servers = status["servers"].as_array().expect("a list").iter();
    servers.map(|it| format!("{}: {}", it["name"], it["state"]).replace('"', "")).collect()
}

fn tokens(server: &ScriptedServer) -> Vec<Option<String>> {
    let requests = server.requests();
    requests.iter().map(|it| it.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn the_token_of_a_file_stands_in_for_a_login_and_is_read_again_when_it_is_refused() {
    let (service, scene) = setup();
    let settings = json!({
        "mcpServers": {"a": guarded(&service)},
        "sessionIngress": in_file(&scene, &service.origin()),
    });
    scene.write(USER, &settings.to_string());
    assert_eq!(statuses(&scene), ["a: connected"]);
    let old = service.bearer_token();
    service.rotate_token();
    assert_eq!(statuses(&scene), ["a: session-refused"]);
    let ran = scene.swb(&["status"]);
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(all.contains("the server refuses the token of this session"), "{all}");
    assert!(all.contains("sessionIngress"), "{all}");
    assert!(!all.contains(&old), "{all}");
    let named = scene.swb(&["login", "a"]);
    named.expect_failure(8);
    assert_eq!(times_opened(&scene), 0, "no browser helps");
    scene.write("~/token", &service.bearer_token());
    assert_eq!(statuses(&scene), ["a: connected"]);
}

#[test]
fn a_running_session_reads_a_renewed_token_after_a_refusal() {
    let (service, scene) = setup();
    let settings = json!({
        "mcpServers": {"a": guarded(&service)},
        "permissions": {"allow": ["mcp__a"]},
        "sessionIngress": in_file(&scene, &service.origin()),
    });
    scene.write(USER, &settings.to_string());
    let before = service.requests().len();
    let watch = crate::status::Watch::start(&scene);
    watch.wait_for("it is connected", |line| line["state"] == "connected");
    let fresh = service.rotate_token();
    scene.write("~/token", &fresh);
    // The next request of the running program is refused with the old token, and repeated with the new one.
    scene.swb(&["reconnect", "a"]).expect_success();
    let fresh = format!("Bearer {fresh}");
    wait_for(|| {
        let requests = service.requests();
        let mut later = requests[before..].iter();
        later.any(|it| it.header("authorization") == Some(fresh.as_str()))
    });
    watch.interrupt();
}

#[test]
fn a_websocket_server_gets_the_token_and_a_renewed_one_after_a_refusal() {
    let script =
        |token: &str| Script::both().quirk(Quirk::RequiresBearer { token: token.to_owned() });
    let server = ScriptedServer::ws(script("first"));
    let (_service, scene) = setup();
    scene.write("~/token", "first");
    let settings = json!({
        "mcpServers": {"a": {"type": "ws", "url": server.url()}},
        "sessionIngress": in_file(&scene, &server.url().replacen("ws:", "http:", 1)),
    });
    scene.write(USER, &settings.to_string());
    let watch = crate::status::Watch::start(&scene);
    watch.wait_for("it is connected", |line| line["state"] == "connected");
    // The server comes back and wants another token, which is in the file by then.
    scene.write("~/token", "second");
    let server = server.restart(script("second"));
    wait_for(|| tokens(&server).contains(&Some("Bearer second".to_owned())));
    watch.interrupt();
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.write("~/token", "third");
    assert_eq!(statuses(&scene), ["a: session-refused"]);
}

#[test]
fn the_environment_names_the_token_and_ours_comes_first() {
    let (service, mut scene) = setup();
    let own = scene.path("~/token").display().to_string();
    scene.write("~/other", "canary");
    let other = scene.path("~/other").display().to_string();
    let settings = json!({
        "mcpServers": {"a": guarded(&service)},
        "sessionIngress": {"url": service.origin()},
    });
    scene.write(USER, &settings.to_string());
    assert_eq!(statuses(&scene), ["a: needs-auth"], "no token, so the server may be logged in to");
    scene.set_env("CLAUDE_SESSION_INGRESS_TOKEN_FILE", &own);
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.set_env("CLAUDE_SESSION_INGRESS_TOKEN_FILE", "");
    scene.set_env("CLAUDE_CODE_SESSION_ACCESS_TOKEN", &service.bearer_token());
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.set_env("CLAUDE_CODE_SESSION_ACCESS_TOKEN", "canary");
    scene.set_env("CLAUDE_SESSION_INGRESS_TOKEN_FILE", &other);
    scene.set_env("SWB_SESSION_TOKEN", &service.bearer_token());
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.set_env("SWB_SESSION_TOKEN", "canary");
    scene.set_env("SWB_SESSION_TOKEN_FILE", &own);
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.write(USER, &json!({"mcpServers": {"a": guarded(&service)}}).to_string());
    assert_eq!(statuses(&scene), ["a: needs-auth"], "nothing names the origin");
    scene.set_env("SWB_SESSION_URL", &service.origin());
    assert_eq!(statuses(&scene), ["a: connected"]);
    scene.set_env("SWB_SESSION_URL", "http://in.example/");
    let ran = scene.swb(&["status"]);
    assert!(ran.expect_failure(2).contains("SWB_SESSION_URL"), "{}", ran.to_snapshot());
    // A project names neither the origin nor the token.
    scene.set_env("SWB_SESSION_URL", "");
    scene.write(".env", &format!("SWB_SESSION_URL={}\n", service.origin()));
    let project = json!({"mcpServers": {}, "sessionIngress": in_file(&scene, &service.origin())});
    scene.write(".mcp.json", &project.to_string());
    assert_eq!(statuses(&scene), ["a: needs-auth"]);
}

#[test]
fn the_token_goes_to_http_and_websocket_servers_of_its_origin_and_to_nobody_else() {
    let (http, other) =
        (ScriptedServer::http(Script::both()), ScriptedServer::http(Script::both()));
    let (ws, sse) = (ScriptedServer::ws(Script::both()), ScriptedServer::sse(Script::legacy()));
    let (_service, scene) = setup();
    scene.write("~/token", "canary-token");
    let entry = |kind: &str, server: &ScriptedServer| json!({"type": kind, "url": server.url()});
    let connect = |origin: &ScriptedServer| {
        let mut own = entry("http", &http);
        own["headers"] = json!({"Authorization": "Bearer own", "X-Own": "1"});
        let settings = json!({
            "mcpServers": {
                "http": entry("http", &http), "other": entry("http", &other), "own": own,
                "sse": entry("sse", &sse), "ws": entry("ws", &ws),
            },
            "sessionIngress": in_file(&scene, &origin.url().replacen("ws:", "http:", 1)),
        });
        scene.write(USER, &settings.to_string());
        let shown = statuses(&scene);
        assert!(shown.iter().all(|it| it.ends_with(": connected")), "{shown:?}");
    };
    let canary = Some("Bearer canary-token".to_owned());
    connect(&http);
    let seen = tokens(&http);
    assert!(seen.contains(&canary) && seen.contains(&Some("Bearer own".to_owned())), "{seen:?}");
    assert!(!seen.contains(&None), "{seen:?}");
    for elsewhere in [&other, &sse, &ws] {
        assert!(!tokens(elsewhere).contains(&canary), "{:?}", tokens(elsewhere));
    }
    connect(&ws);
    assert!(tokens(&ws).contains(&canary), "{:?}", tokens(&ws));
    connect(&sse);
    assert!(!tokens(&sse).contains(&canary), "only http and ws get it: {:?}", tokens(&sse));
    assert!(!tokens(&other).contains(&canary));
    let logs = std::fs::read_dir(scene.path("~/.local/state/switchboard")).expect("it is there");
    for file in logs.flatten().filter(|it| it.path().is_file()) {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        assert!(!text.contains("canary-token"), "{}", file.path().display());
    }
}

#[test]
fn a_token_that_cannot_be_read_is_explained() {
    let (service, scene) = setup();
    for (text, expected) in [("", "is empty"), ("a\u{7}b", "cannot be sent as a header")] {
        scene.write("~/token", text);
        let settings = json!({
            "mcpServers": {"a": guarded(&service)},
            "sessionIngress": in_file(&scene, &service.origin()),
        });
        scene.write(USER, &settings.to_string());
        let ran = scene.swb(&["status"]);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains("session refused") && all.contains(expected), "{all}");
    }
    std::fs::remove_file(scene.path("~/token")).expect("it is ours");
    let ran = scene.swb(&["status"]);
    assert!(ran.stderr.contains("sessionIngress.token"), "{}", ran.to_snapshot());
}

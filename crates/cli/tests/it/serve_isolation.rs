//! Isolation between the clients of one gateway: which of them share a server process, which working folder each has,
//! and which tools each may see and call.

use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::wait_until_exited;
use testkit::{Sandbox, Script, ScriptedProgram};

use crate::http_gateway::{GatewayClient, HttpGateway, LegacySession, write_token_file};
use crate::support::{USER, scene};

const TIMEOUT: Duration = Duration::from_secs(20);
const ADA: &str = "ada-0123456789abcdef0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef0123456789abcdef";

fn write_tokens(scene: &Sandbox) -> String {
    write_token_file(scene, &[("ada", ADA), ("bob", BOB)])
}

fn modern_client<'a>(gateway: &'a HttpGateway, token: &'a str) -> GatewayClient<'a> {
    GatewayClient::Modern { gateway, token: Some(token) }
}

/// The ids of the processes that serve a client, one per era.
#[track_caller]
fn processes(client: GatewayClient<'_>) -> [u64; 2] {
    ["old", "new"].map(|server| {
        let who = client.call(&format!("mcp__{server}__whoami"), json!({}));
        who["structuredContent"]["pid"].as_u64().unwrap_or_else(|| panic!("no number: {who}"))
    })
}

/// A gateway in front of two stdio servers.
fn gateway_with_programs(scene: &Sandbox, sharing: &[&str]) -> HttpGateway {
    let (old, new) = (Script::legacy().name("old"), Script::modern().name("new"));
    let entries = format!(
        "\"old\": {}, \"new\": {}",
        ScriptedProgram::config_entry(&old),
        ScriptedProgram::config_entry(&new)
    );
    scene.write_servers(USER, &entries);
    let tokens = write_tokens(scene);
    HttpGateway::start_pool(scene, &[&["--token-file", &tokens], sharing].concat())
}

#[test]
fn all_principals_share_a_process_if_configured() {
    let scene = scene();
    let gateway = gateway_with_programs(&scene, &["--sharing", "everybody"]);
    let ada = processes(modern_client(&gateway, ADA));
    assert_eq!(processes(modern_client(&gateway, BOB)), ada);
    let session = LegacySession::initialize(&gateway, Some(BOB));
    assert_eq!(processes(GatewayClient::Legacy(&session)), ada);
    gateway.terminate();
}

#[test]
fn each_principal_has_a_process_that_its_sessions_share() {
    // With token authentication, `principal` is the default.
    for sharing in [&["--sharing", "principal"][..], &[]] {
        let scene = scene();
        let gateway = gateway_with_programs(&scene, sharing);
        let [ada, bob] = [ADA, BOB].map(|it| processes(modern_client(&gateway, it)));
        assert!(ada.iter().zip(&bob).all(|(one, other)| one != other), "{ada:?} {bob:?}");
        assert_eq!(processes(modern_client(&gateway, ADA)), ada);
        let sessions = [(); 2].map(|()| LegacySession::initialize(&gateway, Some(ADA)));
        for session in &sessions {
            assert_eq!(processes(GatewayClient::Legacy(session)), ada);
        }
        gateway.terminate();
    }
}

#[test]
fn each_session_has_a_process_that_ends_with_it() {
    let scene = scene();
    let gateway = gateway_with_programs(&scene, &["--sharing", "session"]);
    let [one, other, third] =
        [ADA, ADA, BOB].map(|it| LegacySession::initialize(&gateway, Some(it)));
    let of = |session: &LegacySession<'_>| processes(GatewayClient::Legacy(session));
    let mut all =
        [of(&one), of(&other), of(&third), processes(modern_client(&gateway, ADA))].concat();
    let first = of(&one);
    assert_eq!(first[..], all[..2], "a session keeps what it has");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8, "each has its own: {all:?}");
    one.end();
    for process in first {
        wait_until_exited(u32::try_from(process).expect("a number"), TIMEOUT);
    }
    assert!(all.contains(&of(&other)[0]), "what is another's stays");
    gateway.terminate();
}

#[test]
fn each_session_of_the_workspace_has_its_own_folder_and_read_files() {
    let scene = scene();
    scene.write("a.txt", "one\n").write("below/b.txt", "two\n");
    let gateway = HttpGateway::start(&scene, &["--no-auth"]);
    let sessions = [(); 2].map(|()| LegacySession::initialize(&gateway, None));
    let [one, other] = sessions.each_ref().map(GatewayClient::Legacy);
    let stands = |it: GatewayClient<'_>| {
        let ran = it.call("Bash", json!({"command": "pwd"}));
        ran["structuredContent"]["output"].as_str().map(|it| it.trim().to_owned())
    };
    let (here, below) = (scene.project(), scene.path("below"));
    one.call("Bash", json!({"command": "cd below"}));
    assert_eq!(stands(one), Some(below.display().to_string()));
    assert_eq!(stands(other), Some(here.display().to_string()));
    // The files that one client has read do not count as read by the other.
    let read = one.call("Read", json!({"file_path": scene.path("a.txt")}));
    assert_eq!(read["structuredContent"]["content"], "one", "{read}");
    let edit = json!({
        "file_path": scene.path("a.txt"), "old_string": "one", "new_string": "three",
    });
    let refused = other.call("Edit", edit.clone());
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(scene.read("a.txt"), "one\n");
    let edited = one.call("Edit", edit);
    assert_ne!(edited["isError"], true, "{edited}");
    assert_eq!(scene.read("a.txt"), "three\n");
    gateway.terminate();
}

/// Two servers. Ada may use everything; Bob may use one server, without some of its tools.
fn gateway_with_rules(scene: &Sandbox) -> HttpGateway {
    let open = Script::legacy().name("open").tool("od.d tool").instructions("Words of the open.");
    let shut = Script::legacy().name("shut").resources(2).prompts(1);
    let shut = shut.instructions("Words of the shut.");
    let denied = ["mcp__open__echo", "mcp__open__od_d_tool", "mcp__shut"];
    let settings = json!({
        "principals": {"bob": {"permissions": {"deny": denied}}},
        "mcpServers": {
            "open": serde_json::from_str::<Json>(&ScriptedProgram::config_entry(&open)).expect("JSON"),
            "shut": serde_json::from_str::<Json>(&ScriptedProgram::config_entry(&shut)).expect("JSON"),
        },
    });
    scene.write(USER, &settings.to_string());
    let tokens = write_tokens(scene);
    HttpGateway::start_pool(scene, &["--token-file", &tokens])
}

/// Runs a check with the clients of Ada and Bob, in both eras.
fn with_both(gateway: &HttpGateway, check: impl Fn(GatewayClient<'_>, GatewayClient<'_>)) {
    check(modern_client(gateway, ADA), modern_client(gateway, BOB));
    let [ada, bob] = [ADA, BOB].map(|it| LegacySession::initialize(gateway, Some(it)));
    check(GatewayClient::Legacy(&ada), GatewayClient::Legacy(&bob));
}

#[test]
fn a_principal_does_not_see_forbidden_tools_and_gets_the_reason() {
    let scene = scene();
    let gateway = gateway_with_rules(&scene);
    let tools = |it: GatewayClient<'_>| it.list_member("tools/list", "tools", "name");
    with_both(&gateway, |ada, bob| {
        let (hers, his) = (tools(ada), tools(bob));
        let has = |all: &[String], name: &str| all.iter().any(|it| it == name);
        let denied = ["mcp__open__echo", "mcp__open__od_d_tool", "mcp__shut__add"];
        for tool in denied {
            assert!(has(&hers, tool) && !has(&his, tool), "{tool}: {hers:?} {his:?}");
            let refused = bob.call(tool, json!({}));
            assert_eq!(refused["isError"], true, "{refused}");
            let why = refused["content"][0]["text"].as_str().expect("a text");
            assert!(why.starts_with(&format!("`{tool}` is not permitted: ")), "{why}");
            let rule = if tool.contains("shut") { "mcp__shut" } else { tool };
            assert!(why.contains(&format!("`{rule}`")), "{why}");
            let done = ada.call(tool, json!({"text": "hello", "a": 1, "b": 2}));
            assert_ne!(done["isError"], true, "{done}");
        }
        assert!(has(&his, "mcp__open__add"), "{his:?}");
        assert!(his.iter().all(|it| it.starts_with("mcp__open__")), "{his:?}");
        let sum = bob.call("mcp__open__add", json!({"a": 1, "b": 2}));
        assert_eq!(sum["structuredContent"]["sum"], 3.0, "{sum}");
    });
    gateway.terminate();
}

#[test]
fn a_principal_neither_sees_nor_reaches_a_forbidden_server() {
    let scene = scene();
    let gateway = gateway_with_rules(&scene);
    with_both(&gateway, |ada, bob| {
        for (method, list, member) in [
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate"),
            ("prompts/list", "prompts", "name"),
        ] {
            assert!(!ada.list_member(method, list, member).is_empty(), "{method}");
            assert_eq!(bob.list_member(method, list, member), [""; 0], "{method}");
        }
        let prompt = "mcp__shut__prompt_0";
        let argument = json!({"name": "topic", "value": "ap"});
        let of_prompt = json!({"type": "ref/prompt", "name": prompt});
        let of_template = json!({"type": "ref/resource", "uri": "scripted://resource/{number}"});
        for (method, params) in [
            ("resources/read", json!({"uri": "scripted://resource/0"})),
            // A resource that is in no list.
            ("resources/read", json!({"uri": "scripted://blob"})),
            ("prompts/get", json!({"name": prompt})),
            ("completion/complete", json!({"ref": of_prompt, "argument": argument})),
            ("completion/complete", json!({"ref": of_template, "argument": argument})),
        ] {
            ada.result(method, params.clone());
            let refused = bob.request(method, params);
            assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        }
    });
    gateway.terminate();
}

#[test]
fn a_forbidden_server_sends_a_principal_no_updates_and_no_instructions() {
    let scene = scene();
    let gateway = gateway_with_rules(&scene);
    let uri = "scripted://resource/0";
    let [ada, bob] = [ADA, BOB].map(|it| LegacySession::initialize(&gateway, Some(it)));
    let follow = |it: &LegacySession<'_>| {
        GatewayClient::Legacy(it).request("resources/subscribe", json!({"uri": uri}))
    };
    assert!(follow(&ada)["result"].is_object());
    assert_eq!(follow(&bob)["error"]["code"], -32602);
    let listen = json!({"notifications": {"resourceSubscriptions": [uri]}});
    for (token, expected) in [(ADA, json!([uri])), (BOB, json!([]))] {
        let told = gateway.first_event(token, "subscriptions/listen", listen.clone());
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
        assert_eq!(told["params"]["notifications"]["resourceSubscriptions"], expected, "{told}");
    }
    // The instructions do not mention the server either.
    let words = |it: &Json| it["instructions"].as_str().unwrap_or_default().to_owned();
    let discovered = |it| words(&modern_client(&gateway, it).result("server/discover", json!({})));
    for (hers, his) in [
        (words(&ada.initialize_result), words(&bob.initialize_result)),
        (discovered(ADA), discovered(BOB)),
    ] {
        assert!(hers.contains("Words of the shut") && hers.contains("Words of the open"), "{hers}");
        assert!(his.contains("Words of the open") && !his.contains("shut"), "{his}");
    }
    gateway.terminate();
}

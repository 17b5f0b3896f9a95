//! `swb serve --pool`: all servers as one, over standard streams and HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::processes::{is_alive, processes_with_environment, wait_until};
use testkit::real_servers;
use testkit::real_servers::{RealServer, ServerTransport};
use testkit::{Quirk, Sandbox, Script, ScriptedProgram, scripted};

use crate::http_gateway::{GatewayClient, HttpGateway, LegacySession, write_token_file};
use crate::serve::StdioClient;
use crate::support::{USER, real_entry, scene};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn check_nothing_left(mark: &str) {
    wait_until(TIMEOUT, "nothing is left", || {
        processes_with_environment(mark).is_empty().then_some(())
    });
}

/// Two servers with the same tools; the first has an additional one.
fn configure_two(scene: &Sandbox, more: &str) {
    let (one, two) = (Script::legacy().name("one").tools(1), Script::modern().name("two"));
    scene.write(
        USER,
        &format!(
            "{{{more}\"mcpServers\": {{\"one\": {}, \"two\": {}}}}}",
            ScriptedProgram::config_entry(&one.prompts(1)),
            ScriptedProgram::config_entry(&two.prompts(1))
        ),
    );
}

/// The names of the listed items. Notifications that arrive before the response are skipped.
pub(crate) fn listed_names(raw: &mut StdioClient, method: &str, member: &str) -> Vec<String> {
    let listed = request(raw, method, json!({}));
    let all = listed[member].as_array().expect("a list");
    all.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
}

/// The next message.
pub(crate) fn next_message(raw: &mut StdioClient) -> Json {
    let mut line = String::new();
    raw.output.read_line(&mut line).expect("a message");
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
}

/// Sends a request and returns its result. Notifications that arrive before the response are skipped.
pub(crate) fn request(raw: &mut StdioClient, method: &str, params: Json) -> Json {
    raw.send_request(method, params);
    loop {
        let message = next_message(raw);
        if message["id"] == raw.last_id {
            assert!(message["error"].is_null(), "{message}");
            return message["result"].clone();
        }
    }
}

fn call_tool(raw: &mut StdioClient, tool: &str, arguments: Json) -> Json {
    request(raw, "tools/call", json!({"name": tool, "arguments": arguments}))
}

#[test]
fn the_pool_is_one_server_over_standard_streams_in_either_era() {
    for connect in [StdioClient::legacy, StdioClient::modern] {
        let scene = scene();
        configure_two(&scene, "");
        let mut raw = connect(&scene, &["--pool", "--mode", "bypass"]);
        let mark = format!("SWITCHBOARD_OWNER={}.", raw.child.id());
        let tools = listed_names(&mut raw, "tools/list", "tools");
        assert!(tools.contains(&"mcp__one__tool_0".to_owned()), "{tools:?}");
        assert!(tools.contains(&"mcp__two__echo".to_owned()), "{tools:?}");
        for server in ["one", "two"] {
            let who = call_tool(&mut raw, &format!("mcp__{server}__whoami"), json!({}));
            assert_eq!(who["structuredContent"]["name"], server, "{who}");
            let prompt =
                json!({"name": format!("mcp__{server}__prompt_0"), "arguments": {"topic": "x"}});
            assert!(request(&mut raw, "prompts/get", prompt)["messages"].is_array());
        }
        raw.input = None;
        assert_eq!(raw.wait_exit().0, Some(0));
        check_nothing_left(&mark);
    }
}

#[test]
fn a_server_without_resources_does_not_hide_one_with_resources() {
    let scene = scene();
    let (one, two) = (Script::legacy(), Script::legacy().resources(1));
    let entries = format!(
        "\"one\": {}, \"two\": {}",
        ScriptedProgram::config_entry(&one),
        ScriptedProgram::config_entry(&two)
    );
    scene.write_servers(USER, &entries);
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    assert_eq!(listed_names(&mut raw, "resources/list", "resources"), ["resource_0"]);
    assert!(listed_names(&mut raw, "tools/list", "tools").contains(&"mcp__one__echo".to_owned()));
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn names_are_prefixed_plain_or_prefixed_on_collision() {
    let scene = scene();
    configure_two(&scene, "");
    let listed = |arguments: &[&str]| {
        let arguments = [&["--pool"], arguments].concat();
        let mut raw = StdioClient::legacy(&scene, &arguments);
        let found = (
            listed_names(&mut raw, "tools/list", "tools"),
            listed_names(&mut raw, "prompts/list", "prompts"),
        );
        raw.input = None;
        assert_eq!(raw.wait_exit().0, Some(0));
        found
    };
    let has = |names: &[String], name: &str| names.iter().filter(|it| *it == name).count();
    let (tools, prompts) = listed(&["--names", "prefixed"]);
    assert_eq!((has(&tools, "mcp__one__echo"), has(&tools, "mcp__two__echo")), (1, 1));
    assert_eq!((has(&tools, "echo"), prompts.len()), (0, 2), "{prompts:?}");
    let (tools, prompts) = listed(&["--names", "plain"]);
    assert_eq!((has(&tools, "echo"), has(&tools, "tool_0")), (1, 1), "{tools:?}");
    assert_eq!(prompts, ["prompt_0"]);
    assert!(tools.iter().all(|it| !it.starts_with("mcp__")), "{tools:?}");
    let (tools, prompts) = listed(&["--names", "on-collision"]);
    assert_eq!((has(&tools, "mcp__one__echo"), has(&tools, "mcp__two__echo")), (1, 1));
    assert_eq!((has(&tools, "echo"), has(&tools, "tool_0")), (0, 1), "{tools:?}");
    assert_eq!(prompts, ["mcp__one__prompt_0", "mcp__two__prompt_0"]);
    // Only the named tools are exposed, and nothing of a server that is not named.
    let (tools, prompts) = listed(&["--expose", "one__e*,one__add"]);
    let expected = [
        "mcp__one__add",
        "mcp__one__echo",
        "mcp__one__end_listening",
        "mcp__one__env",
        "mcp__one__explode",
    ];
    assert_eq!(tools, expected);
    assert_eq!(prompts, ["mcp__one__prompt_0"]);
    let (tools, _) = listed(&["--expose", "two"]);
    assert!(!tools.is_empty() && tools.iter().all(|it| it.starts_with("mcp__two__")), "{tools:?}");
}

#[test]
fn a_tool_that_is_not_exposed_cannot_be_called() {
    let scene = scene();
    configure_two(&scene, "");
    let mut raw =
        StdioClient::legacy(&scene, &["--pool", "--mode", "bypass", "--expose", "one__add"]);
    raw.send_request("tools/call", json!({"name": "mcp__one__echo", "arguments": {}}));
    assert_eq!(next_message(&mut raw)["error"]["code"], -32602);
    raw.send_request("prompts/get", json!({"name": "mcp__two__prompt_0"}));
    assert_eq!(next_message(&mut raw)["error"]["code"], -32602);
    assert_eq!(
        call_tool(&mut raw, "mcp__one__add", json!({"a": 1, "b": 2}))["structuredContent"]["sum"],
        3.0
    );
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_denied_tool_is_neither_found_nor_called() {
    let scene = scene();
    configure_two(
        &scene,
        r#""permissions": {"deny": ["mcp__one__echo", "mcp__two__echo(text=secret)"]}, "#,
    );
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass", "--tools", "search"]);
    assert_eq!(listed_names(&mut raw, "tools/list", "tools"), ["search_tools", "call_tool"]);
    let found =
        call_tool(&mut raw, "search_tools", json!({"query": "echo returns its text", "limit": 50}));
    let found = found["structuredContent"]["tools"].as_array().expect("a list").clone();
    let found: Vec<&str> = found.iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(found.contains(&"mcp__two__echo") && !found.contains(&"mcp__one__echo"), "{found:?}");
    let through = |raw: &mut StdioClient, tool: &str, text: &str| {
        call_tool(raw, "call_tool", json!({"name": tool, "arguments": {"text": text}}))
    };
    let allowed = through(&mut raw, "mcp__two__echo", "fine");
    assert_eq!(allowed["content"][0]["text"], "fine", "{allowed}");
    for (tool, text) in [("mcp__one__echo", "x"), ("mcp__two__echo", "secret")] {
        let inner = json!({"name": tool, "arguments": {"text": text}});
        for params in [json!({"name": "call_tool", "arguments": inner}), inner.clone()] {
            raw.send_request("tools/call", params);
            let answer = next_message(&mut raw);
            let is_denied = answer["result"]["isError"] == true || answer["error"].is_object();
            assert!(is_denied, "{answer}");
        }
    }
    // Not indirectly either: `call_tool` does not call itself.
    let around =
        json!({"name": "call_tool", "arguments": {"name": "mcp__one__echo", "arguments": {}}});
    raw.send_request("tools/call", json!({"name": "call_tool", "arguments": around}));
    assert_eq!(next_message(&mut raw)["error"]["code"], -32602);
    let text = format!("{}{}", "[".repeat(300), "]".repeat(300));
    raw.last_id += 1;
    let id = raw.last_id;
    let hidden = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"mcp__two__echo","arguments":{{"text":"secret","deep":{text}}}}}}}"#
    );
    writeln!(raw.input.as_mut().expect("it is open"), "{hidden}").expect("it is read");
    let answer = next_message(&mut raw);
    assert!(!answer["result"].to_string().contains("\"secret\""), "{answer}");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_server_that_is_added_meanwhile_is_announced_and_served() {
    let scene = scene();
    scene.write_servers(
        USER,
        &format!("\"one\": {}", ScriptedProgram::config_entry(&Script::legacy())),
    );
    let mut raw = StdioClient::legacy(&scene, &["--pool", "--mode", "bypass"]);
    let before = listed_names(&mut raw, "tools/list", "tools").len();
    let both = format!(
        "\"one\": {}, \"two\": {}",
        ScriptedProgram::config_entry(&Script::legacy()),
        ScriptedProgram::config_entry(&Script::modern().name("two"))
    );
    scene.write_servers(USER, &both);
    // Notifications may arrive before or after a response; after each, the tools are listed again.
    let mut news = 0;
    loop {
        let message = next_message(&mut raw);
        news += usize::from(message["method"] == TOOLS_CHANGED);
        if news == 0 {
            continue;
        }
        raw.send_request("tools/list", json!({}));
        let listed = loop {
            let message = next_message(&mut raw);
            if message["id"] == raw.last_id {
                break message;
            }
            if message["method"] == TOOLS_CHANGED {
                raw.send_request("tools/list", json!({}));
            }
        };
        if listed["result"]["tools"].as_array().map_or(0, Vec::len) > before {
            break;
        }
    }
    let who = call_tool(&mut raw, "mcp__two__whoami", json!({}));
    assert_eq!(who["structuredContent"]["name"], "two");
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn over_http_a_client_without_a_token_is_refused_and_one_with_a_token_is_served() {
    let scene = scene();
    configure_two(&scene, "");
    let tokens = write_token_file(&scene, &[("ada", TOKEN)]);
    let gateway = HttpGateway::start_pool(&scene, &["--token-file", &tokens]);
    for token in [None, Some("wrong-0123456789abcdef0123456789")] {
        let answer = gateway.request(token, "tools/list", json!({}));
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(!answer.contains("mcp__one__echo"), "{answer}");
    }
    let answer = gateway.request(Some(TOKEN), "tools/list", json!({}));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("mcp__one__echo"), "{answer}");
    let called = json!({"name": "mcp__two__echo", "arguments": {"text": "hello"}});
    let answer = gateway.request(Some(TOKEN), "tools/call", called);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("hello"), "{answer}");
    let mark = gateway.owner_variable();
    gateway.signal("-TERM");
    assert_eq!(gateway.wait_exit(), Some(0));
    check_nothing_left(&mark);
}

#[test]
fn authentication_is_never_off_by_default() {
    let scene = scene();
    let open = |arguments: &[&str]| {
        let arguments = [&["serve", "--pool"], arguments].concat();
        let ran = scene.swb(&arguments);
        assert_eq!(ran.code, 2, "{}", ran.to_snapshot());
        ran.stderr
    };
    assert!(open(&["--http", "127.0.0.1:0"]).contains("needs an authentication option"));
    for everywhere in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let said = open(&["--http", everywhere, "--no-auth"]);
        assert!(said.contains("everyone who can reach"), "{said}");
    }
    open(&["--http", "127.0.0.1:0", "--token-file", "nowhere"]);
    open(&["--http", "127.0.0.1:0", "--token-file", "nowhere", "--no-auth"]);
    open(&["--no-auth"]);
    open(&["--http", "127.0.0.1:0", "--no-auth", "--allow-origin", "*"]);
}

#[test]
fn a_shutdown_finishes_running_calls_and_leaves_no_process() {
    let scene = scene();
    let journal = scene.path("journal");
    let script = Script::legacy().journal(&journal).quirk(Quirk::IgnoresStdinClose);
    scene.write_servers(USER, &format!("\"one\": {}", ScriptedProgram::config_entry(&script)));
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let mark = gateway.owner_variable();
    std::thread::scope(|scope| {
        let slow = json!({"name": "mcp__one__slow", "arguments": {"ms": 1500, "steps": 1}});
        let calling = scope.spawn(|| gateway.request(None, "tools/call", slow));
        wait_until(TIMEOUT, "the call is under way", || {
            scripted::read_journal(&journal)
                .iter()
                .any(|it| it["method"] == "tools/call")
                .then_some(())
        });
        gateway.signal("-TERM");
        let answer = calling.join().expect("no panic");
        assert!(answer.contains("took 1500 ms"), "{answer}");
    });
    assert_eq!(gateway.wait_exit(), Some(0));
    check_nothing_left(&mark);
}

#[test]
fn a_killed_gateway_leaves_no_server_process() {
    let scene = scene();
    let stubborn = Script::legacy()
        .quirk(Quirk::ForksGrandchildren { n: 2 })
        .quirk(Quirk::IgnoresStdinClose)
        .quirk(Quirk::IgnoresSigterm);
    scene.write_servers(USER, &format!("\"one\": {}", ScriptedProgram::config_entry(&stubborn)));
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let mark = gateway.owner_variable();
    let answer = gateway.request(
        None,
        "tools/call",
        json!({"name": "mcp__one__echo", "arguments": {"text": "x"}}),
    );
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    wait_until(TIMEOUT, "the family is there", || {
        (processes_with_environment(&mark).len() >= 4).then_some(())
    });
    gateway.signal("-KILL");
    assert_eq!(gateway.wait_exit(), None);
    check_nothing_left(&mark);
}

#[test]
fn a_legacy_client_has_a_session_over_http_and_ends_it() {
    let scene = scene();
    configure_two(&scene, "");
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let session = LegacySession::initialize(&gateway, None);
    let tools = GatewayClient::Legacy(&session).list_member("tools/list", "tools", "name");
    assert!(tools.contains(&"mcp__two__echo".to_owned()), "{tools:?}");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let foreign = "Mcp-Session-Id: 00000000000000000000000000000000\r\n";
    assert!(gateway.post(foreign, &list).starts_with("HTTP/1.1 404 "));
    session.end();
    gateway.signal("-INT");
    gateway.signal("-TERM");
    assert_eq!(gateway.wait_exit(), Some(0));
}

#[test]
fn it_is_not_ready_while_a_server_is_being_connected_to() {
    let scene = scene();
    let at_once = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(USER, &format!("\"one\": {at_once}"));
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let is = |status: &str| gateway.get("/readyz").starts_with(&format!("HTTP/1.1 {status} "));
    gateway.wait_until_ready();
    let slow = ScriptedProgram::config_entry(&Script { start_delay_ms: 2500, ..Script::legacy() });
    scene.write_servers(USER, &format!("\"one\": {at_once}, \"slow\": {slow}"));
    wait_until(TIMEOUT, "it is being connected to", || is("503").then_some(()));
    assert!(gateway.get("/healthz").starts_with("HTTP/1.1 200 "));
    assert!(!gateway.request(None, "tools/list", json!({})).contains("mcp__slow__echo"));
    wait_until(TIMEOUT, "it is connected", || is("200").then_some(()));
    wait_until(TIMEOUT, "it is served", || {
        gateway.request(None, "tools/list", json!({})).contains("mcp__slow__echo").then_some(())
    });
    gateway.terminate();
}

/// The entry of a real server whose calls need no permission.
pub(crate) fn trusted_entry(server: &RealServer) -> Json {
    let mut entry = real_entry(server);
    entry["trust"] = true.into();
    entry
}

#[test]
fn a_client_on_the_official_python_library_gets_elicitations_of_real_servers_in_both_eras() {
    let scene = scene();
    let servers = json!({"mcpServers": {
        "everything": trusted_entry(&real_servers::everything(ServerTransport::Stdio)),
        "time": trusted_entry(&real_servers::time()),
    }});
    scene.write(USER, &servers.to_string());
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let url = format!("http://{}/mcp", gateway.address);
    let program = scene.command(&scene.project(), &["serve", "--pool"]);
    let by_command = [program.get_program().into(), "serve".into(), "--pool".into()];
    for (mode, is_modern) in [("legacy", false), ("auto", true)] {
        for server in [&[url.clone().into()][..], &by_command[..]] {
            let client = real_servers::python_pool_client(mode, server);
            let mut command = std::process::Command::new(&client.command);
            command.args(&client.args).env_clear().envs(client.env.iter().cloned());
            command.env("HOME", scene.home()).env("SWB_TESTBED_MANAGED", scene.managed());
            let output = command.stdin(Stdio::null()).output().expect("Python can be run");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mode} {server:?}: {stderr}");
            let seen: Json = serde_json::from_slice(&output.stdout).expect("it is JSON");
            assert_eq!(seen["protocol"] == "2026-07-28", is_modern, "{seen:#}");
            assert_eq!(seen["echo"], "Echo: hello");
            assert!(seen["time"].as_str().expect("text").contains("UTC"), "{seen:#}");
            assert!(seen["elicited"].as_str().expect("text").contains("Ada"), "{seen:#}");
            assert!(seen["sampled"].as_str().expect("text").contains("sampled words"), "{seen:#}");
            assert_eq!(seen["asked"].as_array().map(Vec::len), Some(2), "{seen:#}");
            assert_eq!(seen["progress"].as_array().map(Vec::len), Some(3), "{seen:#}");
            assert!(seen["read"].as_u64().is_some_and(|it| it > 0), "{seen:#}");
            assert_eq!(seen["prompt"], "This is a simple prompt without arguments.");
        }
    }
    gateway.signal("-TERM");
    assert_eq!(gateway.wait_exit(), Some(0));
}

#[test]
fn a_gateway_says_which_servers_are_missing_and_why() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    scene.write_servers(
        USER,
        &format!("\"good\": {good}, \"gone\": {{\"command\": \"no-such-program-here\"}}"),
    );
    scene.write_servers(".mcp.json", &format!("\"unseen\": {good}"));
    let gateway = HttpGateway::start_pool(&scene, &["--no-auth"]);
    let ready = gateway.wait_until_ready();
    for line in [
        "missing: gone: its program was not found\n",
        "missing: unseen: it is not approved: `swb approve`\n",
    ] {
        assert!(ready.contains(line), "{ready}");
    }
    gateway.terminate();
    let mut raw = StdioClient::legacy(&scene, &["--pool"]);
    let mut stderr = BufReader::new(raw.child.stderr.take().expect("it is piped"));
    // The gateway says it once all servers were tried, which the end of its input would cut short.
    let said = stderr.by_ref().lines().map_while(Result::ok).find(|it| it.contains("are served"));
    let line = "note: 1 of 3 servers are served; missing: gone (its program was not found), \
                unseen (it is not approved: `swb approve`)";
    assert_eq!(said.as_deref(), Some(line));
    raw.child.stderr = Some(stderr.into_inner());
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
}

#[test]
fn a_server_that_does_not_stop_is_not_waited_for_and_not_left_behind() {
    let scene = scene();
    let good = ScriptedProgram::config_entry(&Script::legacy());
    let pid = scene.path("pid").display().to_string();
    let mut stubborn: Json = serde_json::from_str(&good).expect("an entry");
    // `$$` is one `$` in an entry.
    let script =
        format!("trap '' TERM INT HUP; echo $$$$ > '{pid}'; \"$@\"; while :; do sleep 1; done");
    let mut arguments = vec![json!("-c"), json!(script), json!("sh"), stubborn["command"].take()];
    arguments.extend(stubborn["args"].as_array().into_iter().flatten().cloned());
    stubborn["command"] = "sh".into();
    stubborn["args"] = arguments.into();
    scene.write_servers(USER, &format!("\"good\": {good}, \"stubborn\": {stubborn}"));
    let mut raw = StdioClient::legacy(&scene, &["--pool"]);
    let number = wait_until(TIMEOUT, "it runs", || {
        std::fs::read_to_string(&pid).ok()?.trim().parse::<u32>().ok()
    });
    raw.input = None;
    assert_eq!(raw.wait_exit().0, Some(0));
    wait_until(TIMEOUT, "the watchdog stops it", || (!is_alive(number)).then_some(()));
}
